"""Names this process, as the holder of something, so that others on the same machine can tell when it is gone."""

from __future__ import annotations

import os
import platform
from functools import lru_cache
from pathlib import Path

import psutil
from ulid import ULID


def owner_name() -> str:
    """Return a name for a holder in this process that tells another on the same machine whether it still lives."""
    return f"{_machine()}/{os.getpid()}/{_started(os.getpid())}/{ULID()}"


def is_gone(owner: str) -> bool:
    """Tell whether a holder's process ran on this machine and has ended; of another machine nobody can tell."""
    machine, pid, started, *_ = [*owner.rsplit("/", 3), "", "", ""]
    if machine != _machine() or not pid.isdigit():
        return False
    return _started(int(pid)) != started


def _started(pid: int) -> str:
    """Return when a process began, which a recycled pid did not; empty where it has ended.

    In ticks since the boot where the system tells them: a time of the day moves when the clock is set.
    """
    try:
        told = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()  # a name may hold anything, even ")"
        return "" if told[0] in (b"Z", b"X") else told[19].decode()
    except (OSError, IndexError):  # no such process, or no Linux
        pass
    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return ""


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return what tells machines, their boots and their containers apart."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        inside = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        boot, inside = str(int(psutil.boot_time())), 0
    return f"{platform.node()}/{boot}/{inside}"
