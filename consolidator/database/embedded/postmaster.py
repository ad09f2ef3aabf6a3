"""The server that runs a cluster, told from any other process that happens to have its pid.

It looks and never acts: starting is `launch`'s, stopping is `watch`'s.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from consolidator.database.embedded.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server that is running, or on its way up or down."""

    process: psutil.Process
    status: str  # starting, stopping, ready
    socket: Path | None  # its directory; None until it has one


def find(cluster: Cluster) -> Postmaster | None:
    """Return the server of a cluster if it is alive."""
    lines = _lock_file(cluster.data)
    if len(lines) < 2 or not lines[0].isdigit():
        return None
    told = Path(lines[1])
    if told.exists() and not told.samefile(cluster.data):
        return None  # the file came here with a copy of another home
    process = _identified(int(lines[0]), lines[1], cluster.owner.uid)
    if process is None:
        return None
    socket = Path(lines[4]) if len(lines) > 4 and lines[4] else None
    return Postmaster(process, lines[7].strip() if len(lines) > 7 else "starting", socket)


def forget_recycled(cluster: Cluster) -> None:
    """Remove a dead server's lock file whose pid is another process's now: PostgreSQL would take that for a server.

    Only after `find` has found none. Where PostgreSQL's own checks suffice the file is left to them; and should a
    backend have outlived its server, its shared memory still keeps a second server out.
    """
    lines = _lock_file(cluster.data)
    if not lines or not lines[0].isdigit() or psutil.pid_exists(int(lines[0])):
        (cluster.data / "postmaster.pid").unlink(missing_ok=True)


def _lock_file(data: Path) -> list[str]:
    """Return postmaster.pid: pid, data directory, start, port, socket directory, address, memory, status."""
    try:
        fd = os.open(data / "postmaster.pid", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return []
    with open(fd, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(16384).split("\n")


def _identified(pid: int, data: str, uid: int) -> psutil.Process | None:
    """Return the process if it is a server of that data directory and that user; psutil adds its start time to that."""
    try:
        process = psutil.Process(pid)
        words = process.cmdline()  # empty for a zombie
        if not words or os.path.basename(words[0]) != "postgres" or process.uids().real != uid:
            return None
        return process if data in words else None
    except psutil.Error:
        return None
