"""Read Codex CLI's rollouts: JSONL under ~/.codex/sessions, each line a type and a payload (bare items in old ones).

Forks and sub-agents copy their parent's items under new times. So a key is a digest of the root session and of all
items before this one: a copied item has the key of its original, up to the point where the sessions diverge.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, ItemKeys, Problem, Skipped
from consolidator.formats.codex import items
from consolidator.formats.common.content import extract_text, split_message
from consolidator.formats.common.drafts import SIGNALS, Drafts, object_of
from consolidator.formats.common.fields import describe_shape
from consolidator.formats.common.json_parsing import parse_container
from consolidator.formats.common.jsonl import parse_head, read_objects
from consolidator.formats.common.log_files import PACKED, find_files
from consolidator.formats.common.records import Conversation, RecordForm, Records, Statements
from consolidator.models.payload import EventType

NAME = "codex"
_Line = tuple[int, dict[str, Any] | Skipped | Problem]  # with its number
_Header = tuple[int, dict[str, Any], object]  # with its line and time
_LINE_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_KEPT_BYTES = 1024 * 1024  # of a file; the lines of a larger one are read twice
_ENCODER = json.JSONEncoder(sort_keys=True)
MAX_RUNNING, MAX_POLLED = 64, 256 * 1024  # commands that go on, the latest; characters of what polls brought of one
_FIRST_RECORDING = (0, 147)  # the first version whose rollouts always record what was submitted
_INDEX_FILES = ("history.jsonl", "session_index.jsonl")


def files(path: Path) -> Iterator[Path]:
    """Yield the rollouts at or below `path`, oldest first: parents before their copies."""
    yield from (file for file in find_files(path, ".jsonl", ".jsonl.zst") if file.name not in _INDEX_FILES)


def recognises(path: Path, head: bytes) -> bool:
    """Check the first lines for the types of lines, or for the header of an old rollout."""
    return any(
        (line.get("type") in _LINE_TYPES and isinstance(line.get("payload"), dict))
        or (path.name.startswith("rollout-") and "type" not in line and {"id", "timestamp"} <= line.keys())
        for line in parse_head(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one rollout as a stream, after a survey of its contents."""
    rollout = _Rollout(path)
    form = RecordForm(NAME, kind=("kind",), name_part=lambda _, part: (f"{rollout.base}/{part}", None))
    yield from form.read(rollout.records(), rollout.draft)


class _Rollout:
    """Drafts the lines of one file; keeps its first headers and the open calls."""

    def __init__(self, path: Path) -> None:
        self.base = ""  # the key of the line that is drafted
        self._keys = ItemKeys(NAME)
        self._chain_digest = ""
        self._open_calls: dict[str, dict[str, Any]] = {}  # by call id
        self._scripts: dict[str, int] = {}  # open scripts of code mode, by call id: how many items were done before
        self._cells: dict[str, tuple[dict[str, Any], int]] = {}  # likewise, with their calls, by what `wait` asks for
        self._running: dict[str, dict[str, Any]] = {}  # results of calls that go on, by what `write_stdin` asks for
        self._seen_calls: set[str] = set()  # ids: an item that repeats a call of the model's is not another one
        self._item_calls = self._failed_items = 0
        self._model: str | None = None
        self._session = Conversation(path.name.removesuffix(".zst").removesuffix(".jsonl")[-36:])
        lines = list(read_objects(path)) if path.suffix != PACKED and path.stat().st_size <= _KEPT_BYTES else None
        self._lines = read_objects(path) if lines is None else lines
        self._survey = _survey_lines(read_objects(path) if lines is None else lines)

    @property
    def _is_subagent(self) -> bool:
        return self._session.kind == "sub-agent"

    def records(self) -> Records:
        """Yield the lines, the first header before the first item: headers between are of the sessions it copies."""
        headers: list[_Header] = []
        is_begun = False
        for number, line in self._lines:
            if not isinstance(line, dict):
                yield number, line
                continue
            kind, payload = _unwrap_line(line)
            if payload is None:
                yield number, Problem(f"the {kind} line has no payload", number)
            elif kind == "session_meta":
                if headers or is_begun:
                    yield number, Skipped("repeated header", number)
                if not is_begun:
                    headers.append((number, payload, line.get("timestamp")))
            else:
                if not is_begun:
                    yield self._begin(headers)
                    is_begun = True
                yield number, {"kind": kind, "payload": payload, "timestamp": line.get("timestamp")}
        if headers and not is_begun:
            yield self._begin(headers)

    def _begin(self, headers: list[_Header]) -> tuple[int, dict[str, Any]]:
        """Return the record of the session's own header, the first of those before the first item."""
        number, header, timestamp = headers[0] if headers else (1, {}, None)
        origin = str(header.get("id") or self._session.origin)
        oldest = headers[-1][1] if headers else {}
        self._keys = ItemKeys(f"{NAME}/{oldest.get('forked_from_id') or oldest.get('id') or origin}")
        self._session = _build_session(header, origin, self._survey.model, timestamp)
        return number, {"kind": "session_meta", "payload": header}

    def draft(self, record: dict[str, Any]) -> Statements:
        """Yield what a line says."""
        kind, payload = record["kind"], record["payload"]
        yield self._session
        if kind != "session_meta":
            self.base = self._next_key(kind, payload)
            yield _skip_line(kind, payload)
            yield from self._draft_line(kind, payload)

    def _next_key(self, kind: str, payload: dict[str, Any]) -> str:
        """Return the key of a line; items that the model saw extend the chain, the harness's own events do not."""
        key = self._keys.next_key(self._chain_digest, kind, payload)
        if kind == "response_item":
            text = self._chain_digest + _ENCODER.encode(payload)
            self._chain_digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return key

    def _draft_line(self, kind: str, payload: Mapping[str, Any]) -> Drafts:
        if kind == "response_item":
            yield from self._draft_item(payload)
        elif kind == "event_msg":
            yield from self._draft_event(payload)
        elif kind == "compacted":
            yield EventType.POLICY_DECISION, {"decision": "compaction", "summary": extract_text(payload.get("message"))}
        elif kind == "turn_context" and isinstance(payload.get("model"), str):
            if self._model not in (None, payload["model"]):
                yield EventType.POLICY_DECISION, {"decision": "model_routed", "model": payload["model"]}
            self._model = payload["model"]

    def _draft_item(self, payload: Mapping[str, Any]) -> Drafts:
        kind = payload.get("type")
        if kind == "message":
            for event_type, data in items.draft_message(payload, self._is_subagent, self._survey.submitted):
                yield event_type, {**data, "model": self._model} if event_type is EventType.ASSISTANT_RESPONSE else data
        elif kind == "reasoning":
            yield from items.draft_reasoning(payload)
        elif kind in items.CALL_TYPES:
            call = items.build_call(payload, items.get_tool_name(payload))
            self._open_calls[call["call_id"]] = call
            if items.is_script(payload):
                self._scripts[call["call_id"]] = self._item_calls
            else:
                self._seen_calls.add(call["call_id"])
                yield EventType.TOOL_CALL, call
        elif kind in items.OUTPUT_TYPES:
            yield from self._draft_output(payload)
        elif kind in items.PROVIDER_CALL_TYPES and self._is_new_call(payload.get("id")):
            call = items.build_call(payload, items.get_tool_name(payload))
            call["call_id"] = call["call_id"] or self.base
            yield EventType.TOOL_CALL, call
            failed = payload.get("status") in ("failed", "incomplete")
            result = {"call_id": call["call_id"], "tool": call["tool"], "status": "error" if failed else "ok"}
            yield EventType.TOOL_RESULT, {**result, "content": ""}

    def _draft_output(self, payload: Mapping[str, Any]) -> Drafts:
        call_id = str(payload.get("call_id") or "")
        call = self._open_calls.pop(call_id, {})
        if (done_before := self._scripts.pop(call_id, None)) is not None:
            state, cell = items.script_state(payload)
            cell_id = str(object_of(call.get("arguments")).get("cell_id") or cell)
            call, done_before = self._cells.pop(cell_id, (call, done_before))
            if state == "running":
                self._cells[cell_id] = call, done_before
                if len(self._cells) > MAX_RUNNING:
                    del self._cells[next(iter(self._cells))]
            failed = state in items.FAILED_SCRIPT and not self._failed_items  # by itself, not by what it called
            self._failed_items = 0
            if failed or (state != "running" and call["tool"] == "exec" and self._item_calls == done_before):
                call, result = items.draft_script(call, payload)
                yield EventType.TOOL_CALL, call
                yield from self._draft_result(call, result)
            return
        result = items.build_result(payload, call.get("tool"))
        yield from self._draft_result(call, result)
        if items.is_denial(payload, result["tool"]):
            denial = {"call_id": result["call_id"], "tool": result["tool"], "arguments": call.get("arguments")}
            yield EventType.APPROVAL_DENIED, denial
        if result["tool"] == "spawn_agent" and result["status"] == "ok":
            child = _parse_agent_id(result["content"])
            if child is not None:
                yield EventType.SUBAGENT_SPAWN, {"child": child, "call_id": result["call_id"]}

    def _draft_result(self, call: Mapping[str, Any], result: dict[str, Any]) -> Drafts:
        """Yield a call's result; how a command ends that went on belongs to its own call, not to the one that asks."""
        session = items.polled_session(call) if result["reason"] is None else ""
        if (polled := self._running.get(session)) is not None:
            output = polled["content"] + result["content"]
            # The polls have all of it; cut in whole lines, as a part of a credential is not recognised.
            polled["content"] = output if len(output) <= MAX_POLLED else output[-MAX_POLLED:].partition("\n")[2]
            if (code := result["exit_code"]) is not None:
                del self._running[session]
                status, reason = result["status"], "aborted" if code in SIGNALS else None
                end = {"status": status, "reason": reason, "exit_code": code, "content": polled["content"]}
                result |= {"status": "ok", "exit_code": None}
                yield EventType.TOOL_RESULT, result
                yield EventType.POLICY_DECISION, {"decision": "call_ended", "call_id": polled["call_id"], **end}
                return
        elif "background" in result:
            self._running[result["background"]] = {**result}
            if len(self._running) > MAX_RUNNING:
                del self._running[next(iter(self._running))]
        yield EventType.TOOL_RESULT, result

    def _draft_event(self, payload: Mapping[str, Any]) -> Drafts:
        """Yield the events that only the harness reports; messages count only if the items have none."""
        kind = payload.get("type")
        if kind == "turn_aborted":
            yield EventType.POLICY_DECISION, {"decision": "turn_interrupted", "reason": payload.get("reason")}
        elif kind in ("error", "stream_error"):
            yield EventType.ERROR, {"message": extract_text(payload.get("message"))}
        elif kind == "user_message" and not self._survey.has_user_messages:
            is_harness = self._is_subagent or self._survey.has_items or not _is_submission(payload)
            yield from items.draft_user_text(extract_text(payload.get("message")), is_harness)
        elif kind == "item_completed":
            yield from self._draft_completed(payload)
        elif kind == "agent_message" and not self._survey.has_answers:
            yield EventType.ASSISTANT_RESPONSE, {"text": extract_text(payload.get("message")), "model": self._model}
        elif kind in ("exec_approval_request", "apply_patch_approval_request"):
            tool = "apply_patch" if "patch" in kind else "shell"
            call = payload.get("call_id")
            yield EventType.APPROVAL_REQUESTED, {"call_id": call, "tool": tool, "reason": payload.get("reason")}

    def _draft_completed(self, payload: Mapping[str, Any]) -> Drafts:
        """Yield a completed item: a call, or what only it says."""
        item = payload.get("item")
        kind = item.get("type") if isinstance(item, Mapping) else None
        if not isinstance(item, Mapping):
            return
        if kind == "UserMessage" and not self._survey.has_user_messages:
            for text in _submitted_texts(payload):
                yield from items.draft_user_text(text, self._is_subagent)
        elif kind in items.ITEM_CALLS and self._is_new_call(item.get("id")):
            drafts = list(items.draft_item_call(item))
            self._item_calls += 1
            self._failed_items += any(data.get("status") == "error" for _, data in drafts)
            yield from drafts
        elif kind in ("AgentMessage", "Plan") and not self._survey.has_answers:
            text = extract_text(item.get("text") or item.get("content"))
            if text.strip():
                yield EventType.ASSISTANT_RESPONSE, {"text": text, "model": self._model}

    def _is_new_call(self, call_id: object) -> bool:
        """Note the id of a call; return whether it is the first of it, or has none."""
        if not isinstance(call_id, str) or not call_id:
            return True
        is_new = call_id not in self._seen_calls
        self._seen_calls.add(call_id)
        return is_new


# Lines that are known to hold nothing for the log; other kinds are counted as `type:...`, those of a newer version.
_EVENTLESS = ("turn_context", "state", "world_state", "token_usage_record", "ghost_snapshot")
_EVENTLESS_EVENTS = re.compile(
    r"(?:token_count|user_message|item_completed|undo_completed|view_image_tool_call|\w+_review_mode|context_compacted"
    r"|(?:task|turn|agent|thread|web_search|mcp_tool_call|patch_apply|exec_command|image_generation|collab|dynamic_tool)_\w+)"
)
_EVENTLESS_ITEMS = (*items.CALL_TYPES, *items.OUTPUT_TYPES, *items.PROVIDER_CALL_TYPES, "message", "ghost_snapshot")
_KNOWN_ITEMS: tuple[str, ...] = (
    *items.ITEM_CALLS,
    "UserMessage",
    "AgentMessage",
    "Plan",
    "Reasoning",
    "ContextCompaction",
)
_KNOWN_ITEMS += ("ImageGeneration", "HookPrompt", "ImageView")


def _skip_line(kind: str, payload: Mapping[str, Any]) -> Skipped:
    """Return what a line without events is counted as."""
    detail = payload.get("type")
    if kind in _EVENTLESS:
        return Skipped(kind)
    item = payload.get("item") if detail == "item_completed" else None
    if isinstance(item, Mapping):
        detail, is_known = f"{detail}/{item.get('type')}", item.get("type") in _KNOWN_ITEMS
    else:
        is_event = kind == "event_msg" and _EVENTLESS_EVENTS.fullmatch(str(detail)) is not None
        is_known = is_event or (kind == "response_item" and detail in _EVENTLESS_ITEMS)
    if is_known:
        return Skipped(f"{kind}:{detail}")
    return Skipped(f"type:{kind}:{detail}" if detail else f"type:{kind}", shape=describe_shape(payload))


def _unwrap_line(line: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Return a line's type and payload; a bare line of an old rollout gets the type it would have now."""
    kind, payload = line.get("type"), line.get("payload")
    if kind in _LINE_TYPES or isinstance(payload, dict):
        return str(kind), payload if isinstance(payload, dict) else None
    if isinstance(kind, str):
        return "response_item", dict(line)
    if "record_type" in line:
        return "state", dict(line)
    return "session_meta", dict(line)


@dataclass(slots=True)
class _Survey:
    """What a rollout has as a whole."""

    has_user_messages: bool = False  # among the items, by a person
    has_answers: bool = False  # among the items
    model: str | None = None  # the first
    has_items: bool = False  # whether items of their own record what was submitted, as from 0.147 on; then these alone
    submitted: set[str] | None = None  # what was submitted, stripped; None where the version records nothing of it


def _survey_lines(lines: Iterable[_Line]) -> _Survey:
    """Look through the lines of a rollout for what they do not tell one by one."""
    survey = _Survey()
    messages = []
    from_items: set[str] = set()

    for _, line in lines:
        kind, payload = _unwrap_line(line) if isinstance(line, dict) else ("", None)
        if payload is None:
            continue
        if kind == "turn_context" and isinstance(payload.get("model"), str):
            survey.model = survey.model or payload["model"]
        elif kind == "event_msg" and payload.get("type") == "user_message":
            survey.submitted = survey.submitted or set()
            if _is_submission(payload):
                survey.submitted.add(extract_text(payload.get("message")).strip())
        elif kind == "event_msg" and payload.get("type") == "item_completed" and _is_user_message(payload):
            texts = _submitted_texts(payload)
            from_items.update(text.strip() for text in [*texts, "".join(texts)])
            survey.has_items = True
        elif kind == "session_meta" and _records_submissions(payload):
            survey.submitted = survey.submitted or set()
        elif kind == "response_item" and payload.get("type") == "message":
            survey.has_answers = survey.has_answers or payload.get("role") == "assistant"
            if payload.get("role") == "user":
                survey.has_items = survey.has_items or items.content_kinds(payload) is not None
                content = payload.get("content")
                parts = content if isinstance(content, list) else [content]
                messages.append({**payload, "content": [split_message(part)[0] for part in parts]})  # no images

    if survey.has_items:
        survey.submitted = from_items
    for payload in messages:
        drafts = items.draft_message(payload, False, survey.submitted)
        survey.has_user_messages = survey.has_user_messages or any(data.get("origin") == "user" for _, data in drafts)
    return survey


def _is_user_message(payload: Mapping[str, Any]) -> bool:
    """Tell whether a completed item is a message that a person submitted."""
    item = payload.get("item")
    return isinstance(item, Mapping) and item.get("type") == "UserMessage"


def _submitted_texts(payload: Mapping[str, Any]) -> list[str]:
    """Return the texts of a message that a person submitted, part by part; none of another item."""
    parts = payload["item"].get("content") if _is_user_message(payload) else None
    return [split_message(part)[0] for part in parts] if isinstance(parts, list) else []


def _records_submissions(header: Mapping[str, Any]) -> bool:
    """Tell whether Codex has a version that records what was submitted: nothing else proves it then."""
    version = re.match(r"(\d{1,6})\.(\d{1,6})", str(header.get("cli_version") or ""))
    return version is not None and (int(version[1]), int(version[2])) >= _FIRST_RECORDING


def _is_submission(payload: Mapping[str, Any]) -> bool:
    """Tell whether an event of a user's message is a person's; older versions note their own context that way too."""
    return payload.get("kind", "plain") in (None, "plain")


def _build_session(header: Mapping[str, Any], origin: str, model: str | None, timestamp: object) -> Conversation:
    source = header.get("source")
    spawned = source.get("subagent", source.get("sub_agent")) if isinstance(source, dict) else None
    thread_spawn = spawned.get("thread_spawn") if isinstance(spawned, dict) else None
    spawned_by = thread_spawn.get("parent_thread_id") if isinstance(thread_spawn, dict) else None
    parent = header.get("parent_thread_id") or spawned_by or header.get("forked_from_id")
    own_kind = "fork" if parent is not None else "root"
    prompt = header.get("base_instructions") or header.get("instructions")
    return Conversation(
        origin,
        cwd=header.get("cwd"),
        time=header.get("timestamp") or timestamp,
        model=model,
        version=header.get("cli_version"),
        branch=object_of(header.get("git")).get("branch"),
        remote=object_of(header.get("git")).get("repository_url"),
        channel=source if isinstance(source, str) else "cli",
        kind="sub-agent" if spawned is not None or header.get("parent_thread_id") else own_kind,
        parent=str(parent) if parent is not None else None,
        details={"system_prompt": extract_text(prompt) or None},
        begins=True,
    )


def _parse_agent_id(text: str) -> str | None:
    """Return the sub-agent's session from the result of a spawn call."""
    agent_id = object_of(parse_container(text)).get("agent_id")
    return agent_id if isinstance(agent_id, str) else None
