"""The items that a reader yields, and the protocols of readers and writers.

A reader is a module with the names of `Format`. It reads one file as a stream where the format allows it, and accounts
for every line: each becomes events, a `Skipped` with its kind, or a `Problem`.
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

# Made once: `json.dumps` with such options makes an encoder for each call. Keys in the log depend on its text.
_ENCODER = json.JSONEncoder(sort_keys=True, default=str)
ItemName = tuple[str, str | None]  # of an event: its key and its content


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """A session of a foreign log; the events after it belong to it. Yielding it again continues it."""

    origin: str  # its name in the format, stable across files and imports
    agent: str  # "claude-code", "codex", or the agent's own name
    channel: str | None = None  # cli, chat, email ...
    peer: str | None = None  # the person or channel it talks to, if the log names it
    project: str | None = None  # working directory or repository
    repository: str | None = None  # whose checkout the project is, as `remotes.find_repository` names it
    model: str | None = None
    kind: str = "root"  # root | fork | resume | branch | sub-agent
    parent_origin: str | None = None  # origin of its parent session in the same format
    follows: ItemName | None = None  # the last item before its own ones, where another session of the file has it
    key: str | None = None  # agent:channel:peer, if the log has one
    ended: bool = False
    abandoned: bool = False  # a branch that the person went back from: what they said on it, they took back
    own_ids: tuple[str, ...] = ()  # ids of sessions: if one is of this database, the file is a copy that we wrote
    details: Mapping[str, Any] = field(default_factory=dict)  # other fields that an export must keep


@dataclass(frozen=True, slots=True)
class ForeignEvent:
    """One event of the last yielded session."""

    key: str  # stable and unique: the log's own id if it has one, else made by `ItemKeys`
    type: EventType
    data: Mapping[str, Any]  # a valid payload of its type, with "occurred_at" if the log has a time
    task_id: str | None = None
    tool_name: str | None = None
    line: int | None = None
    content: str | None = None  # a hash of what the log says, where the key is an id, which others can claim
    seq: int | None = None  # only the native format numbers its events
    role: str | None = None  # who said it, where an export of our own says another than the type implies


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that is understood but makes no event, counted by kind ("progress", "repeated")."""

    kind: str  # one of a newer version begins with "type:"
    line: int | None = None
    shape: str | None = None  # of a kind that is not known: the names of its fields, and nothing that they hold


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that cannot be read: counted, reported with file and line, and left out."""

    reason: str
    line: int | None = None


Item = ForeignSession | ForeignEvent | Skipped | Problem


class Format(Protocol):
    """A module that reads (and perhaps writes) one kind of log."""

    NAME: str

    def files(self, path: Path) -> Iterator[Path]:
        """Yield the files to read at or below `path`, parents before sub-agents, sorted."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Tell whether a file has this format, by its name and its first 64 KiB."""

    def read(self, path: Path, root: Path) -> Iterator[Item]:
        """Read one file as a stream; `root` is the imported path, for origins that come from file names."""


class Writer(Protocol):
    """The module of a `Format` that can also be written.

    A format whose files hold only one session sets `ONE_SESSION = True`.
    """

    def write(self, session: Mapping[str, Any], events: Iterable[Event]) -> Iterator[str]:
        """Yield the lines, each with its newline, for a session's row and its events in order of seq."""


def hash_content(value: object) -> str:
    """Return a hash of a JSON value; the order of keys does not matter."""
    text = _ENCODER.encode(value)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class ItemKeys:
    """Makes stable keys for items without an id, from conversation, content and number of the occurrence."""

    def __init__(self, conversation: str) -> None:
        self._conversation = conversation
        self._occurrences: dict[bytes, int] = {}

    def next_key(self, *content: object) -> str:
        """Return the key of the next item with this content (JSON values; the order of keys does not matter)."""
        text = _ENCODER.encode(content)
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        occurrence = self._occurrences.get(digest, 0)
        self._occurrences[digest] = occurrence + 1
        return f"{self._conversation}/{digest.hex()}/{occurrence}"
