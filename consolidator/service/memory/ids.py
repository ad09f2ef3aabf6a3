"""Ids by their beginning: what a person types who saw a short id on a terminal."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeVar

from consolidator.database import Connection
from consolidator.errors import UsageError
from consolidator.store.memory import lookup

T = TypeVar("T")
Kind = Literal["fact", "procedure", "solution", "lesson", "candidate", "run", "dead_letter"]
MEMORY: tuple[Kind, ...] = ("fact", "procedure", "solution", "lesson", "candidate")
MIN_PREFIX = 4  # characters of an id, its kind's letters such as "sol_" aside: fewer name too much
_MAX_READ = 50  # ids of a kind that begin alike, of which those are looked for that a viewer reaches
_MAX_LISTED = 8
_PREFIX = re.compile(rf"(?:[A-Za-z]+_)?[0-9A-Za-z]{{{MIN_PREFIX},}}")
_CITATION = re.compile(r"\[?(?:(?:fact|lesson|procedure|solution|rule):)?(\w+)\]?")


async def resolve_id(
    conn: Connection, name: str, kinds: Sequence[Kind], is_reached: Callable[[str], Awaitable[bool]] | None = None
) -> str:
    """Return the whole id that `name` begins, of those that `is_reached` lets pass; `name` where there is none.

    `name` may be a citation, such as "[fact:5b0c17aa]". Raises UsageError, which lists them, where there are several.
    What is not reached counts as not there.
    """
    name = read_citation(name)
    if not _PREFIX.fullmatch(name):
        return name
    prefix = name.upper() if kinds[0] in ("run", "dead_letter") else name.lower()
    rows = await lookup.find_by_prefix(conn, prefix, kinds, limit=_MAX_READ)
    if any(row.id == prefix for row in rows):
        return prefix
    if is_reached is not None:
        rows = [row for row in rows if await is_reached(row.id)]
    if len(rows) > 1:
        raise UsageError(_describe_several(name, rows))
    return rows[0].id if rows else name


async def find_by_id(
    conn: Connection, name: str, kinds: Sequence[Kind], find: Callable[[str], Awaitable[T | None]]
) -> T | None:
    """Return what `find` returns for the whole id that `name` begins, of those for which it returns something."""

    async def is_reached(whole_id: str) -> bool:
        return await find(whole_id) is not None

    return await find(await resolve_id(conn, name, kinds, is_reached))


def read_citation(name: str) -> str:
    """Return the id in a citation; any other text as it is, without spaces around it."""
    cited = _CITATION.fullmatch(name.strip())
    return cited[1] if cited else name.strip()


def _describe_several(name: str, rows: Sequence[lookup.NamedRow]) -> str:
    from consolidator.memory.calls.argument_summary import shorten

    lines = [f"  {row.id}  {row.kind.replace('_', ' ')}: {shorten(row.title, 60)}" for row in rows[:_MAX_LISTED]]
    if len(rows) > _MAX_LISTED:
        lines.append("  …")
    return "\n".join([f"{len(rows)} ids begin with {name!r}: type more of one", *lines])
