"""Whether a home's hook service runs, and how to start and stop it: its lock tells, and holds its process id."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from consolidator.hooks import program


def is_running(home: Path) -> bool:
    """Tell whether a service answers the hooks of a home, or is starting."""
    try:
        lock = os.open(home / program.DIRECTORY / program.LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def start_service(home: Path) -> None:
    """Have a home's service start as the first hook does, which is shown nothing yet; nothing where one runs."""
    command = [sys.executable, "-I", "-S", program.__file__, str(home.absolute()), "Start", "consolidator"]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=False)


def stop_service(home: Path) -> bool:
    """Ask a home's service to end; tell whether there was one."""
    if not is_running(home):
        return False
    try:
        os.kill(int((home / program.DIRECTORY / program.LOCK).read_text()), signal.SIGTERM)
    except (OSError, ValueError):
        return False
    return True
