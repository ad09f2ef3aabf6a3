"""Read Gemini CLI's chats: a JSON object, or JSONL that is replayed (`$set`, `$rewindTo`, a message written again).

A person's word is the first part of a message of the type user, or its displayContent. Where the project's logs.json
knows the session, it must hold the words, too: prompts are noted there as they are submitted, and nothing else. The
parts of a message are those of Google's API, which Qwen Code logs, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Problem, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text
from consolidator.formats.common.json_members import read_json, read_note
from consolidator.formats.common.jsonl import read_objects
from consolidator.formats.common.log_files import find_files, open_log
from consolidator.formats.common.records import Conversation, RecordForm, Records, Statements, silent_kinds
from consolidator.models.payload import EventType

NAME = "gemini"
_FORM = RecordForm(NAME, silent=silent_kinds(NAME))
_CHAT = re.compile(r"session-.*\.jsonl?|[^/]*\.jsonl")
_HARNESS_STARTS = ("System: ", "Here is the user's editor context", "<state_snapshot>", "This is the Gemini CLI.")
_MAX_FILE = 256 * 1024 * 1024  # bytes


def files(path: Path) -> Iterator[Path]:
    """Yield the chats at or below `path`; one that was migrated to JSONL counts once."""
    for file in find_files(path, ".json", ".jsonl"):
        is_chat = "chats" in file.parts[:-1] and _CHAT.fullmatch(file.name) is not None
        if file == path or (is_chat and not (file.suffix == ".json" and file.with_suffix(".jsonl").exists())):
            yield file


def recognises(path: Path, head: bytes) -> bool:
    """Check for the keys of a chat's first object."""
    start = head[:4096]
    return b'"sessionId"' in start and b'"projectHash"' in start and path.suffix in (".json", ".jsonl")


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a chat as it stands after its last line."""
    header: dict[str, Any] = {}
    is_object = path.suffix == ".json"
    records = list(_whole_file(read_json(path, _MAX_FILE), header) if is_object else _replay(path, header))
    session_id = str(header.get("sessionId") or path.stem)
    chats = next((folder for folder in path.parents if folder.name == "chats"), path.parent)
    is_sub = header.get("kind") == "subagent"
    conversation = Conversation(
        session_id,
        cwd=_find_project(chats.parent, header),
        time=header.get("startTime"),
        model=next((r["model"] for _, r in records if isinstance(r, dict) and isinstance(r.get("model"), str)), None),
        kind="sub-agent" if is_sub else None,
        parent=path.parent.name if is_sub and path.parent != chats else None,
    )
    submitted = None if is_sub else _read_submitted(chats.parent / "logs.json", session_id)
    yield from _FORM.read(records, lambda record: _draft(record, conversation, submitted))


def _whole_file(value: Any, header: dict[str, Any]) -> Records:
    messages = value.get("messages") if isinstance(value, dict) else None
    if isinstance(value, Problem) or not isinstance(messages, list):
        yield None, value if isinstance(value, Problem) else Problem("a chat without messages")
        return
    header.update(value)
    yield from enumerate(messages, start=1)


def _replay(path: Path, header: dict[str, Any]) -> Records:
    """Yield the lines in order: messages as they were written last, and what became of the other lines."""
    records: dict[str, tuple[int, Any]] = {}  # by id, in order
    rest: list[tuple[int | None, Any]] = []

    def put(number: int, message: Any) -> None:
        named = str(message.get("id") or "") if isinstance(message, dict) else ""
        key = named or f"line {number} {len(records)}"
        if key in records:
            rest.append((records[key][0], Skipped("repeated", records[key][0])))
        records[key] = (number, message)

    for number, line in read_objects(path):
        if not isinstance(line, dict):
            rest.append((number, line))
        elif isinstance(line.get("$rewindTo"), str):
            ids = list(records)
            start = ids.index(line["$rewindTo"]) if line["$rewindTo"] in records else 0
            rest.extend((records[id_][0], Skipped("rewound", records[id_][0])) for id_ in ids[start:])
            for id_ in ids[start:]:
                del records[id_]
            rest.append((number, Skipped("$rewindTo", number)))
        elif isinstance(line.get("$set"), dict) or ("sessionId" in line and "type" not in line):
            fields = line["$set"] if isinstance(line.get("$set"), dict) else line
            header.update({name: value for name, value in fields.items() if value is not None})
            messages = fields.get("messages")
            rest.append((number, Skipped("$set" if "$set" in line else "header", number)))
            if isinstance(messages, list):
                rest.extend((old, Skipped("repeated", old)) for old, _ in records.values())
                records.clear()
                for message in messages:
                    put(number, message)
        else:
            put(number, line)
    yield from rest
    yield from records.values()


def _draft(record: dict[str, Any], conversation: Conversation, submitted: set[str] | None) -> Statements:
    kind = record.get("type")
    if kind in ("user", "gemini", "model", "error"):
        yield conversation
    if kind == "user":
        yield from _draft_user(record, conversation, submitted)
    elif kind in ("gemini", "model"):
        for thought in drafts.objects_of(record.get("thoughts")):
            text = drafts.join(*(extract_text(thought.get(name)) for name in ("subject", "description")))
            yield from drafts.thought(text, record.get("model"))
        usage = record.get("tokens")
        for event_type, values in draft_parts(record.get("content"), record.get("model")):
            yield event_type, {**values, "usage": usage} if event_type is EventType.ASSISTANT_RESPONSE else values
            usage = None if event_type is EventType.ASSISTANT_RESPONSE else usage
        for call in drafts.objects_of(record.get("toolCalls")):
            yield from _draft_call(call)
        yield Skipped("gemini")
    elif kind == "error":
        yield EventType.ERROR, {"message": extract_text(record.get("content"))}


def _draft_user(record: dict[str, Any], conversation: Conversation, submitted: set[str] | None) -> Statements:
    shown = record.get("displayContent")
    typed, other = split_prompt(record.get("content"))
    if shown is not None:
        typed, other = split_prompt(shown)[0], drafts.join(typed, other)
    is_persons = conversation.kind is None and not typed.lstrip().startswith(_HARNESS_STARTS)
    if not is_persons or (submitted is not None and typed.strip() not in submitted):
        typed, other = "", drafts.join(typed, other)
    yield Skipped("user")
    yield from drafts.words(typed, other)


def _draft_call(call: dict[str, Any]) -> drafts.Drafts:
    yield drafts.call(call.get("id"), call.get("name"), call.get("args"))
    result = call.get("result")
    parts = result if isinstance(result, list) else [result]
    status = call.get("status")
    if status not in ("success", "error", "cancelled") and result is None:
        return  # it is still running
    if result is None:
        parts = [{"functionResponse": {"response": {"output": call.get("resultDisplay")}}}]
    _, values = draft_response(
        parts[0] if parts else None, status=status, call_id=call.get("id"), tool=call.get("name")
    )
    if isinstance(call.get("timestamp"), str):
        values["occurred_at"] = call["timestamp"]
    yield EventType.TOOL_RESULT, values


def _find_project(folder: Path, header: dict[str, Any]) -> str | None:
    """Return a project's directory: what is noted in its folder, else the registry's, else the chat's first."""
    try:
        with open_log(folder / ".project_root") as file:
            if noted := file.read(4096).decode("utf-8", "replace").strip():
                return noted
    except (OSError, ValueError):
        pass
    projects = read_note(folder.parent.parent / "projects.json").get("projects")
    for path, name in drafts.object_of(projects).items():
        if name == folder.name or hashlib.sha256(path.encode("utf-8", "replace")).hexdigest() == header.get(
            "projectHash"
        ):
            return str(path)
    directories = header.get("directories")
    first = directories[0] if isinstance(directories, list) and directories else None
    return first if isinstance(first, str) else None


def _read_submitted(path: Path, session_id: str) -> set[str] | None:
    """Return the prompts of a session that were noted as they were submitted; None where none was."""
    notes = read_note(path).get("items")
    texts = {
        note["message"].strip()
        for note in drafts.objects_of(notes)
        if (note.get("sessionId"), note.get("type")) == (session_id, "user") and isinstance(note.get("message"), str)
    }
    return texts or None


_REFERENCED = "--- Content from referenced files ---"  # before the text of the files that a prompt names


def draft_parts(parts: Any, model: Any = None) -> drafts.Drafts:
    """Yield what a model's message holds: answers, thoughts and calls, in order."""
    for part in parts if isinstance(parts, list) else [parts]:
        if isinstance(part, dict) and isinstance(part.get("functionCall"), dict):
            call = part["functionCall"]
            yield drafts.call(call.get("id"), call.get("name"), call.get("args"))
        elif isinstance(part, dict) and part.get("thought"):
            yield from drafts.thought(part.get("text"), model)
        elif isinstance(part, (str, dict)) and (text := _text(part)):
            yield from drafts.answer(text, model)


def draft_response(part: Any, *, status: Any = None, call_id: Any = None, tool: Any = None) -> drafts.Draft:
    """Return the result that a part of the kind functionResponse holds; `status` is what the log says of the call."""
    response = drafts.object_of(drafts.object_of(part).get("functionResponse"))
    answer = response.get("response")
    answer = answer if isinstance(answer, dict) else {"output": answer}
    content = answer.get("error") or answer.get("output") or answer.get("content")
    text, code = drafts.split_output(extract_text(content))
    failed = {"error": True, "cancelled": True, "success": False, "ok": False}.get(str(status))
    return drafts.result(
        call_id or response.get("id"),
        tool or response.get("name"),
        text,
        failed=True if answer.get("error") else (failed if code is None or failed else None),
        reason="rejected" if status == "cancelled" else None,
        exit_code=code,
    )


def split_prompt(content: Any) -> tuple[str, str]:
    """Return what a person typed and what the agent appended: files that were named, an editor's state, a hook's words.

    The first part is what was typed; the agent puts what it adds into parts of its own. Older versions joined them.
    """
    parts = content if isinstance(content, list) else [content]
    if any(isinstance(part, dict) and "functionResponse" in part for part in parts):
        return "", "\n".join(map(_text, parts))
    typed, _, files = _text(parts[0]).partition(_REFERENCED) if parts else ("", "", "")
    return typed, "\n".join(text for text in (files, *map(_text, parts[1:])) if text)


def _text(part: Any) -> str:
    if isinstance(part, dict):
        return extract_text(part["text"]) if "text" in part and not part.get("thought") else ""
    return part if isinstance(part, str) else ""
