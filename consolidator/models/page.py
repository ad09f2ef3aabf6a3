"""A page of a list: some of its rows, and where the next page begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

T = TypeVar("T")


class Page(list[T]):
    """The rows of a page."""

    def __init__(self, rows: Iterable[T] = (), position: list[Any] | None = None) -> None:
        """Take the rows, and the position after the last one; None where no more follow."""
        super().__init__(rows)
        self.position = position
