"""Finds the server process of a cluster, and tells it from any other process that reuses its pid.

Nothing here starts or stops a server: `startup` and `keeper_process` do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from consolidator.database.embedded.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server that is running, starting or stopping."""

    process: psutil.Process
    status: str  # starting, stopping, ready
    socket: Path | None  # its directory; None until it has one


def find_server(cluster: Cluster) -> Postmaster | None:
    """Return the server of a cluster if it is alive."""
    lines = _read_lock_file(cluster.data)
    if len(lines) < 2 or not lines[0].isdigit():
        return None
    directory = Path(lines[1])
    if directory.exists() and not directory.samefile(cluster.data):
        return None  # the file is part of a copy of another home
    process = _find_process(int(lines[0]), lines[1], cluster.owner.uid)
    if process is None:
        return None
    socket = Path(lines[4]) if len(lines) > 4 and lines[4] else None
    return Postmaster(process, lines[7].strip() if len(lines) > 7 else "starting", socket)


def remove_stale_lock_file(cluster: Cluster) -> None:
    """Remove a dead server's lock file if its pid was reused: PostgreSQL would take that process for a server.

    Call it only after `find_server` has found none. PostgreSQL itself handles a pid that is free; and if a backend has
    outlived its server, the shared memory it holds still keeps a second server out.
    """
    lines = _read_lock_file(cluster.data)
    if not lines or not lines[0].isdigit() or psutil.pid_exists(int(lines[0])):
        (cluster.data / "postmaster.pid").unlink(missing_ok=True)


def _read_lock_file(data: Path) -> list[str]:
    """Return postmaster.pid: pid, data directory, start, port, socket directory, address, memory, status."""
    try:
        fd = os.open(data / "postmaster.pid", os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return []
    with open(fd, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(16384).split("\n")


def _find_process(pid: int, data: str, uid: int) -> psutil.Process | None:
    """Return the process if it is a server of that data directory and user; psutil remembers its start time."""
    try:
        process = psutil.Process(pid)
        words = process.cmdline()  # empty for a zombie
        if not words or os.path.basename(words[0]) != "postgres" or process.uids().real != uid:
            return None
        return process if data in words else None
    except psutil.Error:
        return None
