"""The keeper: a small process of its own that starts the server, outlives its users and stops it after the last one.

Run as a script by `launch`, it imports nothing of consolidator, so that it stays small. It never restarts a server.
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


def stop(server: psutil.Process) -> None:
    """Stop a server: by a checkpoint if it can, else at once; what was committed is kept either way."""
    import psutil

    for how, seconds in ((FAST, 60.0), (IMMEDIATE, 10.0), (KILL, 10.0)):
        try:
            server.send_signal(how)  # psutil refuses when the pid has become another process's
        except psutil.NoSuchProcess:
            return
        if wait_gone(server, seconds):
            return


def wait_gone(server: psutil.Process, seconds: float) -> bool:
    """Wait until a process has ended; return whether it has."""
    deadline = time.monotonic() + seconds
    while is_alive(server):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def is_alive(server: psutil.Process) -> bool:
    """Tell whether a process runs; a dead one that nobody has collected does not."""
    import psutil

    try:
        return server.is_running() and server.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def keep(order: dict[str, Any]) -> None:
    """Start (or take over) a server, and stay until it has ended."""
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    starting, users = (os.open(order[name], os.O_RDWR | os.O_CLOEXEC) for name in ("starting", "users"))
    child = None if order["adopt"] else _start(order)
    import psutil  # only now: it takes as long to import as the server takes to start

    try:
        server = psutil.Process(child.pid if child else order["adopt"])
    except psutil.NoSuchProcess:
        return
    threading.Thread(target=_stop_after_last_user, args=(server, starting, users), daemon=True).start()
    threading.Thread(target=_keep_log_bounded, args=(Path(order["log"]),), daemon=True).start()
    if child:
        child.wait()
    else:
        while is_alive(server):
            time.sleep(0.5)
    _tidy(Path(order["socket"]))


def _start(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        order["command"],
        stdin=subprocess.DEVNULL,
        env=order["environment"],
        cwd="/",
        umask=0o077,
        start_new_session=True,
        preexec_fn=_parting(),  # safe: there are no threads yet
        **order["credentials"],
    )


def _parting() -> Callable[[], None] | None:
    """Return what makes the kernel stop the server when its keeper is killed, where the kernel can do that."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(1, int(FAST), 0, 0, 0)  # PR_SET_PDEATHSIG

    return tie


def _stop_after_last_user(server: psutil.Process, starting: int, users: int) -> None:
    """Wait until nobody holds the users' lock. A newcomer holds `starting` while it joins, so it is never cut off."""
    while True:
        fcntl.flock(users, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_UN)
        fcntl.flock(starting, fcntl.LOCK_EX)
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(starting, fcntl.LOCK_UN)  # somebody came
        else:
            stop(server)
            return  # the locks go with this process, which ends when the server has


def _keep_log_bounded(log: Path) -> None:
    while True:
        time.sleep(LOG_SECONDS)
        bound(log)


def bound(log: Path) -> None:
    """Move a log that has grown too long aside; the server goes on appending to the same, emptied file."""
    try:
        if log.stat().st_size > LOG_LIMIT:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)
    except OSError:
        return  # a full disk or a removed home: nothing to do about it here


def _tidy(socket: Path) -> None:
    """Remove the socket directory and what a killed server left in it; a newcomer waits until we are done."""
    try:
        for left in socket.iterdir():
            left.unlink()
        socket.rmdir()
    except OSError:
        return


if __name__ == "__main__":
    if os.fork() == 0:
        os.setsid()
        keep(json.loads(sys.argv[1]))
    os._exit(0)
