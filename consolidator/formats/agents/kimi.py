"""Read Kimi Code's sessions: agents/<agent>/wire.jsonl of each, an append-only log of the agent's context.

A person's word is a user's message of the main agent whose origin is absent or of the kind user, without the texts of
the skills that were put before it. Answers come as parts of a step; what an undo took back is not read. Protocol 1.5
appends whole messages: there a person's has this origin, or was put in as an input.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Skipped
from consolidator.formats.common import drafts
from consolidator.formats.common.content import extract_text, split_message
from consolidator.formats.common.json_members import read_note
from consolidator.formats.common.json_parsing import parse_arguments
from consolidator.formats.common.jsonl import parse_head, read_objects
from consolidator.formats.common.log_files import find_files
from consolidator.formats.common.records import Conversation, RecordForm, Records, Statements, silent_kinds
from consolidator.models.payload import EventType

NAME = "kimi"
_WIRE = "wire.jsonl"
_MESSAGE, _APPENDED = "context.append_message", "agent.message.appended"
_FORM = RecordForm(NAME, id=("uuid",), time=("time", "created_at"), silent=silent_kinds(NAME))


def files(path: Path) -> Iterator[Path]:
    """Yield the sessions at or below `path`, the main agent's before its sub-agents'."""
    wires = [file for file in find_files(path, _WIRE) if file == path or file.parent.parent.name == "agents"]
    yield from sorted(
        wires, key=lambda file: (file.parents[2] if file != path else file, file.parent.name != "main", file)
    )


def recognises(path: Path, head: bytes) -> bool:
    """Check the first lines for the protocol's version, or a message that was put into a context."""
    return any(
        (line.get("type") == "metadata" and "protocol_version" in line)
        or (line.get("type") in (_MESSAGE, _APPENDED) and isinstance(line.get("message"), dict))
        for line in parse_head(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one agent's log, after a pass over what was taken back in it."""
    undone = _find_undone(path)
    lines: Records = (
        (number, Skipped("undone", number) if number in undone else line) for number, line in _read_lines(path)
    )
    yield from _FORM.read(lines, _Agent(path).draft)


def _read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the lines; a message of protocol 1.5 as one of the protocols before, where the log has none of these."""
    is_mirror = any(isinstance(line, dict) and line.get("type") == _MESSAGE for _, line in read_objects(path))
    for number, line in read_objects(path):
        if not isinstance(line, dict) or line.get("type") != _APPENDED:
            yield number, line
        elif is_mirror:
            yield number, Skipped("mirrored", number)
        else:
            appended = drafts.object_of(line.get("message"))
            message = drafts.object_of(appended.get("message"))
            is_input = drafts.object_of(appended.get("meta")).get("source") == "input"
            origin = message.get("origin") or {"kind": "user" if is_input else "unproven"}
            yield number, {**line, "type": _MESSAGE, "message": {**message, "origin": origin}}


def _find_undone(path: Path) -> set[int]:
    """Return the lines that an undo takes back: from a person's message that it names on."""
    undone: set[int] = set()
    lines: list[int] = []
    turns: list[int] = []  # where in them a person's messages stand
    for number, line in _read_lines(path):
        if not isinstance(line, dict):
            continue
        if line.get("type") == _MESSAGE and _is_prompt(line.get("message")):
            turns.append(len(lines))
        if line.get("type") in (_MESSAGE, "context.append_loop_event"):
            lines.append(number)
        elif line.get("type") == "context.clear":
            lines, turns = [], []
        elif line.get("type") == "context.undo":
            count = line.get("count", 1)
            if isinstance(count, int) and count > 0 and turns:
                start = turns[-min(count, len(turns))]
                undone.update(lines[start:])
                del lines[start:], turns[-count:]
    return undone


def _is_prompt(message: Any) -> bool:
    """Tell whether a message is one that a person typed as a turn of its own."""
    origin = message.get("origin") if isinstance(message, dict) else None
    kind = origin.get("kind") if isinstance(origin, dict) else None
    return isinstance(message, dict) and message.get("role") == "user" and (origin is None or kind == "user")


class _Agent:
    """Drafts the records of one agent; keeps its open step."""

    def __init__(self, path: Path) -> None:
        folder, agent = (path.parents[2], path.parent.name) if path.name == _WIRE else (path.parent, "main")
        state, self._is_main = read_note(folder / "state.json"), agent == "main"
        session_id = folder.name if path.name == _WIRE else path.stem
        self._session = Conversation(
            session_id if self._is_main else f"{session_id}/{agent}",
            cwd=state.get("workDir") or state.get("cwd"),
            time=state.get("createdAt"),
            parent=None if self._is_main else session_id,
        )
        self._answer: list[str] = []
        self._tools: dict[str, str] = {}

    def draft(self, record: dict[str, Any]) -> Statements:
        """Yield what a record says."""
        kind = record.get("type")
        if kind == _MESSAGE:
            yield Skipped(_MESSAGE)
            yield self._session
            yield from self._close_answer()
            yield from self._draft_message(drafts.object_of(record.get("message")))
        elif kind == "context.append_loop_event":
            yield self._session
            yield from self._draft_event(drafts.object_of(record.get("event")))
        elif kind == "context.apply_compaction":
            yield self._session
            yield EventType.POLICY_DECISION, {"decision": "compaction", "summary": extract_text(record.get("summary"))}

    def _draft_message(self, message: dict[str, Any]) -> drafts.Drafts:
        content, role, origin = message.get("content"), message.get("role"), message.get("origin")
        if role == "assistant":
            parts = content if isinstance(content, list) else [content]
            thoughts = [part for part in drafts.objects_of(parts) if part.get("type") == "think"]
            yield from drafts.thought([part.get("think") for part in thoughts])
            yield from drafts.answer([part for part in parts if part not in thoughts])
            for call in drafts.objects_of(message.get("toolCalls")):
                self._tools[drafts.text_of(call.get("id"))] = drafts.text_of(call.get("name"))
                yield drafts.call(call.get("id"), call.get("name"), parse_arguments(call, ("arguments",)))
        elif role == "tool":
            call_id = message.get("toolCallId")
            yield self._result(call_id, content, message.get("isError"))
        elif role == "user" and self._is_main and _is_prompt(message):
            count = len(drafts.objects_of(drafts.object_of(origin).get("skillActivations")))
            parts = content if isinstance(content, list) else [content]
            typed, other = split_message(parts[count:])
            yield from drafts.words(typed, drafts.join(extract_text(parts[:count]), other))
        elif role == "user":
            is_summary = drafts.object_of(origin).get("kind") == "compaction_summary"
            yield from drafts.harness(content, "compaction" if is_summary else "harness")

    def _draft_event(self, event: dict[str, Any]) -> Statements:
        kind, part = event.get("type"), event.get("part")
        kinds = ("step.begin", "step.end", "content.part", "llm.request", "tool.call", "tool.result", "step.retrying")
        yield Skipped(str(kind) if kind in kinds else f"type:loop:{drafts.text_of(kind)[:60]}")
        if kind == "content.part" and isinstance(part, dict):
            if part.get("type") == "text":
                self._answer.append(drafts.text_of(part.get("text")))
            elif part.get("type") == "think":
                yield from drafts.thought(part.get("think") or part.get("text"))
            return
        if kind in ("step.end", "tool.call", "tool.result"):
            yield from self._close_answer()
        if kind == "step.begin":
            self._answer.clear()  # a step that was tried again
        elif kind == "tool.call":
            self._tools[drafts.text_of(event.get("toolCallId"))] = drafts.text_of(event.get("name"))
            yield drafts.call(event.get("toolCallId"), event.get("name"), event.get("args"))
        elif kind == "tool.result":
            result = event.get("result")
            result = result if isinstance(result, dict) else {"output": result}
            yield self._result(event.get("toolCallId"), result.get("output"), result.get("isError"))

    def _close_answer(self) -> drafts.Drafts:
        text = "".join(self._answer)
        self._answer.clear()
        yield from drafts.answer(text)

    def _result(self, call_id: Any, content: Any, is_error: Any) -> drafts.Draft:
        text, code = drafts.split_output(extract_text(content))
        tool = self._tools.get(drafts.text_of(call_id))
        return drafts.result(
            call_id, tool, text, failed=is_error if isinstance(is_error, bool) else None, exit_code=code
        )
