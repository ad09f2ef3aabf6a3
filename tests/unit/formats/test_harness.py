"""Reading and writing harness logs: nothing of a line is lost."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from consolidator.formats import harness
from consolidator.formats.base import Item
from consolidator.formats.harness import EVENT_TYPES, GENERATION_TYPES
from consolidator.models.event import Event
from consolidator.models.payload import EventType, check_payload
from tests.unit.formats.format_logs import (
    NO_DEADLINE,
    NOW,
    jsonl,
    read_text,
    select_events,
    select_problems,
    select_sessions,
    select_type,
    skipped_kinds,
    to_log_events,
    types_and_data,
)


def line(kind: str, number: int, **payload: Any) -> dict[str, Any]:
    return {"ts": f"2026-05-05T01:00:{number:02d}Z", "type": kind, "id": f"evt_{number:03d}", "payload": payload}


CONVERSATION = [
    line("MESSAGE_RECEIVED", 1, role="user", text="summarize this PR"),
    line("LLM_CALLED", 2, model="some-model", prompt_tokens=12450, context_strategy="sliding_window_50"),
    line("GEN_START", 3, msg_id="msg_42", stream=True),
    line("GEN_CHUNK", 4, msg_id="msg_42", seq=0, delta="Looking at"),
    line("GEN_CHUNK", 5, msg_id="msg_42", seq=1, delta=" the diff"),
    line("TOOL_INVOKED", 6, call_id="tc_7", name="git_diff", args={"ref": "HEAD~1"}),
    line("TOOL_RESULT", 7, call_id="tc_7", ok=True, data_ref="blob://abc123", bytes=4200),
    line("GEN_COMPLETE", 8, msg_id="msg_42", reason="stop"),
    line("GEN_SENT", 9, msg_id="msg_42", channel="chat-ui"),
    line("SESSION_TERMINATED", 10, reason="idle"),
]


def read(tmp_path: Path, *lines: object) -> list[Item]:
    return read_text(harness, tmp_path, jsonl(*lines), "here/log.jsonl")


def write_lines_of(items: list[Item]) -> list[Any]:
    return [json.loads(text_line) for text_line in harness.write({"id": "s"}, to_log_events(items))]


def test_every_state_becomes_its_event(tmp_path: Path) -> None:
    items = read(tmp_path, *CONVERSATION)
    assert [event.type.value for event in select_events(items)] == [
        "UserMessage",
        "ThinkingStart",
        "ToolCall",
        "ToolResult",
        "AssistantResponse",
        "PolicyDecision",
        "SessionEnd",
    ]
    message, thinking, call, result, answer, sent, end = select_events(items)
    assert message.data["text"] == "summarize this PR"
    assert message.data["occurred_at"] == "2026-05-05T01:00:01+00:00"
    assert (thinking.data["model"], thinking.data["strategy"]) == ("some-model", "sliding_window_50")
    assert (call.data["tool"], call.data["arguments"], call.tool_name) == ("git_diff", {"ref": "HEAD~1"}, "git_diff")
    assert (result.data["status"], result.tool_name) == ("ok", "git_diff")
    assert (answer.data["text"], answer.data["message_id"]) == ("Looking at the diff", "msg_42")
    assert (sent.data["decision"], sent.data["channel"]) == ("delivered", "chat-ui")
    assert end.data["reason"] == "idle"
    assert [session.ended for session in select_sessions(items)] == [False, True]
    assert select_sessions(items)[0].origin == "here/log"


def test_another_systems_blob_is_not_taken_for_ours(tmp_path: Path) -> None:
    (result,) = select_type(read(tmp_path, *CONVERSATION), EventType.TOOL_RESULT)
    assert "data_ref" not in result.data
    assert result.data["blob_ref"] == "blob://abc123"


def test_lines_we_can_say_are_not_kept_twice(tmp_path: Path) -> None:
    assert all("line" not in event.data["harness"] for event in select_events(read(tmp_path, *CONVERSATION)))


def test_writing_restores_every_line_in_its_place(tmp_path: Path) -> None:
    assert write_lines_of(read(tmp_path, *CONVERSATION)) == CONVERSATION


def test_an_uncertain_call_stays_uncertain(tmp_path: Path) -> None:
    lines = [
        line("TOOL_INVOKED", 1, call_id="c", name="pay", args={}),
        line("TOOL_FAILED_UNCERTAIN", 2, call_id="c", reason="harness died"),
    ]
    items = read(tmp_path, *lines)
    (result,) = select_type(items, EventType.TOOL_RESULT)
    assert (result.data["status"], result.data["remark"]) == ("uncertain", "harness died")
    assert write_lines_of(items) == lines


def test_results_are_found_under_the_names_harnesses_use(tmp_path: Path) -> None:
    lines = [
        line("TOOL_RESULT", 1, call_id="a", ok=True, result={"rows": 3}),
        line("TOOL_RESULT", 2, call_id="b", ok=False, error="no such table"),
        line("TOOL_RESULT", 3, call_id="c", ok=False, reason="timeout", content="late"),
    ]
    items = read(tmp_path, *lines)
    results = [(event.data["status"], event.data["content"]) for event in select_type(items, EventType.TOOL_RESULT)]
    assert results == [("ok", {"rows": 3}), ("error", "no such table"), ("error", "late")]
    assert write_lines_of(items) == lines


def test_a_generation_that_never_completes_keeps_its_text(tmp_path: Path) -> None:
    items = read(tmp_path, *CONVERSATION[:5])
    (answer,) = select_type(items, EventType.ASSISTANT_RESPONSE)
    assert (answer.data["text"], answer.data["incomplete"]) == ("Looking at the diff", True)
    assert write_lines_of(items) == CONVERSATION[:5]


def test_a_generation_that_completes_in_a_later_import_is_written_once(tmp_path: Path) -> None:
    early, late = read(tmp_path, *CONVERSATION[:5]), read(tmp_path, *CONVERSATION)
    known = {event.key for event in select_events(early)}
    new = [event for event in select_events(late) if event.key not in known]
    assert len(new) == len(select_events(late)) - 2
    assert write_lines_of([*early, *new]) == CONVERSATION


def test_a_resumed_generation_goes_on_and_a_replaced_one_begins_again(tmp_path: Path) -> None:
    resumed = [*CONVERSATION[2:4], line("GEN_RESUMED", 5, msg_id="msg_42", strategy="resume", prior_seq=0)]
    replaced = [*CONVERSATION[2:4], line("GEN_RESUMED", 5, msg_id="msg_42", strategy="replace", prior_seq=0)]
    rest = [
        line("GEN_START", 6, msg_id="msg_42"),
        line("GEN_CHUNK", 7, msg_id="msg_42", seq=1, delta=" here"),
        line("GEN_COMPLETE", 8, msg_id="msg_42"),
    ]
    for lines, text, decision in (
        ([*resumed, *rest], "Looking at here", "generation_resumed"),
        ([*replaced, *rest], " here", "generation_replaced"),
    ):
        items = read(tmp_path, *lines)
        assert [event.data["text"] for event in select_type(items, EventType.ASSISTANT_RESPONSE)] == [text]
        assert [event.data["decision"] for event in select_type(items, EventType.POLICY_DECISION)] == [decision]
        assert write_lines_of(items) == lines


def test_an_emoji_cut_in_two_by_the_stream_is_whole_in_the_text(tmp_path: Path) -> None:
    lines = [
        line("GEN_CHUNK", 1, msg_id="m", seq=0, delta="ok \ud83d"),
        line("GEN_CHUNK", 2, msg_id="m", seq=1, delta="\ude00"),
        line("GEN_COMPLETE", 3, msg_id="m"),
    ]
    items = read(tmp_path, *lines)
    assert select_type(items, EventType.ASSISTANT_RESPONSE)[0].data["text"] == "ok 😀"
    assert write_lines_of(items) == lines


def test_half_a_character_does_not_cost_a_message_its_text(tmp_path: Path) -> None:
    items = read(tmp_path, line("MESSAGE_RECEIVED", 1, text="cut \ud83d"))
    assert select_events(items)[0].data["text"] == "cut \ud83d"
    assert "line" not in select_events(items)[0].data["harness"]


def test_a_replayed_line_has_the_same_key_and_adds_no_text(tmp_path: Path) -> None:
    items = read(tmp_path, *CONVERSATION[:5], *CONVERSATION[:5], CONVERSATION[7])
    first, second = select_type(items, EventType.USER_MESSAGE)
    assert first.key == second.key
    assert select_type(items, EventType.ASSISTANT_RESPONSE)[0].data["text"] == "Looking at the diff"


def test_an_id_used_for_two_things_names_both(tmp_path: Path) -> None:
    items = read(tmp_path, line("MESSAGE_RECEIVED", 1, text="a"), line("MESSAGE_RECEIVED", 1, text="b"))
    assert len({event.key for event in select_events(items)}) == 2


def test_what_is_not_of_the_vocabulary_is_accounted_for(tmp_path: Path) -> None:
    items = read(tmp_path, {"type": "HEARTBEAT", "payload": {}}, {"ts": 1}, {"type": "LLM_CALLED", "payload": 3})
    assert skipped_kinds(items) == ["type:HEARTBEAT"]
    assert [problem.line for problem in select_problems(items)] == [2, 3]


def test_generations_without_end_do_not_pile_up(tmp_path: Path) -> None:
    lines = [line("GEN_CHUNK", 1, msg_id=f"m{n}", seq=0, delta=str(n)) for n in range(harness.MAX_OPEN_GENERATIONS + 5)]
    items = read(tmp_path, *lines)
    assert [event.data["text"] for event in select_type(items, EventType.ASSISTANT_RESPONSE)] == [
        str(n) for n in range(len(lines))
    ]
    assert write_lines_of(items) == lines


def test_a_session_of_other_origin_can_be_said_and_read_back(tmp_path: Path) -> None:
    drafts: list[tuple[EventType, dict[str, Any]]] = [
        (EventType.SESSION_START, {"model": "m"}),
        (EventType.USER_MESSAGE, {"text": "hi", "v": 1}),
        (EventType.ASSISTANT_RESPONSE, {"text": "hello", "message_id": "m1"}),
        (EventType.ASSISTANT_RESPONSE, {"text": "ab", "message_id": "m2", "chunks": ["a", "b"]}),
        (EventType.TOOL_CALL, {"call_id": "c", "tool": "ls", "arguments": {"d": "."}}),
        (EventType.TOOL_RESULT, {"call_id": "c", "status": "error", "reason": "timeout", "content": "late"}),
        (EventType.POLICY_DECISION, {"decision": "compaction"}),
        (EventType.POLICY_DECISION, {"decision": "generation_replaced", "message_id": "m3"}),
        (EventType.SESSION_END, {}),
    ]
    events = [Event("s", n, kind, data, NOW) for n, (kind, data) in enumerate(drafts, start=1)]
    text = "".join(harness.write({"id": "s"}, events))
    assert [json.loads(text_line)["type"] for text_line in text.splitlines()] == [
        "MESSAGE_RECEIVED",
        *("GEN_START", "GEN_CHUNK", "GEN_COMPLETE"),
        *("GEN_START", "GEN_CHUNK", "GEN_CHUNK", "GEN_COMPLETE"),
        "TOOL_INVOKED",
        "TOOL_RESULT",
        "GEN_RESUMED",
        "SESSION_TERMINATED",
    ]
    back = types_and_data(read_text(harness, tmp_path, text))
    for (kind, data), (kind_back, data_back) in zip(
        [draft for draft in drafts if draft[0] != EventType.SESSION_START and draft[1].get("decision") != "compaction"],
        back,
        strict=True,
    ):
        assert kind is kind_back
        assert {name: data_back.get(name) for name in data if name not in ("v", "chunks")} == {
            name: value for name, value in data.items() if name not in ("v", "chunks")
        }


texts = st.text(st.characters(exclude_categories=()), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
# Names that mean something to us or to the format, so that they meet in all the ways they can.
OURS: tuple[str, ...] = (
    "text",
    "message_id",
    "tool",
    "arguments",
    "content",
    "strategy",
    "model",
    "mode",
    "origin",
    "status",
    "reason",
)
OURS += ("v", "decision", "harness", "incomplete", "chunks", "remark", "blob_ref", "occurred_at", "speaker")
THEIRS: tuple[str, ...] = (
    "role",
    "msg_id",
    "seq",
    "delta",
    "context_strategy",
    "prior_seq",
    "call_id",
    "name",
    "args",
    "ok",
    "result",
)
THEIRS += ("output", "error", "data_ref", "channel")
names = st.sampled_from([*OURS, *THEIRS])
well_formed = st.fixed_dictionaries(
    {
        "ts": st.datetimes().map(lambda moment: moment.isoformat() + "Z") | st.integers(0, 4 * 10**9) | texts,
        "type": st.sampled_from([*EVENT_TYPES, *GENERATION_TYPES, *GENERATION_TYPES]),
        "payload": st.fixed_dictionaries(
            {},
            optional={
                "msg_id": st.sampled_from(["a", "b"]),
                "call_id": st.sampled_from(["c", "d"]),
                "delta": texts,
                "text": texts,
                "ok": st.booleans(),
                "args": values,
                "content": values,
                "strategy": st.sampled_from(["resume", "replace"]),
                "seq": st.integers(0, 9),
            },
        )
        | st.dictionaries(names | texts, values, max_size=5),
    }
)


@NO_DEADLINE
@given(st.lists(well_formed, max_size=25), st.integers(0, 25))
def test_any_log_is_written_as_it_was_read(lines: list[dict[str, Any]], cut: int) -> None:
    log = [{**log_line, "id": f"evt_{number}"} for number, log_line in enumerate(lines)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.write_text(jsonl(*log[:cut]), encoding="utf-8")
        early = list(harness.read(path, path))
        path.write_text(jsonl(*log), encoding="utf-8")
        whole = list(harness.read(path, path))
    for event in select_events(whole):
        check_payload(event.type, event.data)
    expected = [json.loads(json.dumps(log_line)) for log_line in log]
    assert write_lines_of(whole) == expected
    known = {event.key for event in select_events(early)}
    assert write_lines_of([*early, *(event for event in select_events(whole) if event.key not in known)]) == expected
