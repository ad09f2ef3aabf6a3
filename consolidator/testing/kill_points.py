"""Kill points: kills the process with SIGKILL at the n-th boundary that the runtime passes, or records the boundaries.

A test of an agent runs it once to record its boundaries (`record_boundaries`), then once for each of them: it kills the
process there (`kill_at`) and wakes the session again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from consolidator.runtime.session import boundaries


@contextmanager
def record_boundaries() -> Iterator[list[str]]:
    """Yield a list to which the name of each boundary is appended as it is passed."""
    passed: list[str] = []
    with _boundary_hook(passed.append):
        yield passed


@contextmanager
def kill_at(number: int, name: str | None = None) -> Iterator[None]:
    """Kill this process at the n-th boundary, or the n-th of a name, counted from 1; with 0 never."""
    with interrupt_at(number, lambda _: os.kill(os.getpid(), signal.SIGKILL), name):
        yield


@contextmanager
def interrupt_at(number: int, callback: Callable[[str], None], name: str | None = None) -> Iterator[None]:
    """Call a function at the n-th boundary, or the n-th of a name: to stop the process, or to let another overtake."""
    passed = 0

    def count_boundary(boundary_name: str) -> None:
        nonlocal passed
        passed += name is None or boundary_name == name
        if passed == number and (name is None or boundary_name == name):
            callback(boundary_name)

    with _boundary_hook(count_boundary):
        yield


@contextmanager
def _boundary_hook(hook: boundaries.BoundaryHook) -> Iterator[None]:
    boundaries.set_hook(hook)
    try:
        yield
    finally:
        boundaries.set_hook(None)
