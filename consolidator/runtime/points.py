"""Boundary marks: each place where a process may die and the history must still be right has a name.

`consolidator.testing.points` listens; the kill matrix is made of the points that a run passes, so none is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Hook = Callable[[str], None]
_hook: Hook | None = None


def listen(hook: Hook | None) -> None:
    """Have a function called at every point from now on; None ends it."""
    global _hook
    _hook = hook


def point(name: str) -> None:
    """Pass a boundary."""
    if _hook is not None:
        _hook(name)


@contextmanager
def around(name: str) -> Iterator[None]:
    """Pass a boundary before and after what is done inside; the second one only where that succeeds."""
    point(f"before {name}")
    yield
    point(f"after {name}")
