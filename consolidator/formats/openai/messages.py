"""Chat messages with tool calls as OpenAI's API has them, in JSON or JSONL: a conversation, many, or records of them.

An array is read element by element and JSONL line by line; only a file that is one object is held whole, up to
MAX_OBJECT. What a file is, is told by its shape alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Problem, Skipped
from consolidator.formats.common.json_members import read_members
from consolidator.formats.common.jsonl import files_below, head_objects, parse_json, read_values
from consolidator.formats.openai.conversation import ROLES, ChatRecord, Identity

NAME = "openai-messages"
MAX_OBJECT = 256 * 1024 * 1024  # bytes of a file that is a single JSON object
_HEAD = 64 * 1024
_SUFFIXES = (".json", ".jsonl", ".ndjson")
_HOLDING = ("messages", "traj", "conversation", "history", "trajectory")  # where a record keeps its messages
_LISTING = ("simulations", "results", "conversations", "records", "sessions", "data")  # where a file keeps its records
_BEGINS = re.compile(rf'\A[\s\ufeff]*\[?\s*(?:\[\s*)?\{{\s*"role"\s*:\s*"(?:{"|".join(ROLES)})"')
_HOLDS = re.compile(rf'"(?:{"|".join(_HOLDING)})"\s*:\s*\[\s*\{{[^{{}}\[\]]{{0,200}}"role"\s*:|"simulations"\s*:\s*\[')
_OTHERS = re.compile(r'"(?:sessionId|parentUuid|turn_history|response_item|trajectory_format|action|consolidator)"\s*:')


def default_paths(home: Path) -> list[Path]:
    """Return nothing: such files have no place of their own."""
    return []


def files(path: Path) -> Iterator[Path]:
    """Yield the JSON and JSONL files at or below `path`, sorted."""
    yield from files_below(path, *_SUFFIXES)


def recognises(path: Path, head: bytes) -> bool:
    """Tell from the first messages: they have a role, and stand alone or in a record."""
    if path.suffix not in _SUFFIXES:
        return False
    if any(_is_message(line) or _messages_of(line) is not None for line in head_objects(head)):
        return True
    text = head.decode("utf-8", "replace")
    return not _OTHERS.search(text[:4096]) and bool(_BEGINS.match(text) or _HOLDS.search(text))


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one file as a stream of conversations."""
    yield from _MessagesReader(path, root).items()


class _MessagesReader:
    """Reads one file; holds one conversation at most."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._identity = Identity(path, root)
        self._whole: ChatRecord | None = None  # the conversation whose messages are the file's elements
        self._count = 0

    def items(self) -> Iterator[Item]:
        """Yield what the file holds."""
        for line, value in _values(self._path):
            yield from self._value(value, line)
        if self._whole is not None:
            yield from self._whole.close()

    def _value(self, value: Any, line: int | None) -> Iterator[Item]:
        if isinstance(value, (Skipped, Problem)):
            yield value
        elif isinstance(value, list):
            yield from self._conversation({"messages": value}, value, line)
        elif not isinstance(value, dict):
            yield Problem(f"neither a message nor a conversation but {type(value).__name__}", line)
        elif _is_message(value):
            if self._whole is None:
                self._whole = ChatRecord({}, *self._identity.of({}, None))
            yield from self._whole.message(value, line)
        elif (messages := _messages_of(value)) is not None:
            yield from self._conversation(value, messages, line)
        elif (records := _records_of(value)) is not None:
            for record in records:
                yield from self._value(record, line)
        else:
            yield Problem("neither a message nor a record with messages", line)

    def _conversation(self, record: Mapping[str, Any], messages: list[Any], line: int | None) -> Iterator[Item]:
        conversation = ChatRecord(record, *self._identity.of(record, self._count))
        self._count += 1
        for message in messages:
            yield from conversation.message(message, line)
        yield from conversation.close()


def _is_message(value: Any) -> bool:
    """Tell whether a value is a chat message; other logs' lines have a type."""
    return isinstance(value, dict) and value.get("role") in ROLES and "type" not in value and "message" not in value


def _messages_of(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the messages that a record holds."""
    for key in _HOLDING:
        held = value.get(key)
        if isinstance(held, list) and (_is_message(held[0]) if held else key in ("messages", "traj")):
            return held
    return None


def _records_of(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the records that a file of one object holds."""
    for key in _LISTING:
        held = value.get(key)
        if isinstance(held, list) and all(isinstance(record, (dict, list)) for record in held):
            return held
    return None


def _values(path: Path) -> Iterator[tuple[int | None, Any]]:
    """Yield the values of a file, each with its line where it has one."""
    if path.suffix in (".jsonl", ".ndjson"):
        yield from read_values(path)
        return
    with path.open("rb") as file:
        head = file.read(_HEAD)
    first, newline, rest = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    if newline and rest.strip() and _parses(first):
        yield from read_values(path)  # JSONL under another name
    elif first.startswith(b"["):
        yield from ((line, element) for line, _, element in read_members(path))
    elif path.stat().st_size > MAX_OBJECT:
        yield None, Problem(f"one JSON object of more than {MAX_OBJECT} bytes; write it as an array or as JSONL")
    elif first:
        yield from _whole(path)


def _whole(path: Path) -> Iterator[tuple[int | None, Any]]:
    try:
        value = parse_json(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        value = Problem(str(error))
        if str(error).startswith("not JSON: more after the value"):
            yield from read_values(path)  # JSONL with a first line longer than the head
            return
    yield None, value


def _parses(line: bytes) -> bool:
    try:
        return isinstance(parse_json(line), (dict, list))
    except ValueError:
        return False
