"""All that is published, to compare memory before and after a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from consolidator.database.partitions import Connection
from consolidator.store.queries import fetch_all, load

_SQL = load("calls/published")
KINDS = ("facts", "procedures", "solutions", "lessons")


@dataclass(frozen=True, slots=True)
class PublishedItem:
    """A fact, procedure, solution or lesson; two with the same id are equal if nothing that matters has changed."""

    id: str
    line: str  # for people
    content: Any  # the rest of what is compared


async def load_published(conn: Connection) -> dict[str, dict[str, PublishedItem]]:
    """Return all that is published, by kind and id."""
    return {kind: {item.id: item for item in await fetch_all(conn, PublishedItem, _SQL[kind])} for kind in KINDS}
