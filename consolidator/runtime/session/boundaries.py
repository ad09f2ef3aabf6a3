"""Boundaries: each place where a process may die and the history must still be right has a name.

`consolidator.testing.kill_points` sets the hook. The kill matrix must pass every boundary of this list, and the code
uses no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

Boundary = Literal[
    "lease", "renewal", "release",  # who drives the session
    "commit session", "commit configuration", "commit message", "commit verdict", "commit key", "commit end",
    "commit task", "commit scratchpad",  # people
    "commit child", "commit checkpoint", "commit sub-agent",  # lineage
    "commit fold", "compaction", "commit compaction", "commit reserve",  # before the model is asked
    "commit thinking", "model", "batch", "commit chunk", "send", "delivery",  # while it answers
    "commit response", "commit decision", "commit interruption", "commit notice", "commit spend",  # how that ended
    "commit call started", "tool", "commit results", "commit settled",
]  # fmt: skip
BoundaryHook = Callable[[str], None]  # called with "before NAME" or "after NAME"
_hook: BoundaryHook | None = None


def set_hook(hook: BoundaryHook | None) -> None:
    """Call a function at every boundary from now on; None removes it."""
    global _hook
    _hook = hook


def _call_hook(name: str) -> None:
    if _hook is not None:
        _hook(name)


@contextmanager
def boundary(name: Boundary) -> Iterator[None]:
    """Mark the work inside: pass the boundary before it, and after it unless it fails."""
    _call_hook(f"before {name}")
    yield
    _call_hook(f"after {name}")
