"""What a reader of a foreign log yields, and what a reader is.

A reader is a module with the names of `Format` below. It reads one file as a stream, never as a whole where the
format allows it, and accounts for every line: each becomes events, or a `Skipped` with its kind, or a `Problem`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from consolidator.models.event import Event
from consolidator.models.payload import EventType


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A conversation of a foreign log; the events that follow it belong to it. Naming one again goes on with it."""

    origin: str  # its name in the format, stable across files and imports
    agent: str  # who: "claude-code", "codex", the harness's or agent's name
    channel: str | None = None  # cli, chat, email ...
    peer: str | None = None  # whom it talks to, where the log says
    project: str | None = None  # working directory or repository
    model: str | None = None
    kind: str = "root"  # root | fork | resume | branch | sub-agent
    parent_origin: str | None = None  # the session it hangs from, by its origin in the same format
    parent_call_id: str | None = None  # a sub-agent's call in the parent, where the log says
    key: str | None = None  # agent:channel:peer, where the log has one
    ended: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)  # whatever else export must keep


@dataclass(frozen=True, slots=True)
class ForeignEvent:
    """One event of the session named last."""

    key: str  # stable identity of this item: the log's own id where it has one (then global), else made by `ItemKeys`
    type: EventType
    data: Mapping[str, Any]  # a payload that fits models.payload; the reader sets data["occurred_at"] where it is told
    task_id: str | None = None
    tool_name: str | None = None
    line: int | None = None
    seq: int | None = None  # only our own format numbers its events


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that is understood and holds nothing for the log, counted by kind ("progress", "repeated")."""

    kind: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that is not understood: counted, reported with file and line, and passed over."""

    reason: str
    line: int | None = None


Item = ForeignSession | ForeignEvent | Skipped | Problem


class Format(Protocol):
    """A module that reads (and perhaps writes) one kind of log."""

    NAME: str

    def default_paths(self, home: Path) -> list[Path]:
        """Return where this machine's agents leave such logs (may not exist); empty if there is no such place."""

    def files(self, path: Path) -> Iterator[Path]:
        """Yield the files to read at or below `path`, parents before sub-agents, sorted."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell from the name and the first 64 KiB whether a file is of this format."""

    def read(self, path: Path, root: Path) -> Iterator[Item]:
        """Read one file as a stream; `root` is the path the user named, for origins that come from file names."""


class Writer(Protocol):
    """A format that can also be written: the module of a `Format` with a `write`.

    One that can hold only one session a file says `ONE_SESSION = True`.
    """

    def write(self, session: Mapping[str, Any], events: Iterable[Event]) -> Iterator[str]:
        """Yield the lines, each with its newline, of a session's row and its events in order of seq."""


class ItemKeys:
    """Makes stable keys for items whose log has none: same conversation, same content, same occurrence, same key."""

    def __init__(self, conversation: str) -> None:
        self._conversation = conversation
        self._seen: dict[bytes, int] = {}

    def key(self, *content: object) -> str:
        """Return the key of the next item with this content (dicts, lists and scalars; order of keys is free)."""
        text = json.dumps(content, sort_keys=True, default=str, ensure_ascii=True)
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        nth = self._seen.get(digest, 0)
        self._seen[digest] = nth + 1
        return f"{self._conversation}/{digest.hex()}/{nth}"
