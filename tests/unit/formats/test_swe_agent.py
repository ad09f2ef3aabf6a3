"""Reading SWE-agent trajectories."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.harness import swe_agent
from consolidator.formats.base import Item, Problem
from consolidator.models.payload import EventType
from tests.unit.formats.format_logs import (
    data_directory,
    read_text,
    select_events,
    select_problems,
    select_sessions,
    select_type,
    skipped_kinds,
)

TASK = "We're solving this.\nISSUE:\nIt crashes\non Mondays.\n\nINSTRUCTIONS:\nOne command at a time."


def step(action: str, observation: str, thought: str = "Let us see.") -> dict[str, Any]:
    state = json.dumps({"open_file": "n/a", "working_dir": "/repo"})
    return {"action": action, "observation": observation, "response": thought, "state": state, "thought": thought}


def turn(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "agent": "main", **more}


def calling_turn(name: str, arguments: object, call_id: str, action: str) -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return turn("assistant", "I call.", thought="I call.", action=action, tool_calls=[call])


def shell_run() -> dict[str, Any]:
    return {
        "environment": "main",
        "trajectory": [
            step("python a.py\n", "Traceback (most recent call last):\n  File\nValueError: x"),
            step("sleep 99\n", "\nEXECUTION TIMED OUT"),
            step("submit\n", "diff --git a b"),
        ],
        "history": [
            turn("system", "You are a programmer."),
            turn("user", "A demonstration: ls", is_demo=True),
            turn("user", TASK),
            turn("assistant", "Let us see.", action="python a.py\n", thought="Let us see."),
            turn("user", "Traceback ..."),
        ],
        "info": {"exit_status": "submitted", "submission": "diff --git a b", "model_stats": {"instance_cost": 0.5}},
    }


def read(tmp_path: Path, record: object, name: str = "owner__repo-12.traj") -> list[Item]:
    return read_text(swe_agent, tmp_path, json.dumps(record), name)


def test_each_step_is_an_answer_a_call_and_a_result(tmp_path: Path) -> None:
    items = read(tmp_path, shell_run())
    kinds = [event.type.value for event in select_events(items)]
    assert kinds[:3] == ["SessionStart", "TaskStart", "UserMessage"]
    assert kinds[3:-1] == ["AssistantResponse", "ToolCall", "ToolResult"] * 3
    call, result = select_events(items)[4:6]
    assert (call.data["tool"], call.data["arguments"]) == ("bash", {"command": "python a.py"})
    assert (result.data["status"], result.data["call_id"]) == ("error", call.data["call_id"])
    assert result.data["cwd"] == "/repo"


def test_a_timeout_says_so(tmp_path: Path) -> None:
    results = select_type(read(tmp_path, shell_run()), EventType.TOOL_RESULT)
    assert [(event.data["status"], event.data.get("reason")) for event in results] == [
        ("error", None),
        ("error", "timeout"),
        ("ok", None),
    ]


def test_task_prompt_and_end_are_told(tmp_path: Path) -> None:
    items = read(tmp_path, shell_run())
    start, task, message = select_events(items)[:3]
    assert start.data["system_prompt"] == "You are a programmer."
    assert task.data["goal"] == "It crashes\non Mondays."
    assert message.data["origin"] == "harness"
    end = select_events(items)[-1]
    assert (end.type, end.data["outcome"]) == (EventType.TASK_END, "unknown")
    assert {event.task_id for event in select_events(items)} == {"owner__repo-12"}
    (session,) = select_sessions(items)
    assert (session.agent, session.project, session.ended) == ("swe-agent", "owner/repo", True)


def test_what_is_said_twice_is_counted_and_left_out(tmp_path: Path) -> None:
    assert Counter(skipped_kinds(read(tmp_path, shell_run()))) == {"demonstration": 1, "repeated": 2}


def test_function_calls_keep_their_names_and_arguments(tmp_path: Path) -> None:
    record = shell_run()
    record["history"][3:] = [
        calling_turn("open", {"path": "a.py"}, "c1", "open a.py"),
        turn("tool", "1: pass", tool_call_ids=["c1"]),
    ]
    record["trajectory"] = [step("open a.py", "1: pass"), step("ls", "a.py")]
    calls = select_type(read(tmp_path, record), EventType.TOOL_CALL)
    assert [(call.data["call_id"], call.data["tool"], call.data["arguments"]) for call in calls] == [
        ("c1", "open", {"path": "a.py"}),
        ("step-2", "bash", {"command": "ls"}),
    ]


def test_a_history_alone_is_enough(tmp_path: Path) -> None:
    history = [
        turn("system", "You are."),
        turn("user", TASK),
        calling_turn("find_file", {"name": "a.py"}, "c1", "find_file a.py"),
        turn("tool", "Found 1\n(Open file: n/a)\n(Current directory: /r)\nbash-$", tool_call_ids=["c1"]),
        turn("assistant", "Now ls.", thought="Now ls.", action="ls"),
        turn("user", "Your command ran successfully and did not produce any output.\n(Open file: n/a)\n"
             "(Current directory: /r)\nbash-$"),
    ]  # fmt: skip
    items = read(tmp_path, {"history": history}, "mine.traj")
    results = select_type(items, EventType.TOOL_RESULT)
    assert [(event.data["tool"], event.data["content"]) for event in results] == [
        ("find_file", "Found 1"),
        ("bash", ""),
    ]
    (session,) = select_sessions(items)
    assert (session.origin, session.project, session.ended) == ("mine", None, True)


def test_a_run_stopped_for_its_cost_failed_and_says_why(tmp_path: Path) -> None:
    record = shell_run()
    record["trajectory"].append(step("exit_cost", "", "Exit due to cost limit"))
    record["info"]["exit_status"] = "exit_cost"
    items = read(tmp_path, record)
    assert [event.data["decision"] for event in select_type(items, EventType.POLICY_DECISION)] == ["budget_stop"]
    assert select_type(items, EventType.TASK_END)[0].data["outcome"] == "failure"
    assert len(select_type(items, EventType.TOOL_CALL)) == 3


def test_a_run_that_is_still_going_on_has_no_end_and_its_rest_comes_later(tmp_path: Path) -> None:
    record = shell_run()
    early = {**record, "trajectory": record["trajectory"][:1], "info": {"exit_status": None}}
    before, after = read(tmp_path, early), read(tmp_path, record)
    assert not select_sessions(before)[0].ended
    assert select_type(before, EventType.TASK_END) == []
    assert [event.key for event in select_events(before)] == [event.key for event in select_events(after)][
        : len(select_events(before))
    ]


def test_damaged_files_are_problems(tmp_path: Path) -> None:
    for text in ("", "{", "[]", "{}", '{"history": "no"}', '{"trajectory": []}'):
        items = read_text(swe_agent, tmp_path, text, "x.traj")
        assert len(items) == 1
        assert isinstance(items[0], Problem)


def test_odd_values_do_not_stop_the_reading(tmp_path: Path) -> None:
    record = {
        "history": [1, {"role": "user", "content": [{"type": "text", "text": "do it"}]}, {"content": None}],
        "trajectory": [{"action": None, "observation": {"a": 1}}, {"action": "ls", "observation": 5, "state": "no"}],
        "info": [],
        "replay_config": "not json",
    }
    items = read(tmp_path, record)
    assert select_problems(items) == []
    assert select_type(items, EventType.TOOL_RESULT)[0].data["content"] == 5


def test_every_real_trajectory_is_explained() -> None:
    folder = data_directory("swe-agent")
    failures = 0
    paths = list(swe_agent.files(folder))
    assert paths
    for path in paths:
        assert swe_agent.recognises(path, path.read_bytes()[: 64 * 1024])
        items = list(swe_agent.read(path, folder))
        assert select_problems(items) == []
        calls, results = select_type(items, EventType.TOOL_CALL), select_type(items, EventType.TOOL_RESULT)
        assert [event.data["call_id"] for event in calls] == [event.data["call_id"] for event in results]
        steps = json.loads(path.read_text(encoding="utf-8")).get("trajectory") or calls
        assert len(calls) == len(steps)
        failures += sum(event.data["status"] == "error" for event in results)
    assert failures == 28
