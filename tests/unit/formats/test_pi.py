"""pi's logs: linear files, trees with abandoned branches, and entries copied from a parent."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from consolidator.formats import pi
from consolidator.formats.base import Format
from consolidator.models.payload import EventType
from tests.unit.formats.reader_helpers import DATA, Log, results_follow_calls, write_lines

READER = cast(Format, pi)
SESSION = "aaaaaaaa-0000-4000-8000-000000000001"
HEADER = {"type": "session", "id": SESSION, "timestamp": "2025-12-09T00:00:00.000Z", "cwd": "/home/ann/shop"}


def entry(second: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
    """Return a linear message entry."""
    when = f"2025-12-09T00:01:{second:02}.000Z"
    return {"type": "message", "timestamp": when, "message": {"role": role, "content": content, **more}}


def node(identity: str, parent: str | None, second: int, text: str) -> dict[str, Any]:
    """Return a message entry of a tree."""
    return {**entry(second, "user", text), "id": identity, "parentId": parent}


def read(tmp_path: Path, *lines: object, header: dict[str, Any] = HEADER, name: str = "log.jsonl") -> Log:
    return Log(READER, [write_lines(tmp_path / name, [header, *lines])], tmp_path)


def test_a_linear_session_becomes_events_in_order(tmp_path: Path) -> None:
    call = {"type": "toolCall", "id": "t1", "name": "bash", "arguments": {"command": "ls"}}
    log = read(
        tmp_path,
        entry(1, "user", [{"type": "text", "text": "look"}]),
        entry(2, "assistant", [{"type": "thinking", "thinking": "hm"}, call], model="opus", usage={"output": 3}),
        entry(3, "toolResult", [{"type": "text", "text": "a.py"}], toolCallId="t1", toolName="bash", isError=False),
    )
    assert log.types() == ["SessionStart", "UserMessage", "ThinkingStart", "ToolCall", "ToolResult"]
    assert log.only_payload(EventType.TOOL_CALL) == {"call_id": "t1", "tool": "bash", "arguments": {"command": "ls"}}
    assert log.only_payload(EventType.TOOL_RESULT)["content"] == "a.py"
    assert log.only_payload(EventType.THINKING_START)["usage"] == {"output": 3}
    assert (log.session.origin, log.session.project, log.session.kind) == (SESSION, "/home/ann/shop", "root")


@pytest.mark.parametrize(
    ("text", "failed", "status", "reason"),
    [
        ("fine", False, "ok", None),
        ("Command exited with code 1", True, "error", None),
        ("x\n\nCommand aborted", True, "error", "aborted"),
        ("x\n\nCommand timed out after 30 seconds", True, "error", "timeout"),
        ("x\n\nCommand aborted", False, "ok", None),
    ],
)
def test_a_result_says_how_it_ended(tmp_path: Path, text: str, failed: bool, status: str, reason: str | None) -> None:
    log = read(tmp_path, entry(1, "toolResult", text, toolCallId="t1", toolName="bash", isError=failed))
    outcome = log.only_payload(EventType.TOOL_RESULT)
    assert (outcome["status"], outcome.get("reason")) == (status, reason)


def test_what_the_operator_does_is_a_decision(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        {"type": "model_change", "timestamp": "2025-12-09T00:01:00Z", "provider": "anthropic", "modelId": "sonnet"},
        {"type": "thinking_level_change", "timestamp": "2025-12-09T00:01:00Z", "thinkingLevel": "high"},
        {"type": "compaction", "timestamp": "2025-12-09T00:01:00Z", "summary": "so far", "tokensBefore": 5},
        entry(4, "bashExecution", None, command="ls", output="a", exitCode=0),
        entry(5, "assistant", [], stopReason="aborted"),
    )
    assert [data["decision"] for data in log.payloads(EventType.POLICY_DECISION)] == [
        "model_routed",
        "configuration_changed",
        "compaction",
        "command_run",
        "turn_interrupted",
    ]
    assert log.user_texts() == []


def test_what_extensions_and_summaries_say_is_no_persons_word(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        entry(1, "custom", "injected"),
        {"type": "custom_message", "timestamp": "2025-12-09T00:01:00Z", "content": "injected"},
        {"type": "branch_summary", "timestamp": "2025-12-09T00:01:00Z", "summary": "tried A", "fromId": "x"},
    )
    assert log.user_texts() == []
    assert [data["origin"] for data in log.payloads(EventType.USER_MESSAGE)] == ["harness", "harness", "compaction"]


def test_the_last_entry_tells_the_active_branch_and_the_rest_are_forks(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        node("a", None, 1, "start"),
        node("b", "a", 2, "abandoned"),
        node("c", "b", 3, "abandoned too"),
        node("d", "b", 4, "abandoned inside the abandoned"),
        node("e", "a", 5, "active"),
    )
    texts = {origin: [event.data.get("text") for event in events][1:] for origin, events in log.by_session.items()}
    assert texts == {
        SESSION: ["start", "active"],
        f"{SESSION}/b": ["abandoned", "abandoned too"],
        f"{SESSION}/d": ["abandoned inside the abandoned"],
    }
    forks = {origin: (session.kind, session.parent_origin) for origin, session in log.sessions.items()}
    assert forks[f"{SESSION}/b"] == ("fork", SESSION)
    assert forks[f"{SESSION}/d"] == ("fork", f"{SESSION}/b")
    assert next(iter(log.sessions)) == SESSION
    assert log.user_texts() == ["start", "active"]  # what a person went back from does not stand


def test_a_tree_that_turns_in_a_circle_is_still_read(tmp_path: Path) -> None:
    log = read(tmp_path, node("a", "b", 1, "one"), node("b", "a", 2, "two"), node("c", "c", 3, "three"))
    assert log.types().count("UserMessage") == 3


def test_a_branched_session_repeats_its_parents_keys(tmp_path: Path) -> None:
    other = {
        **HEADER,
        "id": "bbbbbbbb-0000-4000-8000-000000000002",
        "branchedFrom": f"/x/2025-12-09T00_{SESSION}.jsonl",
    }
    shared = [entry(1, "user", "one"), entry(2, "user", "two")]
    before, branched = read(tmp_path, *shared), read(tmp_path, *shared, entry(3, "user", "three"), header=other)
    assert branched.keys()[1:3] == before.keys()[1:]
    assert (branched.session.kind, branched.session.parent_origin) == ("fork", SESSION)


def test_keys_survive_the_rewriting_of_an_old_file_as_a_tree(tmp_path: Path) -> None:
    before = read(tmp_path, entry(1, "user", "one"), entry(2, "user", "two"))
    after = read(tmp_path, node("a", None, 1, "one"), node("b", "a", 2, "two"))
    assert after.keys() == before.keys()


def test_every_line_is_events_or_skipped_or_a_problem(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        {"type": "label", "id": "x", "parentId": None, "label": "here"},
        {"type": "session_info", "id": "y", "parentId": "x", "name": "Cart"},
        {"type": "something_new"},
        HEADER,
        {"type": "message"},
        {"no": "type"},
        "torn",
        entry(1, "user", "still read"),
    )
    assert log.skipped_kinds() == ["label", "session_info", "type:something_new", "session"]
    assert [problem.line for problem in log.problems] == [6, 7, 8]
    assert log.user_texts() == ["still read"]


def test_a_file_without_its_header_is_named_by_the_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / f"2025-12-09T00-00-00-000Z_{SESSION}.jsonl", [entry(1, "user", "hi")])
    assert Log(READER, [path], tmp_path).session.origin == SESSION


def test_a_session_is_recognised_and_others_are_not() -> None:
    assert pi.recognises(Path("x.jsonl"), b'{"type":"session","id":"s","cwd":"/","timestamp":"t"}\n')
    assert not pi.recognises(Path("x.jsonl"), b'{"type":"session","key":"agent:main:cli"}\n')
    assert not pi.recognises(Path("x.jsonl"), b'{"type":"user","sessionId":"s","uuid":"u","message":{"role":"user"}}\n')


@pytest.mark.skipif(not (DATA / "pi").is_dir(), reason="the sample data is absent")
def test_a_real_session_leaves_no_line_unexplained() -> None:
    root = DATA / "pi"
    log = Log(READER, list(pi.files(root)), root)
    assert (log.problems, log.skipped) == ([], [entry for entry in log.skipped if entry.kind == "message"])
    assert (log.types().count("ToolCall"), log.types().count("ToolResult")) == (454, 448)
    assert sum(data["status"] == "error" for data in log.payloads(EventType.TOOL_RESULT)) == 12
    assert results_follow_calls(log)
    assert len(set(log.keys())) == len(log.keys())
    assert log.session.kind == "fork"


def test_an_entry_whose_parents_line_was_torn_goes_on_from_the_one_before(tmp_path: Path) -> None:
    log = read(tmp_path, node("a", None, 1, "Use tabs."), '{"type": "mess', node("c", "b", 3, "Run the tests."))
    assert log.user_texts() == ["Use tabs.", "Run the tests."]
    assert len(log.sessions) == 1
