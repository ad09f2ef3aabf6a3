"""Asks the hook service what `recall` answers, with the standard library alone: to load the command takes far longer.

It answers a plain question by the settings that it was started with; anything else the command does by itself.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence

from consolidator.hooks import program

COMMAND, EVENT = "consolidator", "recall"
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
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser(_MACOS if sys.platform == "darwin" else _LINUX)
    home = os.path.expanduser(os.environ.get("CONSOLIDATOR_HOME") or os.path.join(data, "consolidator"))
    try:
        directory = os.getcwd()
        question = {"query": " ".join(words), "directory": directory, "settings": own_settings(os.environ)}
        service = program.connect(os.path.join(os.path.abspath(home), program.DIRECTORY))
        os.chdir(directory)
        return None if service is None else _exchange(service, json.dumps(question).encode())
    except (OSError, ValueError, AttributeError):  # the last where the system has no such sockets
        return None


def _exchange(service: socket.socket, payload: bytes) -> str | None:
    with service:
        service.settimeout(SECONDS)
        service.sendall(b"2 %s %s 0 %d\n" % (COMMAND.encode(), EVENT.encode(), len(payload)) + payload)
        parts = []
        while part := service.recv(1 << 16):
            parts.append(part)
    return b"".join(parts).decode() or None
