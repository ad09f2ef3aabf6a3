"""Runs a block on a few cores of this machine, with the database server that it uses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil


def count_usable_cores() -> int:
    """Return how many cores may be chosen from; 1 where the system cannot choose."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


@contextmanager
def on_cores(count: int, backend: int) -> Iterator[None]:
    """Keep this process, and the server that has this backend, to some cores; what they start inherits that."""
    allowed = os.sched_getaffinity(0)
    server = psutil.Process(backend).parent()
    assert server is not None
    processes = [psutil.Process(), server, *server.children()]
    tasks = [thread.id for process in processes for thread in process.threads()]
    try:
        _set_affinity(tasks, set(sorted(allowed)[:count]))
        yield
    finally:
        _set_affinity(tasks, allowed)


def _set_affinity(tasks: list[int], cores: set[int]) -> None:
    for task in tasks:
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(task, cores)
