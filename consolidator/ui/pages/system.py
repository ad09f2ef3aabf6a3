"""System: health, database, service, sources, tokens, and the settings with where each comes from."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from consolidator.service.system import load_system
from consolidator.ui.view import Entry, PageModule, services_of, show_page, viewer_of


async def show_system(request: Request) -> Response:
    """Show the state of the installation."""
    services = services_of(request)
    system = await load_system(services.database, services.settings, viewer=viewer_of(request))
    return show_page(request, "system.html", system=system)


PAGE = PageModule(Entry("/system", "System"), (Route("/system", show_system),))
