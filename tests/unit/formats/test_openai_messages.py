"""Chat messages: every shape of file, results paired in order, failures detected conservatively."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any, cast

import pytest

from consolidator.formats.base import ForeignSession, Format
from consolidator.formats.openai import messages
from consolidator.formats.openai.conversation import is_failed_result
from consolidator.models.payload import EventType
from tests.unit.formats.reader_helpers import DATA, Log, results_follow_calls

READER = cast(Format, messages)
HI = {"role": "user", "content": "hi"}


def call(identity: str, name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": identity, "type": "function", "function": function}],
    }


def answer(identity: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def read(tmp_path: Path, value: object, name: str = "chat.json") -> Log:
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return Log(READER, [path], tmp_path)


def test_one_conversation_becomes_events_in_order(tmp_path: Path) -> None:
    system = {"role": "system", "content": "Be kind."}
    log = read(
        tmp_path, [system, HI, call("c1", "find", q="x"), answer("c1", "found"), {"role": "assistant", "content": "ok"}]
    )
    assert log.types() == ["SessionStart", "UserMessage", "ToolCall", "ToolResult", "AssistantResponse"]
    assert log.only_payload(EventType.SESSION_START)["system_prompt"] == "Be kind."
    assert log.only_payload(EventType.TOOL_CALL) == {"call_id": "c1", "tool": "find", "arguments": '{"q": "x"}'}
    assert log.only_payload(EventType.TOOL_RESULT) == {
        "call_id": "c1",
        "tool": "find",
        "status": "ok",
        "content": "found",
    }
    assert (log.session.origin, log.session.agent, log.session.ended) == ("chat.json", "openai", False)


@pytest.mark.parametrize(
    ("value", "name", "conversations"),
    [
        ([HI], "a.json", 1),
        ([[HI], [HI]], "a.json", 2),
        ({"messages": [HI], "model": "gpt-4o"}, "a.json", 1),
        ([{"messages": [HI]}, {"conversation": [HI]}, {"history": [HI]}], "a.json", 3),
        ({"simulations": [{"id": "s1", "messages": [HI]}, {"id": "s2", "messages": [HI]}]}, "a.json", 2),
        ('{"messages": [{"role": "user", "content": "a"}]}\n' * 3, "a.jsonl", 3),
        ('{"role": "user", "content": "a"}\n' * 3, "a.jsonl", 1),
        ('[{"role": "user", "content": "a"}]\n' * 2, "a.jsonl", 2),
        ('{"messages": [{"role": "user", "content": "a"}]}\n' * 2, "a.json", 2),
        ('[{"role": "user", "content": "a"}]\n' * 2, "a.json", 2),
        ("\ufeff" + json.dumps([HI]), "a.json", 1),
        ([], "a.json", 0),
        ("", "a.json", 0),
    ],
)
def test_a_file_may_have_any_shape(tmp_path: Path, value: object, name: str, conversations: int) -> None:
    log = read(tmp_path, value, name)
    assert len(log.sessions) == conversations
    assert log.problems == []
    assert not conversations or messages.recognises(tmp_path / name, (tmp_path / name).read_bytes())


def test_a_long_first_line_under_the_name_of_json_may_still_be_jsonl(tmp_path: Path) -> None:
    long = json.dumps({"messages": [{"role": "user", "content": "x" * 100_000}]})
    assert len(read(tmp_path, f"{long}\n{long}\n").sessions) == 2


def test_reused_ids_pair_in_order(tmp_path: Path) -> None:
    log = read(tmp_path, [call("c", "one"), answer("c", "1"), call("c", "two"), answer("c", "2")])
    assert [data["tool"] for data in log.payloads(EventType.TOOL_RESULT)] == ["one", "two"]
    assert [data["call_id"] for data in log.payloads(EventType.TOOL_RESULT)] == ["c", "c"]


def test_functions_of_before_there_were_tools_pair_by_name(tmp_path: Path) -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "find", "arguments": "{}"}}
    log = read(tmp_path, [old, {"role": "function", "name": "find", "content": "x"}])
    assert (
        log.only_payload(EventType.TOOL_CALL)["call_id"] == log.only_payload(EventType.TOOL_RESULT)["call_id"] == "find"
    )


def test_content_may_be_parts(tmp_path: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    log = read(tmp_path, [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, picture]}])
    assert log.user_texts() == ["what is it?\n[image_url image/png]"]


def test_instructions_in_the_middle_are_a_decision(tmp_path: Path) -> None:
    log = read(tmp_path, [HI, {"role": "system", "content": "Now be brief."}])
    assert log.only_payload(EventType.POLICY_DECISION) == {"decision": "instructions_added", "text": "Now be brief."}


@pytest.mark.parametrize(
    ("text", "is_failure"),
    [
        ("Error: payment method not found", True),
        ("error: no such file", True),
        ("ValueError: bad date", True),
        ("Error executing tool find: timeout", True),
        ("Traceback (most recent call last):\n ...", True),
        ('{"error": "not found"}', True),
        ('{"is_error": true, "text": "x"}', True),
        ('{"error": null, "data": 1}', False),
        ('{"data": 1, "error": "none of them"}', False),
        ("Errors found: 0", False),
        ("The error was fixed.", False),
        ("No error", False),
        ("", False),
        ("{not json", False),
    ],
)
def test_a_result_failed_only_where_its_text_leaves_no_doubt(text: str, is_failure: bool) -> None:
    assert is_failed_result(text) is is_failure


@pytest.mark.parametrize(("reward", "outcome"), [(1, "success"), (1.0, "success"), (0, "failure"), (0.5, "unknown")])
def test_a_record_with_a_reward_is_a_finished_task(tmp_path: Path, reward: float, outcome: str) -> None:
    info = {"task": {"instruction": "Book a flight."}}
    record = {"task_id": 7, "reward": reward, "info": info, "traj": [HI], "trial": 2}
    log = read(tmp_path, [record], "gpt-4o-airline.json")
    assert log.types() == ["SessionStart", "TaskStart", "UserMessage", "TaskEnd"]
    assert log.only_payload(EventType.TASK_START) == {"task_id": "7", "goal": "Book a flight."}
    assert log.only_payload(EventType.TASK_END) == {"task_id": "7", "outcome": outcome, "reward": reward}
    assert {event.task_id for event in log.events} == {"7"}
    assert (log.session.origin, log.session.agent, log.session.ended) == ("gpt-4o-airline#7/2", "gpt-4o-airline", True)


def test_runs_of_one_task_are_told_apart(tmp_path: Path) -> None:
    record = {"task_id": 7, "reward": 1, "traj": [HI]}
    assert list(read(tmp_path, [record, record], "t.json").sessions) == ["t#7/0", "t#7/0/1"]


def test_a_records_own_name_and_agent_count(tmp_path: Path) -> None:
    log = read(tmp_path, {"session_id": "s-1", "agent": "helper", "messages": [HI]})
    assert (log.session.origin, log.session.agent) == ("s-1", "helper")


def test_times_are_kept_where_they_are_told(tmp_path: Path) -> None:
    log = read(tmp_path, [{**HI, "created": 0}, HI])
    assert [event.data.get("occurred_at") for event in log.events[1:]] == ["1970-01-01T00:00:00+00:00", None]


def test_a_conversation_that_grows_keeps_its_keys(tmp_path: Path) -> None:
    before, after = read(tmp_path, [HI, HI]), read(tmp_path, [HI, HI, HI])
    assert after.keys()[:3] == before.keys()
    assert len(set(after.keys())) == 4


def test_the_tools_of_a_simulated_user_are_not_the_agents(tmp_path: Path) -> None:
    theirs = {"role": "user", "content": None, "tool_calls": [{"id": "u1", "name": "look", "arguments": {}}]}
    log = read(tmp_path, [HI, theirs, {"role": "tool", "id": "u1", "content": "x", "requestor": "user"}])
    assert log.types() == ["SessionStart", "UserMessage"]
    assert log.skipped_kinds() == ["empty", "user's tool"]


def test_what_begins_and_ends_a_conversation_happened_when_its_messages_say(tmp_path: Path) -> None:
    messages = [{**HI, "timestamp": f"2026-03-02T10:0{minute}:00Z"} for minute in (1, 2)]
    log = read(tmp_path, {"task_id": "refund", "reward": 1.0, "messages": messages})
    minutes = [(event.type.value, event.data["occurred_at"][14:16]) for event in log.events]
    assert minutes[:2] == [("SessionStart", "01"), ("TaskStart", "01")]
    assert minutes[-1] == ("TaskEnd", "02")


def test_what_is_no_message_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    log = read(tmp_path, [HI, {"role": "wizard"}, 7, HI])
    assert len(log.problems) == 2
    assert log.user_texts() == ["hi", "hi"]


@pytest.mark.parametrize(
    "text", ['[{"role": "user", "content": "hi"}, {"role": ', '[{"role":"user","content":"hi"} x]']
)
def test_an_array_that_breaks_off_gives_what_it_has_and_a_problem(tmp_path: Path, text: str) -> None:
    log = read(tmp_path, text)
    assert log.user_texts() == ["hi"]
    assert len(log.problems) == 1


def test_a_large_array_needs_the_memory_of_a_conversation(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("w") as file:
        file.write("[")
        file.writelines(json.dumps({"messages": [{**HI, "content": "x" * 50_000}]}) + ",\n" for _ in range(600))
        file.write("[]]")
    tracemalloc.start()
    sessions = sum(isinstance(item, ForeignSession) for item in READER.read(path, tmp_path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sessions == 601
    assert peak < 10_000_000 < path.stat().st_size


@pytest.mark.parametrize(
    "head",
    [
        b'{"type":"user","sessionId":"s","uuid":"u","message":{"role":"user","content":"hi"}}\n',
        b'{"type":"message","timestamp":"t","message":{"role":"user","content":"hi"}}\n',
        b'{"type":"response_item","payload":{"type":"message","role":"user"}}\n',
        b'{"environment": "x", "trajectory": [{"action": "ls"}], "history": [{"role": "user", "content": "x"}',
        b'{"0": {"turn_history": {"actions": []}}}',
        b"plain text",
        b"",
    ],
)
def test_the_files_of_others_are_not_recognised(head: bytes) -> None:
    assert not messages.recognises(Path("x.jsonl"), head)


@pytest.mark.skipif(not (DATA / "tau-airline").is_dir(), reason="the sample data is absent")
def test_real_trajectories_leave_nothing_unexplained() -> None:
    root = DATA / "tau-airline"
    log = Log(READER, list(messages.files(root)), root)
    assert (log.problems, log.skipped) == ([], [])
    assert len(log.sessions) == 200
    assert (log.types().count("ToolCall"), log.types().count("ToolResult")) == (1164, 1164)
    assert results_follow_calls(log)
    assert len(set(log.keys())) == len(log.keys())
    wrong = [data["content"] for data in log.payloads(EventType.TOOL_RESULT) if data["status"] == "error"]
    assert len(wrong) == 73
    assert all(text.startswith("Error: ") for text in wrong)
    assert sum(data["outcome"] == "success" for data in log.payloads(EventType.TASK_END)) == 84
