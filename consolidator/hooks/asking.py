"""Asks the hook service to run a command, with the standard library alone: to load the command takes far longer.

A plain question to `recall` it answers by itself, by the settings that it was started with; the other commands of
`COMMANDS` run in a fork of it (`standby`). Where no service runs, the command does it by itself.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from consolidator.hooks import program

COMMAND, EVENT = "consolidator", "recall"
SOCKET = "commands"
# What asks memory and ends soon; what installs, imports, serves or exports is a process of its own.
COMMANDS = (
    "blame", "brief", "commands", "cost", "explain", "facts", "forget", "friction", "learned", "lessons", "procedures",
    "recall", "remember", "rules", "runs", "solutions", "status",
)  # fmt: skip
SECONDS = 3.0
_MACOS, _LINUX = "~/Library/Application Support", "~/.local/share"


def own_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an environment sets, but for the home: both sides must have the same."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith("CONSOLIDATOR_") and name != "CONSOLIDATOR_HOME"
    }


def ask_recall(words: Sequence[str]) -> str | None:
    """Return the answer to a question without options; None where no service answers it."""
    if not " ".join(words).strip() or any(word.startswith("-") for word in words):
        return None
    try:
        directory = os.getcwd()
        question = {"query": " ".join(words), "directory": directory, "settings": own_settings(os.environ)}
        service = _connect(program.SOCKET)
        return None if service is None else _exchange(service, json.dumps(question).encode())
    except (OSError, ValueError, AttributeError):  # the last where the system has no such sockets
        return None


def run_command(words: Sequence[str]) -> int | None:
    """Have a command run beside the service, with this process's files, and return its exit code; None if none did."""
    if words[0] not in COMMANDS:
        return None
    try:
        umask = os.umask(0)
        os.umask(umask)
        order = {
            "words": list(words),
            "code": [program.__file__, os.stat(program.__file__).st_mtime_ns],
            "directory": os.getcwd(),
            "environment": dict(os.environ),
            "umask": umask,
            "encodings": [(stream.encoding, stream.errors) for stream in (sys.stdin, sys.stdout, sys.stderr)],
        }
        body = json.dumps(order).encode()
        service = _connect(SOCKET)
        if service is None:
            return None
        service.settimeout(SECONDS)
        socket.send_fds(service, [b"%d\n" % len(body)], [0, 1, 2])
        service.sendall(body)
        process = int(service.recv(32))
    except (OSError, ValueError, AttributeError):
        return None
    except KeyboardInterrupt:
        return 130

    def pass_on(number: int, _: object) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(process, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` wants it
            signal.signal(number, pass_on)
    with service:
        service.settimeout(None)
        service.sendall(b"+")
        return int(service.recv(32) or 1)


def _connect(name: str) -> socket.socket | None:
    """Return a connection to a socket of the home's service; the working directory stays."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser(_MACOS if sys.platform == "darwin" else _LINUX)
    home = os.path.expanduser(os.environ.get("CONSOLIDATOR_HOME") or os.path.join(data, "consolidator"))
    directory = os.getcwd()
    service = program.connect(os.path.join(os.path.abspath(home), program.DIRECTORY), name)
    os.chdir(directory)
    return service


def _exchange(service: socket.socket, payload: bytes) -> str | None:
    with service:
        service.settimeout(SECONDS)
        service.sendall(b"2 %s %s 0 %d\n" % (COMMAND.encode(), EVENT.encode(), len(payload)) + payload)
        parts = []
        while part := service.recv(1 << 16):
            parts.append(part)
    return b"".join(parts).decode() or None
