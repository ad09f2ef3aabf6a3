"""Read Goose's sessions: sessions.db, and the older JSONL of a header and messages.

A person's word is a text of a user's message that holds no result, that the person sees (`userVisible`), in a session
of the type user; the first prompt of a recipe is its writer's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Problem, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.json_parsing import parse_json
from consolidator.formats.common.jsonl import parse_head, read_objects
from consolidator.formats.common.log_files import file_finder
from consolidator.formats.common.records import Conversation, RecordForm, Records, Statements
from consolidator.formats.common.sqlite_log import MAGIC, open_database, read_rows

NAME = "goose"
_FORM = RecordForm(NAME, kind=("kind", "role"), id=("id",), time=("created",), silent=frozenset({"header"}))
_COLUMNS = {
    "session": "sessions.id",
    "working_dir": "sessions.working_dir",
    "session_type": "sessions.session_type",
    "recipe": "sessions.recipe_json",
    "started": "sessions.created_at",
    "id": "messages.message_id",
    "role": "messages.role",
    "content": "messages.content_json",
    "metadata": "messages.metadata_json",
    "created": "messages.created_timestamp",
}
_SOURCE = """
FROM sessions JOIN messages ON messages.session_id = sessions.id ORDER BY sessions.created_at, sessions.id, messages.id
"""
files = file_finder("sessions.db", ".jsonl", keep=lambda file: file.name == "sessions.db" or file.suffix == ".jsonl")


def recognises(path: Path, head: bytes) -> bool:
    """Check for a database of that name, or for a header with a working directory."""
    if head.startswith(MAGIC):
        return path.name == "sessions.db" or b"content_json" in head
    return any("working_dir" in line and "role" not in line and "type" not in line for line in parse_head(head))


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a database, or one session of the older form."""
    session = _Sessions()
    if path.suffix != ".db":
        yield from _FORM.read(_read_lines(path), session.draft)
        return
    with open_database(path) as connection:
        rows = read_rows(connection, path, _COLUMNS, _SOURCE, ("sessions", "messages"))
        yield from _FORM.read(
            ((n, row if isinstance(row, Problem) else _parse_row(row)) for n, row in rows), session.draft
        )


def _read_lines(path: Path) -> Records:
    header: dict[str, Any] = {"session": path.stem}
    for number, line in read_objects(path):
        if isinstance(line, dict) and "role" not in line and "working_dir" in line:
            header = {"session": line.get("id") or path.stem, "working_dir": line["working_dir"]}
            header |= {"started": line.get("created_at"), "session_type": line.get("session_type")}
            header["recipe"] = line.get("recipe")
            yield number, {**header, "kind": "header"}
        else:
            yield number, {**header, **line} if isinstance(line, dict) else line


def _parse_row(row: dict[str, Any]) -> dict[str, Any] | Problem:
    try:
        return {
            **row,
            **{name: parse_json(row[name]) for name in ("content", "metadata") if isinstance(row[name], str)},
        }
    except ValueError as error:
        return Problem(str(error))


class _Sessions:
    """Drafts the messages of one file; keeps the names of the calls' tools."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}
        self._prompted: set[str] = set()  # sessions whose first prompt came

    def draft(self, record: dict[str, Any]) -> Statements:
        """Yield what a message says."""
        kind = record.get("session_type")
        is_users = kind in (None, "user")
        yield Conversation(
            drafts.text_of(record.get("session")),
            cwd=record.get("working_dir"),
            time=record.get("started"),
            kind="sub-agent" if kind == "sub_agent" else None,
        )
        role, content, metadata = record.get("role"), record.get("content"), record.get("metadata")
        if role not in ("user", "assistant"):
            return
        yield Skipped(str(role))
        parts = drafts.objects_of(content)
        seen = metadata.get("userVisible", True) if isinstance(metadata, dict) else metadata is None
        has_result = any(part.get("type") == "toolResponse" for part in parts)
        is_persons = is_users and seen is True and not has_result and role == "user"
        if is_persons and drafts.text_of(record.get("session")) not in self._prompted:
            self._prompted.add(drafts.text_of(record.get("session")))
            is_persons = record.get("recipe") in (None, "", "null")
        for part in parts:
            yield from self._draft_part(part, drafts.text_of(role), is_persons=is_persons)

    def _draft_part(self, part: dict[str, Any], role: str, *, is_persons: bool) -> Statements:
        kind = part.get("type")
        if kind == "text" and role == "user":
            yield from drafts.message(part.get("text"), is_persons=is_persons)
        elif kind == "text":
            yield from drafts.answer(part.get("text"))
        elif kind == "thinking":
            yield from drafts.thought(part.get("thinking"))
        elif kind in ("toolRequest", "frontendToolRequest"):
            value = drafts.object_of(drafts.object_of(part.get("toolCall")).get("value"))
            self._tools[drafts.text_of(part.get("id"))] = drafts.text_of(value.get("name"))
            yield drafts.call(part.get("id"), value.get("name"), value.get("arguments"))
        elif kind == "toolResponse":
            yield self._result(part)
        elif kind not in (
            "image",
            "redactedThinking",
            "toolConfirmationRequest",
            "actionRequired",
            "systemNotification",
        ):
            yield Skipped(f"type:part:{drafts.text_of(kind)[:60]}")

    def _result(self, part: dict[str, Any]) -> drafts.Draft:
        result = drafts.object_of(part.get("toolResult"))
        value = result.get("value")
        content = value.get("content") if isinstance(value, dict) else value
        shown = [block for block in content if _is_for_model(block)] if isinstance(content, list) else content
        failed = result.get("status") == "error" or (isinstance(value, dict) and value.get("isError") is True)
        text, code = drafts.split_output(drafts.join(extract_text(shown), extract_text(result.get("error"))))
        tool = self._tools.get(drafts.text_of(part.get("id")))
        return drafts.result(part.get("id"), tool, text, failed=failed or None, exit_code=code)


def _is_for_model(block: Any) -> bool:
    """Tell whether a block of a result is not only for the person, who gets the same in another form."""
    audience = drafts.object_of(drafts.object_of(block).get("annotations")).get("audience")
    return not isinstance(audience, list) or "assistant" in audience
