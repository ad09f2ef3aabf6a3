"""The keeper: a small process of its own that starts the server, outlives its users and stops it after the last one.

`startup` runs it as a script. It imports nothing of consolidator, so that it stays small, and never restarts a server.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil

FAST, IMMEDIATE, KILL = signal.SIGINT, signal.SIGQUIT, signal.SIGKILL
LOG_LIMIT = 10_000_000  # bytes; the log and the one before it
LOG_SECONDS = 60


def stop_server(server: psutil.Process) -> None:
    """Stop a server with a checkpoint if it manages one, else at once; committed data is kept either way."""
    import psutil

    for how, seconds in ((FAST, 60.0), (IMMEDIATE, 10.0), (KILL, 10.0)):
        try:
            server.send_signal(how)  # psutil refuses if the pid was reused
        except psutil.NoSuchProcess:
            return
        if wait_ended(server, seconds):
            return


def wait_ended(server: psutil.Process, seconds: float) -> bool:
    """Wait until a process has ended; return whether it has."""
    deadline = time.monotonic() + seconds
    while is_alive(server):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def is_alive(server: psutil.Process) -> bool:
    """Tell whether a process runs; a zombie does not."""
    import psutil

    try:
        return server.is_running() and server.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def run_keeper(order: dict[str, Any]) -> None:
    """Start (or adopt) a server, and stay until it has ended."""
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    starting, users = (os.open(order[name], os.O_RDWR | os.O_CLOEXEC) for name in ("starting", "users"))
    child = None if order["adopt"] else _start_server(order)
    import psutil  # imported late: it takes as long as the server's start

    try:
        server = psutil.Process(child.pid if child else order["adopt"])
    except psutil.NoSuchProcess:
        return
    threading.Thread(target=_stop_after_last_user, args=(server, starting, users), daemon=True).start()
    threading.Thread(target=_rotate_log_regularly, args=(Path(order["log"]),), daemon=True).start()
    if child:
        child.wait()
    else:
        while is_alive(server):
            time.sleep(0.5)
    _remove_socket_directory(Path(order["socket"]))


def _start_server(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        order["command"],
        stdin=subprocess.DEVNULL,
        env=order["environment"],
        cwd="/",
        umask=0o077,
        start_new_session=True,
        preexec_fn=_parent_death_hook(),  # safe: there are no threads yet
        **order["credentials"],
    )


def _parent_death_hook() -> Callable[[], None] | None:
    """Return a hook that makes the kernel stop the server when its keeper is killed; None if it cannot (not Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def request_signal() -> None:
        prctl(1, int(FAST), 0, 0, 0)  # PR_SET_PDEATHSIG

    return request_signal


def _stop_after_last_user(server: psutil.Process, starting: int, users: int) -> None:
    """Stop the server once nobody holds the users' lock; a new user holds `starting` while it joins."""
    while True:
        fcntl.flock(users, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_UN)
        fcntl.flock(starting, fcntl.LOCK_EX)
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(starting, fcntl.LOCK_UN)  # a new user has joined
        else:
            stop_server(server)
            return  # the locks are released when this process ends, after the server


def _rotate_log_regularly(log: Path) -> None:
    while True:
        time.sleep(LOG_SECONDS)
        rotate_log(log)


def rotate_log(log: Path) -> None:
    """Copy a log that has grown too long aside and truncate it; the server keeps appending to the same file."""
    try:
        if log.stat().st_size > LOG_LIMIT:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)
    except OSError:
        return  # a full disk or a removed home: nothing to do about it here


def _remove_socket_directory(socket: Path) -> None:
    """Remove the socket directory with what a killed server left in it; a new user waits for this process to end."""
    try:
        for leftover in socket.iterdir():
            leftover.unlink()
        socket.rmdir()
    except OSError:
        return


if __name__ == "__main__":
    if os.fork() == 0:
        os.setsid()
        run_keeper(json.loads(sys.argv[1]))
    os._exit(0)
