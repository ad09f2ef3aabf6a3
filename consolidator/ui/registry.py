"""The pages in the order of the navigation: each is one module of `consolidator/ui/pages/`, added here by one line."""

from __future__ import annotations

from consolidator.ui.pages import (
    attention,
    brief,
    compare,
    facts,
    nights,
    procedures,
    recall,
    rules,
    sessions,
    solutions,
    system,
    today,
)
from consolidator.ui.view import PageModule

PAGES: tuple[PageModule, ...] = (
    today.PAGE,
    brief.PAGE,
    facts.PAGE,
    rules.PAGE,
    procedures.PAGE,
    solutions.PAGE,
    sessions.PAGE,
    nights.PAGE,
    recall.PAGE,
    compare.PAGE,
    attention.PAGE,
    system.PAGE,
)
