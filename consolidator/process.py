"""This process: its name as an owner of leases, by which others can tell when it has ended, and its threads."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import math
import os
import platform
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar, cast

import psutil
from ulid import ULID

T = TypeVar("T")


def owner_name() -> str:
    """Return a new owner name in this process; `has_ended` tells from it whether the process still runs."""
    return f"{_machine_id()}/{os.getpid()}/{_start_time(os.getpid())}/{ULID()}"


def machine_prefix() -> str:
    """Return the beginning of the names of all owners on this machine."""
    return f"{_machine_id()}/"


def has_ended(owner: str) -> bool:
    """Tell whether an owner's process ran on this machine and has ended; False for any other machine's."""
    machine, pid, started, *_ = [*owner.rsplit("/", 3), "", "", ""]
    if machine != _machine_id() or not pid.isdigit():
        return False
    return _start_time(int(pid)) != started


def describe_owner(owner: str) -> str:
    """Return an owner's process as a person would name it."""
    machine, pid, *_ = [*owner.rsplit("/", 3), ""]
    return f"process {pid} on {machine.partition('/')[0]}" if pid.isdigit() else f"another process ({owner})"


def count_cores() -> int:
    """Return how many cores this process may use: those of the machine, fewer where it or its container has fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no control group of version 2, or "max": no limit
        return cores


def _start_time(pid: int) -> str:
    """Return when a process started, which tells a reused pid apart; empty if it has ended.

    On Linux in ticks since the boot, since the time of day moves when the clock is set.
    """
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        )  # the name before may contain anything, even ")"
        return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    except (OSError, IndexError):  # no such process, or no Linux
        pass
    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return ""


@lru_cache(maxsize=1)
def _machine_id() -> str:
    """Return a name of this machine, boot and PID namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        inside = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        boot, inside = str(int(psutil.boot_time())), 0
    return f"{platform.node()}/{boot}/{inside}"


async def run_in_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread of its own, which is left behind where its caller is cancelled.

    A pool would fill up with hanging threads, and the process would wait for them at its exit.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def set_result(result: T | None, error: BaseException | None) -> None:
        if not future.done():
            future.set_result((result, error))

    def run() -> None:
        result, failure = None, None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - raised again in the task that waits
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(set_result, result, failure)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), name="function", daemon=True).start()
    result, failure = await future
    if failure is not None:
        raise failure
    return cast(T, result)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause cyclic GC while much is allocated and few cycles are made: a collection walks all objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
