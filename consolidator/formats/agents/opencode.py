"""Read OpenCode's sessions: opencode.db, exports, and the older storage/ of a file for each session, message and part.

A person's word is a text part of a user's message in a session without a parent that is neither synthetic nor ignored:
what OpenCode adds (files, reminders) is synthetic. Parts that a revert took back are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Problem, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.json_members import read_json
from consolidator.formats.common.json_parsing import parse_container
from consolidator.formats.common.log_files import find_files, list_json_files
from consolidator.formats.common.records import Conversation, RecordForm, Records, Statements, silent_kinds
from consolidator.formats.common.sqlite_log import MAGIC, open_database, read_rows
from consolidator.models.payload import EventType

NAME = "opencode"
_FORM = RecordForm(NAME, kind=("kind",), time=("time",), silent=silent_kinds(NAME))
_Messages = Iterator[tuple[str, Any, Iterable[tuple[str, Any]]]]  # the id, the message and its parts with their ids
_MAX_PART = 64 * 1024 * 1024  # bytes
_COLUMNS = {
    "session": "session.id",
    "directory": "session.directory",
    "parent": "session.parent_id",
    "version": "session.version",
    "revert": "session.revert",
    "created": "session.time_created",
    "message": "message.id",
    "message_data": "message.data",
    "message_time": "message.time_created",
    "part": "part.id",
    "part_data": "part.data",
}
_SOURCE = """
FROM session JOIN message ON message.session_id = session.id LEFT JOIN part ON part.message_id = message.id
ORDER BY session.time_created, session.id, message.time_created, message.id, part.id
"""


def files(path: Path) -> Iterator[Path]:
    """Yield the databases and the older sessions at or below `path`."""
    for file in find_files(path, ".db", ".json"):
        is_database = file.suffix == ".db" and file.name.startswith("opencode")
        if file == path or is_database or (file.suffix == ".json" and file.parent.parent.name == "session"):
            yield file


def recognises(path: Path, head: bytes) -> bool:
    """Check for a database of that name, or a session's file in its storage."""
    if head.startswith(MAGIC):
        return path.name.startswith("opencode")
    return path.suffix == ".json" and b'"projectID"' in head and b'"directory"' in head and b'"ses' in head


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a database, an export, or one session of the older storage."""
    if path.suffix == ".json":
        yield from _FORM.read(_read_session(path), _draft)
        return
    with open_database(path) as connection:
        rows = read_rows(connection, path, _COLUMNS, _SOURCE, ("session", "message", "part"))
        yield from _FORM.read(_split_rows(rows), _draft)


def _split_rows(rows: Iterator[tuple[int, dict[str, Any] | Problem]]) -> Records:
    """Yield a record for each message, and one for each of its parts."""
    last: str | None = None
    message: Any = None
    for number, row in rows:
        if isinstance(row, Problem):
            yield number, row
            continue
        if row["message"] != last:
            last, message = row["message"], parse_container(row["message_data"])
            yield number, {**row, "kind": "message", "id": last, "data": message, "time": row["message_time"]}
        if row["part"] is not None:
            part = parse_container(row["part_data"])
            yield number, {**row, **_part_fields(part, row["part"], row["message_time"], message)}


def _part_fields(part: Any, part_id: Any, message_time: Any, message: Any) -> dict[str, Any]:
    part = part if isinstance(part, dict) else {"type": "unreadable"}
    started = drafts.object_of(part.get("time")).get("start")
    return {"kind": part.get("type"), "id": part_id, "data": part, "time": started or message_time, "in": message}


def _read_session(path: Path) -> Records:
    """Yield the records of an export, or of a session's file and of those of its messages and parts, by their ids."""
    session = read_json(path, _MAX_PART)
    if not isinstance(session, dict):
        yield 1, session if isinstance(session, Problem) else Problem("not a session")
        return
    messages = _read_storage(path)
    if isinstance(session.get("info"), dict):
        messages, session = _read_export(session.get("messages")), session["info"]
    row = {"session": session.get("id"), "directory": session.get("directory"), "parent": session.get("parentID")}
    row |= {"version": session.get("version"), "revert": session.get("revert"), "created": _created(session)}
    number = 0
    for name, message, parts in messages:
        number += 1
        data = drafts.object_of(message)
        row |= {"message": name, "message_data": None}
        yield number, {**row, "kind": "message", "id": name, "data": data, "time": _created(data)}
        for part_name, part in parts:
            number += 1
            yield number, {**row, **_part_fields(part, part_name, _created(data), data)}
    if not number:
        yield 1, Problem("a session without messages")


def _read_export(messages: Any) -> _Messages:
    """Yield each message of `opencode export` with its parts."""
    for message in drafts.objects_of(messages):
        info = drafts.object_of(message.get("info"))
        parts = [(drafts.text_of(part.get("id")), part) for part in drafts.objects_of(message.get("parts"))]
        yield drafts.text_of(info.get("id")), info, parts


def _read_storage(path: Path) -> _Messages:
    """Yield each message of an older session with its parts, from the files beside the session's."""
    storage = path.parents[2]
    for file in list_json_files(storage / "message" / path.stem):
        parts = list_json_files(storage / "part" / file.stem)
        yield file.stem, read_json(file, _MAX_PART), ((part.stem, read_json(part, _MAX_PART)) for part in parts)


def _created(record: dict[str, Any]) -> Any:
    return drafts.object_of(record.get("time")).get("created")


def _draft(record: dict[str, Any]) -> Statements:
    kind, data = record["kind"], record["data"]
    message = record.get("in")
    data, message = drafts.object_of(data), drafts.object_of(message)
    parent = record.get("parent")
    yield Conversation(
        drafts.text_of(record.get("session")),
        cwd=record.get("directory"),
        time=record.get("created"),
        version=record.get("version"),
        parent=parent,
    )
    if _is_reverted(record):
        yield Skipped("reverted")
    elif kind == "message":
        if isinstance(error := data.get("error"), dict):
            text = drafts.object_of(error.get("data")).get("message")
            is_abort = error.get("name") == "MessageAbortedError"
            yield (
                (EventType.POLICY_DECISION, {"decision": "turn_interrupted"})
                if is_abort
                else (EventType.ERROR, {"message": extract_text(text or error.get("name"))})
            )
    elif kind == "text":
        yield from _draft_text(data, message, is_root=not parent)
    elif kind == "reasoning":
        yield Skipped("reasoning")
        yield from drafts.thought(data.get("text"), message.get("modelID"))
    elif kind == "tool":
        yield from _draft_tool(data)
    elif kind == "compaction":
        yield EventType.POLICY_DECISION, {"decision": "compaction"}


def _is_reverted(record: dict[str, Any]) -> bool:
    """Tell whether a message or part was taken back: ids are in the order of their making."""
    revert = record.get("revert")
    revert = parse_container(revert) if isinstance(revert, str) else revert
    if not isinstance(revert, dict) or not isinstance(revert.get("messageID"), str):
        return False
    message, part = drafts.text_of(record.get("message")), revert.get("partID")
    if message != revert["messageID"] or not isinstance(part, str):
        return message >= str(revert["messageID"])
    return record["kind"] != "message" and drafts.text_of(record["id"]) >= part


def _draft_text(part: dict[str, Any], message: dict[str, Any], *, is_root: bool) -> Statements:
    yield Skipped("text")
    if message.get("role") == "user":
        is_persons = is_root and not part.get("synthetic") and not part.get("ignored")
        yield from drafts.message(part.get("text"), is_persons=is_persons)
        return
    time = part.get("time")
    if isinstance(time, dict) and "end" not in time:
        yield Skipped("unfinished")  # it is still being written
    elif message.get("summary") is True:
        yield from drafts.harness(part.get("text"), "compaction")
    elif message.get("role") == "assistant":
        yield from drafts.answer(part.get("text"), message.get("modelID"))


def _draft_tool(part: dict[str, Any]) -> Statements:
    state = drafts.object_of(part.get("state"))
    if state.get("status") not in ("completed", "error"):
        yield Skipped("unfinished")
        return
    yield drafts.call(part.get("callID"), part.get("tool"), state.get("input"))
    error = drafts.text_of(state.get("error"))
    reason = "rejected" if error.startswith("The user rejected") else None
    reason = "aborted" if error.startswith("Tool execution aborted") else reason
    yield drafts.result(
        part.get("callID"),
        part.get("tool"),
        error or state.get("output"),
        failed=True if state.get("status") == "error" else False if part.get("tool") != "bash" else None,
        reason=reason,
        exit_code=drafts.object_of(state.get("metadata")).get("exit"),
    )
