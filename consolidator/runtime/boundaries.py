"""Boundary marks: each place where a process may die and the history must still be right has a name.

`consolidator.testing.kill_points` listens. The kill matrix must pass each that is listed here, and no other is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

Boundary = Literal[
    "lease", "renewal", "release",  # who drives the session
    "commit session", "commit configuration", "commit message", "commit word", "commit current", "commit end",  # people
    "commit fold", "compaction", "commit compaction", "commit reserve",  # before the model is asked
    "commit thinking", "model", "batch", "commit chunk", "send", "delivery",  # while it answers
    "commit response", "commit decision", "commit interruption", "commit notice", "commit spend",  # how that ended
    "commit call started", "tool", "commit results", "commit settled",
]  # fmt: skip
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
def around(name: Boundary) -> Iterator[None]:
    """Pass a boundary before and after what is done inside; the second one only where that succeeds."""
    point(f"before {name}")
    yield
    point(f"after {name}")
