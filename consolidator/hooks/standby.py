"""Runs commands in forks of a process that has loaded what they need, which takes a cold command most of its time.

The hook service forks this process before it opens anything. It waits on a socket of its own. A command that comes
brings its words, its environment, its directory and its open files, and runs as if it had been started there.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from consolidator.hooks import asking, program

BACKLOG = 16
FRONT_END = "consolidator.cli"  # named, not imported: it stands above, and is loaded when the first command comes


def start(lock: int) -> int:
    """Fork the process, and return the descriptor that keeps it alive: it ends when the service does."""
    listening = listen(asking.SOCKET)
    reading, writing = os.pipe()
    if os.fork():
        listening.close()
        os.close(reading)
        return writing
    try:
        os.close(lock)
        os.close(writing)
        _serve(listening, reading)
    finally:
        os._exit(0)


def listen(name: str) -> socket.socket:
    """Return a socket in the working directory, which is ours alone, that only its owner may connect to."""
    Path(name).unlink(missing_ok=True)  # we hold the lock: whoever made it is gone
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listening.bind(name)
    finally:
        os.umask(mask)
    listening.listen(BACKLOG)
    return listening


def is_ours(peer: socket.socket) -> bool:
    """Whether the other side runs as the same user, where the system tells; else the directory keeps others out."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.geteuid())


def _serve(listening: socket.socket, service: int) -> None:
    """Fork a process for each command until the service ends."""
    code, began = os.stat(program.__file__).st_mtime_ns, time.time_ns()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listening.fileno(), service], [], [])
        if service in ready or _is_changed(began):
            return
        connection, files = listening.accept()[0], list[int]()
        try:
            with connection:
                connection.settimeout(asking.SECONDS)
                order = _receive(connection, files) if is_ours(connection) else None
                if order is not None and order["code"] == [program.__file__, code]:
                    _load(order["words"][0])
                    if not os.fork():
                        listening.close()
                        _run(connection, order, files)
        except (OSError, ValueError, KeyError, ImportError):  # the command goes on by itself
            continue
        finally:
            for descriptor in files:
                os.close(descriptor)


def _is_changed(began: int) -> bool:
    """Whether code of ours that is loaded was written since then, as by a new version in the same place."""
    paths = {module.__file__ for name, module in sys.modules.items() if name.startswith("consolidator")}
    try:
        return any(os.stat(path).st_mtime_ns > began for path in paths if path is not None)
    except OSError:  # it is gone
        return True


def _receive(connection: socket.socket, files: list[int]) -> dict[str, Any]:
    """Return a command, and add its open files."""
    head, received, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    files += received
    length, _, body = head.partition(b"\n")
    while len(body) < int(length) and (part := connection.recv(1 << 16)):
        body += part
    order: dict[str, Any] = json.loads(body)
    return order


def _load(name: str) -> None:
    """Import what a command imports, except for the front end, which looks at the terminal as it is imported."""
    table = import_module(f"{FRONT_END}.commands").COMMANDS
    import_module(f"{FRONT_END}.app")
    import_module(f"{FRONT_END}.{table[name].target.partition(':')[0]}")
    for module in [module for module in sys.modules if module.startswith(FRONT_END)]:
        del sys.modules[module]
    gc.freeze()


def _run(connection: socket.socket, order: dict[str, Any], files: list[int]) -> None:
    """Run a command with its own files, directory and environment; its exit code is the answer."""
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.default_int_handler)
    code = 1
    try:
        os.chdir(order["directory"])
        os.environ.clear()
        os.environ.update(order["environment"])
        os.umask(order["umask"])
        time.tzset()
        for target, descriptor in enumerate(files):
            os.dup2(descriptor, target)
            os.close(descriptor)
        (sys.stdin, sys.stdout, sys.stderr) = map(_open, range(3), order["encodings"])
        connection.sendall(b"%d\n" % os.getpid())
        if connection.recv(1) == b"+":  # it still waits
            sys.argv = ["consolidator", *order["words"]]
            code = _call(import_module(f"{FRONT_END}.app").main)
            connection.sendall(b"%d\n" % code)
    finally:
        os._exit(code)


def _open(descriptor: int, encoding: tuple[str, str]) -> TextIO:
    """Return a standard stream as the interpreter opens it."""
    name, errors = encoding
    file = open(descriptor, "wb" if descriptor else "rb", closefd=False)  # noqa: SIM115 - it stays open
    return TextIOWrapper(file, name, errors, line_buffering=descriptor == 2 or file.isatty())


def _call(main: Any) -> int:
    """Return the exit code of a command."""
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - the edge: as the interpreter does
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stderr.flush()
    return 0
