"""Whatever JSON stands in a log, reading it ends, and says what it did not understand."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.formats import claw0, harness, intercode, native, swe_agent
from consolidator.formats.base import ForeignEvent, ForeignSession, Problem, Skipped
from consolidator.formats.harness_lines import FOLDED, KINDS
from tests.unit.foreign import UNHURRIED

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
    *KINDS,
    *FOLDED,
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


@pytest.mark.parametrize("form", [native, claw0, harness, swe_agent, intercode], ids=lambda form: str(form.NAME))
@UNHURRIED
@given(st.lists(objects, min_size=1, max_size=6))
def test_no_log_stops_a_reader(form: ModuleType, lines: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.any"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        items = list(form.read(path, path))
        path.write_text(json.dumps(lines[0]), encoding="utf-8")
        items += form.read(path, path)
        form.recognises(path.with_suffix(".jsonl"), path.read_bytes())
    assert all(isinstance(item, (ForeignEvent, ForeignSession, Problem, Skipped)) for item in items)
    named = False
    for item in items:
        named = named or isinstance(item, ForeignSession)
        assert named or not isinstance(item, ForeignEvent)
