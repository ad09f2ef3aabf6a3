"""The pages in the order of the navigation: each is one module of `consolidator/ui/pages/`, added here by one line."""

from __future__ import annotations

from consolidator.ui.pages import attention, facts, recall, sessions, today
from consolidator.ui.view import Entry, PageModule

PAGES: tuple[PageModule, ...] = (
    today.PAGE,
    facts.PAGE,
    sessions.PAGE,
    recall.PAGE,
    attention.PAGE,
)
NAVIGATION: tuple[Entry, ...] = tuple(page.entry for page in PAGES)
