"""Codex CLI's rollouts: JSONL under ~/.codex/sessions, each line wrapped in a type and a payload (once it was bare).

Forks and sub-agents copy what their parent said so far, under new times: a key is made of everything that was said
before it and of the session this began with, so that a copy has the keys of its original, up to where it parts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem, Skipped
from consolidator.formats.codex import items as items
from consolidator.formats.codex.items import Drafts
from consolidator.formats.common.coercion import fitting
from consolidator.formats.common.content import text_of
from consolidator.formats.common.jsonl import files_below, head_objects, parse_json, read_objects
from consolidator.formats.common.project import project_of
from consolidator.formats.common.timestamps import at
from consolidator.models.payload import EventType

NAME = "codex"
_WRAPPERS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_INDEXES = ("history.jsonl", "session_index.jsonl")


def default_paths(home: Path) -> list[Path]:
    """Return where Codex keeps its sessions."""
    return [home / ".codex" / "sessions", home / ".codex" / "archived_sessions"]


def files(path: Path) -> Iterator[Path]:
    """Yield the rollouts at or below `path`, oldest first, so that parents come before their copies."""
    yield from (file for file in files_below(path, ".jsonl") if file.name not in _INDEXES)


def recognises(path: Path, head: bytes) -> bool:
    """Tell from the first lines: the wrapper's types, or the header of the bare rollouts."""
    return any(
        (line.get("type") in _WRAPPERS and isinstance(line.get("payload"), dict))
        or (path.name.startswith("rollout-") and "type" not in line and {"id", "timestamp"} <= line.keys())
        for line in head_objects(head)
    )


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read one rollout as a stream, after a look at what it holds."""
    yield from _CodexReader(path).items()


class _CodexReader:
    """Reads one file; holds the headers it begins with and the open calls."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._metas: list[tuple[dict[str, Any], object, int]] = []  # headers before the first item; ours is the first
        self._keys: ItemKeys | None = None
        self._chain = ""
        self._tools: dict[str, dict[str, Any]] = {}  # open calls
        self._model: str | None = None
        self._delegated = False
        self._origin = path.stem[-36:]
        self._users, self._answers, self._first_model = _survey(path)

    def items(self) -> Iterator[Item]:
        """Yield what the file holds."""
        for number, line in read_objects(self._path):
            if not isinstance(line, dict):
                yield line
                continue
            kind, payload = _unwrapped(line)
            if payload is None:
                yield Problem(f"a {kind} line without a payload", number)
            elif kind == "session_meta":
                if self._keys is None:
                    self._metas.append((payload, line.get("timestamp"), number))
                if len(self._metas) != 1 or self._keys is not None:
                    yield Skipped("repeated header", number)
            else:
                yield from self._line(kind, payload, line.get("timestamp"), number)
        if self._keys is None and self._metas:
            yield from self._start()

    def _line(self, kind: str, payload: dict[str, Any], told: object, number: int) -> Iterator[Item]:
        if self._keys is None:
            yield from self._start()
        base = self._key(kind, payload)
        drafts = list(self._drafts(kind, payload, base))
        if not drafts:
            name = kind if kind in ("turn_context", "state") else f"{kind}:{payload.get('type')}"
            yield Skipped(name, number)
            return
        when = at(told)
        for part, (event, told_data) in enumerate(drafts):
            data = fitting(event, {**when, **told_data})
            yield ForeignEvent(f"{base}/{part}", event, data, tool_name=data.get("tool"), line=number)

    def _key(self, kind: str, payload: dict[str, Any]) -> str:
        """Return the key of a line; what the model saw is chained, what the harness noted beside it is not."""
        assert self._keys is not None
        key = self._keys.key(self._chain, kind, payload)
        if kind == "response_item":
            text = self._chain + json.dumps(payload, sort_keys=True)
            self._chain = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return key

    def _start(self) -> Iterator[Item]:
        """Name the session, by the headers that have been read."""
        meta, told, number = self._metas[0] if self._metas else ({}, None, 1)
        self._origin = str(meta.get("id") or self._origin)
        eldest = self._metas[-1][0] if self._metas else {}
        seed = eldest.get("forked_from_id") or eldest.get("id") or self._origin
        self._keys = ItemKeys(f"{NAME}/{seed}")
        session = _session(meta, self._origin, self._first_model)
        self._delegated = session.kind == "sub-agent"
        yield session
        git = meta.get("git")
        prompt = meta.get("base_instructions") or meta.get("instructions")
        start = {
            "cwd": meta.get("cwd"),
            "model": self._first_model,
            "system_prompt": text_of(prompt) or None,
            "version": meta.get("cli_version"),
            "git_branch": git.get("branch") if isinstance(git, dict) else None,
            **at(meta.get("timestamp") or told),
        }
        data = fitting(EventType.SESSION_START, start)
        yield ForeignEvent(f"{NAME}/{self._origin}/start", EventType.SESSION_START, data, line=number)

    def _drafts(self, kind: str, payload: Mapping[str, Any], base: str) -> Drafts:
        if kind == "response_item":
            yield from self._item(payload, base)
        elif kind == "event_msg":
            yield from self._event(payload)
        elif kind == "compacted":
            yield EventType.POLICY_DECISION, {"decision": "compaction", "summary": text_of(payload.get("message"))}
        elif kind == "turn_context" and isinstance(payload.get("model"), str):
            if self._model not in (None, payload["model"]):
                yield EventType.POLICY_DECISION, {"decision": "model_routed", "model": payload["model"]}
            self._model = payload["model"]

    def _item(self, payload: Mapping[str, Any], base: str) -> Drafts:
        kind = payload.get("type")
        if kind == "message":
            for event, data in items.message(payload, self._delegated):
                yield event, {**data, "model": self._model} if event is EventType.ASSISTANT_RESPONSE else data
        elif kind == "reasoning":
            yield from items.reasoning(payload)
        elif kind in items.CALLS:
            call = items.call(payload, items.tool_of(payload))
            self._tools[call["call_id"]] = call
            yield EventType.TOOL_CALL, call
        elif kind in items.OUTPUTS:
            yield from self._output(payload)
        elif kind in items.ALONE:
            call = items.call(payload, items.tool_of(payload))
            call["call_id"] = call["call_id"] or base
            yield EventType.TOOL_CALL, call
            failed = payload.get("status") in ("failed", "incomplete")
            told = {"call_id": call["call_id"], "tool": call["tool"], "status": "error" if failed else "ok"}
            yield EventType.TOOL_RESULT, {**told, "content": ""}

    def _output(self, payload: Mapping[str, Any]) -> Drafts:
        call = self._tools.pop(str(payload.get("call_id") or ""), {})
        result = items.output(payload, call.get("tool"))
        yield EventType.TOOL_RESULT, result
        if result["reason"] == "rejected":
            told = {"call_id": result["call_id"], "tool": result["tool"], "arguments": call.get("arguments")}
            yield EventType.APPROVAL_DENIED, told
        if result["tool"] == "spawn_agent" and result["status"] == "ok":
            child = _agent_of(result["content"])
            if child is not None:
                yield EventType.SUBAGENT_SPAWN, {"child": child, "call_id": result["call_id"]}

    def _event(self, payload: Mapping[str, Any]) -> Drafts:
        """Yield what only the harness tells; messages are told twice, and count here where the items lack them."""
        kind = payload.get("type")
        if kind == "turn_aborted":
            yield EventType.POLICY_DECISION, {"decision": "turn_interrupted", "reason": payload.get("reason")}
        elif kind in ("error", "stream_error"):
            yield EventType.ERROR, {"message": text_of(payload.get("message"))}
        elif kind == "user_message" and not self._users:
            yield from items.user_text(text_of(payload.get("message")), self._delegated)
        elif kind == "agent_message" and not self._answers:
            yield EventType.ASSISTANT_RESPONSE, {"text": text_of(payload.get("message")), "model": self._model}
        elif kind in ("exec_approval_request", "apply_patch_approval_request"):
            tool = "apply_patch" if "patch" in kind else "shell"
            call = payload.get("call_id")
            yield EventType.APPROVAL_REQUESTED, {"call_id": call, "tool": tool, "reason": payload.get("reason")}


def _unwrapped(line: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Return a line's type and payload; bare lines, of old rollouts, are given the type they would have now."""
    kind, payload = line.get("type"), line.get("payload")
    if kind in _WRAPPERS or isinstance(payload, dict):
        return str(kind), payload if isinstance(payload, dict) else None
    if isinstance(kind, str):
        return "response_item", dict(line)
    if "record_type" in line:
        return "state", dict(line)
    return "session_meta", dict(line)


def _survey(path: Path) -> tuple[bool, bool, str | None]:
    """Return whether the items hold a person's messages and the model's, and the first model; mostly soon known."""
    users = answers = False
    model: str | None = None
    for _, line in read_objects(path):
        kind, payload = _unwrapped(line) if isinstance(line, dict) else ("", None)
        if payload is None:
            continue
        if kind == "turn_context" and isinstance(payload.get("model"), str):
            model = model or payload["model"]
        elif kind == "response_item" and payload.get("type") == "message":
            answers = answers or payload.get("role") == "assistant"
            spoken = items.message(payload, False) if payload.get("role") == "user" else ()
            users = users or any(data.get("origin") == "user" for _, data in spoken)
        if users and answers and model:
            break
    return users, answers, model


def _session(meta: Mapping[str, Any], origin: str, model: str | None) -> ForeignSession:
    source = meta.get("source")
    spawned = source.get("subagent", source.get("sub_agent")) if isinstance(source, dict) else None
    thread = spawned.get("thread_spawn") if isinstance(spawned, dict) else None
    parent = meta.get("parent_thread_id") or (thread.get("parent_thread_id") if isinstance(thread, dict) else None)
    parent = parent or meta.get("forked_from_id")
    forked = "fork" if parent is not None else "root"
    cwd = meta.get("cwd")
    return ForeignSession(
        origin=origin,
        agent=NAME,
        channel=source if isinstance(source, str) else "cli",
        project=project_of(cwd if isinstance(cwd, str) else None),
        model=model,
        kind="sub-agent" if spawned is not None or meta.get("parent_thread_id") else forked,
        parent_origin=str(parent) if parent is not None else None,
    )


def _agent_of(text: str) -> str | None:
    """Return the session of the sub-agent that a spawn answers with."""
    try:
        value = parse_json(text)
    except ValueError:
        return None
    child = value.get("agent_id") if isinstance(value, dict) else None
    return child if isinstance(child, str) else None
