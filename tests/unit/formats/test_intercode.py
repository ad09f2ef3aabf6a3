"""Reading InterCode results."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.harness import intercode
from consolidator.formats.base import Item
from consolidator.models.payload import EventType
from tests.unit.formats.format_logs import (
    data_directory,
    read_text,
    select_events,
    select_problems,
    select_sessions,
    select_type,
)


def record(environment: str = "ic_sql", reward: float = 1.0, **history: list[Any]) -> dict[str, Any]:
    turns = {
        "actions": ["SELECT x FROM t", "SHOW TABLES", "submit"],
        "observations": ["Error executing query: Unknown column 'x' in 'field list'", "[('t',)]", None],
        "rewards": [0.0, 0.0, reward],
        "valid_action": [False, True, True],
        **history,
    }
    return {
        "environment": environment,
        "dataset": "dev.json",
        "task_id": 7,
        "query": "How many?",
        "turn_history": turns,
        "summary": {"max_reward": reward},
        "hardness": "easy",
    }


def read(tmp_path: Path, *records: object) -> list[Item]:
    text = json.dumps({str(n): entry for n, entry in enumerate(records)}, indent=1)
    return read_text(intercode, tmp_path, text, "run/dev.json")


def test_each_record_is_a_session_of_one_task(tmp_path: Path) -> None:
    items = read(tmp_path, record(), record("ic_bash", 0.5))
    assert [session.origin for session in select_sessions(items)] == ["run/dev#0", "run/dev#1"]
    assert {session.agent for session in select_sessions(items)} == {"intercode"}
    assert select_sessions(items)[0].details == {"environment": "ic_sql", "dataset": "dev.json", "hardness": "easy"}
    assert [event.data["task_id"] for event in select_type(items, EventType.TASK_START)] == ["ic_sql:7", "ic_bash:7"]
    ends = select_type(items, EventType.TASK_END)
    assert [(event.data["outcome"], event.data["reward"]) for event in ends] == [("success", 1.0), ("failure", 0.5)]
    assert [event.data["text"] for event in select_type(items, EventType.USER_MESSAGE)] == ["How many?"] * 2


def test_actions_go_to_the_tool_of_their_environment(tmp_path: Path) -> None:
    items = read(tmp_path, record(), record("ic_bash"), record("ic_python"))
    calls = [(event.data["tool"], event.data["arguments"]) for event in select_type(items, EventType.TOOL_CALL)]
    assert calls[::3] == [
        ("sql", {"query": "SELECT x FROM t"}),
        ("bash", {"command": "SELECT x FROM t"}),
        ("ic_python", {"action": "SELECT x FROM t"}),
    ]
    assert calls[2] == ("submit", {})


def test_an_action_fails_by_its_flag_or_by_what_is_clear(tmp_path: Path) -> None:
    clear = record(valid_action=[], observations=["Error executing query: no", "[]", "None"])
    items = read(tmp_path, record(), clear)
    statuses = [event.data["status"] for event in select_type(items, EventType.TOOL_RESULT)]
    assert statuses == ["error", "ok", "ok", "error", "ok", "ok"]


def test_observations_need_not_be_text_and_thoughts_are_answers(tmp_path: Path) -> None:
    items = read(tmp_path, record(observations=[[1, 2], {"a": None}, True], thoughts=["Hm.", "", None]))
    assert [event.data["content"] for event in select_type(items, EventType.TOOL_RESULT)] == [[1, 2], {"a": None}, True]
    assert [event.data["text"] for event in select_type(items, EventType.ASSISTANT_RESPONSE)] == ["Hm."]


def test_a_record_like_none_we_know_is_a_problem_and_the_next_is_read(tmp_path: Path) -> None:
    items = read(tmp_path, {"task_id": 1}, [], record())
    assert len(select_problems(items)) == 2
    assert select_problems(items)[0].line == 1  # the number of the record
    assert len(select_sessions(items)) == 1


def test_reading_again_names_everything_the_same(tmp_path: Path) -> None:
    first, second = read(tmp_path, record()), read(tmp_path, record(), record())
    keys = [event.key for event in select_events(second)]
    assert keys[: len(select_events(first))] == [event.key for event in select_events(first)]
    assert len(set(keys)) == len(keys)


def test_every_real_record_is_explained() -> None:
    folder = data_directory("intercode")
    outcomes: Counter[str] = Counter()
    for path in intercode.files(folder):
        assert intercode.recognises(path, path.read_bytes()[: 64 * 1024])
        items = list(intercode.read(path, folder))
        assert select_problems(items) == []
        records = json.loads(path.read_text(encoding="utf-8"))
        assert len(select_sessions(items)) == len(records)
        actions = [action for entry in records.values() for action in entry["turn_history"]["actions"]]
        assert len(select_type(items, EventType.TOOL_CALL)) == len(actions)
        assert len(select_type(items, EventType.TOOL_RESULT)) == len(actions)
        outcomes.update(event.data["outcome"] for event in select_type(items, EventType.TASK_END))
    assert outcomes == {"success": 793, "failure": 301}
