"""The four sections of the navigation, and their pages; a view that no section names is not there."""

from __future__ import annotations

from consolidator.ui.pages import (
    attention,
    brief,
    compare,
    facts,
    nights,
    procedures,
    projects,
    recall,
    rules,
    search,
    sessions,
    solutions,
    system,
    today,
)
from consolidator.ui.view import PageModule, Section

SECTIONS: tuple[Section, ...] = (
    Section("Today", (today.PAGE, attention.PAGE)),
    Section(
        "Memory",
        (projects.PAGE, brief.PAGE, facts.PAGE, solutions.PAGE, procedures.PAGE, rules.PAGE, recall.PAGE),
    ),
    Section("Sessions", (sessions.PAGE, compare.PAGE)),
    Section("System", (nights.PAGE, system.PAGE)),
)
PAGES: tuple[PageModule, ...] = tuple(page for section in SECTIONS for page in section.pages)
ROUTES = tuple(route for page in (*PAGES, search.PAGE) for route in page.routes)
