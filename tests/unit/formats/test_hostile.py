"""Any JSON: reading ends, and reports what it did not understand."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.formats import claw0, harness, native
from consolidator.formats.base import ForeignEvent, ForeignSession, Problem, Skipped
from consolidator.formats.claude_code import reader as claude_code
from consolidator.formats.codex import reader as codex
from consolidator.formats.common.json_parsing import to_float
from consolidator.formats.harness import EVENT_TYPES, GENERATION_TYPES
from consolidator.formats.openai import messages as openai_messages
from consolidator.models.payload import EventType
from tests.unit.formats.format_logs import NO_DEADLINE

NAMES: tuple[str, ...] = ("type", "id", "payload", "content", "role", "history", "trajectory", "info", "turn_history")
NAMES += ("tool_calls", "function", "arguments", "name", "action", "observation", "state", "thought", "tool_call_ids")
NAMES += (
    "actions",
    "observations",
    "rewards",
    "valid_action",
    "summary",
    "max_reward",
    "environment",
    "task_id",
    "query",
)
NAMES += ("consolidator", "session", "seq", "data", "agent", "details", "tool_use_id", "key", "ts", "msg_id", "delta")
WORDS = (
    "user",
    "assistant",
    "session",
    "tool_use",
    "tool_result",
    "text",
    "",
    *EVENT_TYPES,
    *GENERATION_TYPES,
    "UserMessage",
    "\ud800",
)

scalars = st.none() | st.booleans() | st.integers(-1, 3) | st.floats(allow_nan=False) | st.sampled_from(WORDS)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=20,
)
objects = st.dictionaries(st.sampled_from(NAMES), values, max_size=8)


@pytest.mark.parametrize("reader", [native, claw0, harness], ids=lambda reader: str(reader.NAME))
@NO_DEADLINE
@given(st.lists(objects, min_size=1, max_size=6))
def test_no_log_stops_a_reader(reader: ModuleType, lines: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.any"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        items = list(reader.read(path, path))
        path.write_text(json.dumps(lines[0]), encoding="utf-8")
        items += reader.read(path, path)
        reader.recognises(path.with_suffix(".jsonl"), path.read_bytes())
    assert all(isinstance(item, (ForeignEvent, ForeignSession, Problem, Skipped)) for item in items)
    named = False
    for item in items:
        named = named or isinstance(item, ForeignSession)
        assert named or not isinstance(item, ForeignEvent)


def claude_line(number: int, message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": message["role"], "sessionId": "s", "uuid": f"{number}", "message": message, **more}


HUGE = int("9" * 400)  # larger than any float
USE = [{"type": "tool_use", "id": "a", "name": "AskUserQuestion", "input": {}}]
RESULT = [{"type": "tool_result", "tool_use_id": "a", "content": "User has answered"}]
ASKED = {"questions": [{"question": "Which?", "options": 5}], "answers": {"Which?": "the blue one"}}
ENDLESS = f"Exit code: {'7' * 5000}\nOutput:\nit ends"
ODD_LOGS: dict[str, tuple[ModuleType, str, list[dict[str, Any]]]] = {
    "options that are no list": (
        claude_code,
        ".jsonl",
        [
            claude_line(1, {"role": "assistant", "model": "m", "content": USE}),
            claude_line(2, {"role": "user", "content": RESULT}, toolUseResult=ASKED),
        ],
    ),
    "an exit code of thousands of digits": (
        codex,
        ".jsonl",
        [
            {"type": "session_meta", "payload": {"id": "s", "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/src"}},
            {"type": "response_item", "payload": {"type": "function_call", "name": "shell", "call_id": "a"}},
            {
                "type": "response_item",
                "payload": {"type": "function_call_output", "call_id": "a", "output": ENDLESS},
            },
        ],
    ),
    "the reward of a conversation": (
        openai_messages,
        ".jsonl",
        [{"reward": HUGE, "messages": [{"role": "user", "content": "hello"}]}],
    ),
}


@pytest.mark.parametrize("what", ODD_LOGS)
def test_an_odd_value_costs_no_event(what: str, tmp_path: Path) -> None:
    reader, suffix, lines = ODD_LOGS[what]
    path = tmp_path / f"rollout-s{suffix}"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    items = list(reader.read(path, path))
    assert not [item for item in items if isinstance(item, Problem)]
    types = [item.type for item in items if isinstance(item, ForeignEvent)]
    assert types[-1] is {
        claude_code: EventType.APPROVAL_GRANTED,  # the answer
        codex: EventType.TOOL_RESULT,
        openai_messages: EventType.USER_MESSAGE,
    }[reader]  # fmt: skip


def test_numbers_are_floats_where_they_fit() -> None:
    assert [to_float(value) for value in (1, 0.5, HUGE, -HUGE, "1", None)] == [1.0, 0.5, None, None, None, None]
