"""Read chat messages with tool calls in the form of OpenAI's API: one conversation, several, or records with messages.

Files are JSON or JSONL; their shape decides how they are read. An array is read element by element and JSONL line by
line; only a file that is one object is loaded as a whole, up to MAX_OBJECT_BYTES.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Problem, Skipped
from consolidator.formats.common.json_members import read_elements, read_json
from consolidator.formats.common.json_parsing import EXTRA_TEXT, parse_container
from consolidator.formats.common.jsonl import guard_line, parse_head, read_values
from consolidator.formats.common.log_files import file_finder, open_log
from consolidator.formats.openai.conversation import CLINE_PROBLEM, ROLES, ChatRecord, ConversationNames

NAME = "openai-messages"
MAX_OBJECT_BYTES = 256 * 1024 * 1024  # the largest file with a single JSON object
_HEAD_BYTES = 64 * 1024
_SUFFIXES = (".json", ".jsonl", ".ndjson")
_CLINE_FILE = "api_conversation_history.json"  # of a task of Cline, Roo Code and their descendants
_MESSAGE_KEYS = ("messages", "traj", "conversation", "history", "trajectory")  # keys of a record's messages
_RECORD_KEYS = ("simulations", "results", "conversations", "records", "sessions", "data")  # keys of a file's records
_STARTS_WITH_MESSAGE = re.compile(rf'\A[\s\ufeff]*\[?\s*(?:\[\s*)?\{{\s*"role"\s*:\s*"(?:{"|".join(ROLES)})"')
_CONTAINS_MESSAGES = re.compile(
    rf'"(?:{"|".join(_MESSAGE_KEYS)})"\s*:\s*\[\s*\{{[^{{}}\[\]]{{0,200}}"role"\s*:|"simulations"\s*:\s*\['
)
_OTHER_FORMATS = re.compile(
    r'"(?:sessionId|parentUuid|turn_history|response_item|trajectory_format|action|consolidator)"\s*:'
)
files = file_finder(*_SUFFIXES)


def recognises(path: Path, head: bytes) -> bool:
    """Check the beginning for messages with a role, alone or in a record."""
    if path.suffix not in _SUFFIXES:
        return False
    if any(_is_message(line) or _find_messages(line) is not None for line in parse_head(head)):
        return True
    text = head.decode("utf-8", "replace")
    return not _OTHER_FORMATS.search(text[:4096]) and bool(
        _STARTS_WITH_MESSAGE.match(text) or _CONTAINS_MESSAGES.search(text)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one file as a stream of conversations."""
    yield from _MessagesReader(path, root).read_items()


class _MessagesReader:
    """Reads one file; keeps at most one conversation in memory."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._names = ConversationNames(path, root)
        self._file_record: ChatRecord | None = None  # the conversation, if the file's elements are its messages
        self._count = 0

    def read_items(self) -> Iterator[Item]:
        """Yield the items of the file."""
        if self._path.name.endswith(_CLINE_FILE):
            yield Problem(CLINE_PROBLEM)
            return
        for line, value in _read_file(self._path):
            yield from self._read_value(value, line)
        if self._file_record is not None:
            yield from self._file_record.close()

    def _read_value(self, value: Any, line: int | None) -> Iterator[Item]:
        if isinstance(value, (Skipped, Problem)):
            yield value
        elif isinstance(value, list):
            yield from self._read_conversation({"messages": value}, value, line)
        elif not isinstance(value, dict):
            yield Problem(f"not a message or conversation but {type(value).__name__}", line)
        elif _is_message(value):
            if self._file_record is None:
                self._file_record = ChatRecord({}, *self._names.identify({}, None))
            yield from guard_line(self._file_record.read_message(value, line), line)
        elif (messages := _find_messages(value)) is not None:
            yield from self._read_conversation(value, messages, line)
        elif (records := _find_records(value)) is not None:
            for record in records:
                yield from self._read_value(record, line)
        else:
            yield Problem("not a message and not a record with messages", line)

    def _read_conversation(self, record: Mapping[str, Any], messages: list[Any], line: int | None) -> Iterator[Item]:
        conversation = ChatRecord(record, *self._names.identify(record, self._count))
        self._count += 1
        for message in messages:
            yield from guard_line(conversation.read_message(message, line), line)
        yield from conversation.close()


def _is_message(value: Any) -> bool:
    """Tell whether a value is a chat message; the lines of other formats have a type."""
    return isinstance(value, dict) and value.get("role") in ROLES and "type" not in value and "message" not in value


def _find_messages(value: Mapping[str, Any]) -> list[Any] | None:
    for key in _MESSAGE_KEYS:
        messages = value.get(key)
        if isinstance(messages, list) and (_is_message(messages[0]) if messages else key in ("messages", "traj")):
            return messages
    return None


def _find_records(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the records of a file that is one object, or None."""
    for key in _RECORD_KEYS:
        records = value.get(key)
        if isinstance(records, list) and all(isinstance(record, (dict, list)) for record in records):
            return records
    return None


def _read_file(path: Path) -> Iterator[tuple[int | None, Any]]:
    """Yield the values of a file, each with its line number if it has one."""
    if path.suffix in (".jsonl", ".ndjson"):
        yield from read_values(path)
        return
    with open_log(path) as file:
        head = file.read(_HEAD_BYTES)
    first, newline, rest = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    if newline and rest.strip() and parse_container(first) is not None:
        yield from read_values(path)  # JSONL under another name
    elif first.startswith(b"["):
        yield from read_elements(path)
    elif first:
        value = read_json(path, MAX_OBJECT_BYTES)
        if isinstance(value, Problem) and value.reason.startswith(EXTRA_TEXT):
            yield from read_values(path)  # JSONL with a first line longer than the head
        else:
            yield None, value
