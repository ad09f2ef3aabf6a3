"""System: health, database, service, sources, tokens, and the settings with where each comes from."""

from __future__ import annotations

from starlette.responses import Response

from consolidator.service.system import load_system
from consolidator.ui.view import Entry, PageModule, PageRequest, route


async def show_system(page: PageRequest) -> Response:
    """Show the state of the installation."""
    services = page.services
    system = await load_system(services.database, services.settings, viewer=page.viewer)
    return page.show("system.html", system=system)


PAGE = PageModule(Entry("/system", "Health and settings"), (route("/system", show_system),))
