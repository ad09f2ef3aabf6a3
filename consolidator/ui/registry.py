"""The pages in the order of the navigation: each is one module of `consolidator/ui/pages/`, added here by one line."""

from __future__ import annotations

from consolidator.ui.pages import attention, compare, facts, recall, rules, sessions, system, today
from consolidator.ui.view import Entry, PageModule

PAGES: tuple[PageModule, ...] = (
    today.PAGE,
    facts.PAGE,
    rules.PAGE,
    sessions.PAGE,
    recall.PAGE,
    compare.PAGE,
    attention.PAGE,
    system.PAGE,
)
NAVIGATION: tuple[Entry, ...] = tuple(page.entry for page in PAGES)
