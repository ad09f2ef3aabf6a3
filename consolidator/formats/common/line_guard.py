"""Keep what a reader fails on to its one line: a problem with its number, and the lines after it are still read."""

from __future__ import annotations

from collections.abc import Iterator

from consolidator.formats.base import Item, Problem


def guard_line(items: Iterator[Item], line: int | None) -> Iterator[Item]:
    """Yield the items of one line or record; a Problem instead of all of them if its reader fails on it.

    The values of an error stay out of the message: they may be anything that the line holds.
    """
    try:
        understood = list(items)
    except Exception as error:  # noqa: BLE001 - a line is whatever another program wrote
        understood = [Problem(f"a value of this line is of a kind that cannot be read ({type(error).__name__})", line)]
    yield from understood
