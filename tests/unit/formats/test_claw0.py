"""Reading and writing claw0 transcripts."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.formats import claw0
from consolidator.formats.base import Item
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.session import SessionKey
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

OLDER: list[dict[str, Any]] = [
    {"type": "session", "id": "abc123", "key": "main:cli:user", "created": "2025-01-01T00:00:00Z"},
    {"type": "user", "content": "hello", "ts": "2025-01-01T00:00:01Z"},
    {"type": "assistant", "content": "hi there", "ts": "2025-01-01T00:00:02Z"},
    {"type": "tool_use", "name": "read_file", "tool_use_id": "tu_1", "input": {"path": "c.json"}, "ts": 1735689603},
    {"type": "tool_result", "tool_use_id": "tu_1", "output": "{}", "ts": "2025-01-01T00:00:03Z"},
]  # fmt: skip
NEWER: list[dict[str, Any]] = [
    {"type": "user", "content": "read it", "ts": 1717700000.0},
    {
        "type": "assistant",
        "content": [
            {"type": "text", "text": "Let me."},
            {"type": "tool_use", "id": "tu_1", "name": "read_file", "input": {"path": "c.json"}},
            {"type": "tool_use", "id": "tu_2", "name": "list", "input": {}},
        ],
        "ts": 1717700001.0,
    },
    {"type": "tool_use", "tool_use_id": "tu_1", "name": "read_file", "input": {"path": "c.json"}, "ts": 1717700002.0},
    {"type": "tool_result", "tool_use_id": "tu_1", "content": "{}", "ts": 1717700002.0},
    {"type": "tool_use", "tool_use_id": "tu_2", "name": "list", "input": {}, "ts": 1717700003.0},
    {"type": "tool_result", "tool_use_id": "tu_2", "content": "no", "is_error": True, "ts": 1717700003.0},
]


def read(tmp_path: Path, lines: list[dict[str, Any]], name: str = "t.jsonl") -> list[Item]:
    return read_text(claw0, tmp_path, jsonl(*lines), name)


def test_a_transcript_is_a_session_of_its_key(tmp_path: Path) -> None:
    """C4."""
    items = read(tmp_path, OLDER)
    (session,) = select_sessions(items)
    assert (session.origin, session.key) == ("abc123", "main:cli:user")
    assert (session.agent, session.channel, session.peer) == ("main", "cli", "user")
    start, user, answer, call, result = select_events(items)
    assert start.data == {"occurred_at": "2025-01-01T00:00:00+00:00"}
    assert (user.data["text"], answer.data["text"]) == ("hello", "hi there")
    assert (call.data["call_id"], call.data["tool"], call.data["arguments"]) == (
        "tu_1",
        "read_file",
        {"path": "c.json"},
    )
    assert (result.data["content"], result.data["status"], result.tool_name) == ("{}", "ok", "read_file")


def test_a_call_said_in_the_answer_and_again_by_itself_is_one_call(tmp_path: Path) -> None:
    items = read(tmp_path, NEWER, "agents/luna/sessions/5f.jsonl")
    assert [event.data["call_id"] for event in select_type(items, EventType.TOOL_CALL)] == ["tu_1", "tu_2"]
    assert [event.data["status"] for event in select_type(items, EventType.TOOL_RESULT)] == ["ok", "error"]
    assert [event.data["text"] for event in select_type(items, EventType.ASSISTANT_RESPONSE)] == ["Let me."]
    assert skipped_kinds(items) == ["repeated", "repeated"]
    assert select_events(items)[0].data["occurred_at"] == "2024-06-06T18:53:20+00:00"


def test_without_a_session_line_the_path_tells(tmp_path: Path) -> None:
    (session,) = select_sessions(read(tmp_path, NEWER, "agents/luna/sessions/5f.jsonl"))
    assert (session.origin, session.agent, session.key) == ("agents/luna/sessions/5f", "luna", None)
    (session,) = select_sessions(read(tmp_path, NEWER, "main_cli_user_0123456789ab.jsonl"))
    assert (session.agent, session.channel, session.peer, session.key) == ("main", "cli", "user", "main:cli:user")


@pytest.mark.parametrize(
    ("key", "agent", "channel", "peer"),
    [
        ("main:cli:user", "main", "cli", "user"),
        ("agent:main:telegram:direct:12:34", "main", "telegram", "12:34"),
        ("agent:main:discord:group:ops", "main", "discord", "group:ops"),
        ("agent:main:discord:ops", "main", "discord", "ops"),
        ("agent:alice:direct:bob", "alice", None, "bob"),
        ("agent:main:main", "main", None, None),
        ("agent:cli:user", "agent", "cli", "user"),
        ("main", "main", None, None),
        ("main:cli", "main", "cli", None),
    ],
)
def test_keys_name_agent_channel_and_peer(key: str, agent: str, channel: str | None, peer: str | None) -> None:
    """C7, C8."""
    assert SessionKey.parse(key) == SessionKey(agent, channel, peer)


def test_several_sessions_may_stand_in_one_file(tmp_path: Path) -> None:
    items = read(tmp_path, [*OLDER[:2], {**OLDER[0], "id": "def"}, OLDER[1]])
    assert [session.origin for session in select_sessions(items)] == ["abc123", "def"]
    assert len({event.key for event in select_events(items)}) == 4


def test_a_line_said_twice_is_two_and_reading_again_gives_the_same_keys(tmp_path: Path) -> None:
    first = select_events(read(tmp_path, [*OLDER, OLDER[1]]))
    again = select_events(read(tmp_path, [*OLDER, OLDER[1], OLDER[2]]))
    assert len({event.key for event in first}) == 6
    assert [event.key for event in again][:6] == [event.key for event in first]


def test_lines_that_do_not_fit_are_accounted_for(tmp_path: Path) -> None:
    odd: list[dict[str, Any]] = [
        {"type": "memory", "content": 1},
        {"content": "x"},
        {"type": "tool_use", "name": "x"},
        {"type": "tool_result", "tool_use_id": 5},
        {"type": "assistant", "content": None},
        {"type": "user", "content": [{"type": "tool_result", "tool_use_id": "u", "content": "r", "is_error": True}]},
    ]
    items = read(tmp_path, odd)
    assert skipped_kinds(items) == ["type:memory"]
    assert [problem.line for problem in select_problems(items)] == [2, 3, 4]
    assert [(event.type, event.data.get("status")) for event in select_events(items)] == [
        (EventType.ASSISTANT_RESPONSE, None),
        (EventType.TOOL_RESULT, "error"),
    ]


def test_it_is_told_from_formats_that_use_the_same_words(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    assert claw0.recognises(path, jsonl(*OLDER).encode())
    assert claw0.recognises(path, jsonl(*NEWER).encode())
    for other in (
        {"type": "user", "message": {"role": "user", "content": "hi"}, "sessionId": "s", "uuid": "u"},
        {"type": "session", "version": 3, "id": "x", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/x"},
        {"ts": "t", "type": "MESSAGE_RECEIVED", "payload": {}},
        {"role": "user", "content": "hi"},
    ):
        assert not claw0.recognises(path, jsonl(other).encode())


def test_what_was_written_reads_as_what_was_read(tmp_path: Path) -> None:
    for lines in (OLDER, NEWER):
        items = read(tmp_path, lines)
        (session,) = select_sessions(items)
        text = "".join(claw0.write({"id": session.origin, "key": session.key}, to_log_events(items)))
        back = read_text(claw0, tmp_path, text, "back.jsonl")
        assert types_and_data(back) == types_and_data(items)
        assert [event.key for event in select_events(back)] == [event.key for event in select_events(items)]
        assert select_sessions(back)[0].key == session.key


def test_a_result_is_written_where_the_layouts_reader_takes_it(tmp_path: Path) -> None:
    """C5."""
    for lines in (OLDER, NEWER):
        items = read(tmp_path, lines)
        written = [json.loads(line) for line in claw0.write({"id": "s", "key": "a:b:c"}, to_log_events(items))]
        results = [event.data["content"] for event in select_events(items) if event.type is EventType.TOOL_RESULT]
        assert [line.get("output", "") for line in written if line["type"] == "tool_result"] == results
        assert not any("content" in line for line in written if line["type"] == "tool_result")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
FIELDS = ("content", "input", "name", "output", "tool_use_id", "more", "key", "id", "created", "message_id", "usage")
extras = st.dictionaries(st.sampled_from(FIELDS) | texts, values, max_size=4)
when = st.sampled_from(["2026-01-01T00:00:00+00:00", "2026-01-01T10:00:00.123456+00:00"])
USER = st.fixed_dictionaries({"text": texts, "mode": st.sampled_from(["message", "steer"]), "occurred_at": when})
ANSWER = st.fixed_dictionaries({"text": texts, "occurred_at": when})
CALL = st.fixed_dictionaries({"call_id": texts, "tool": texts, "arguments": values, "occurred_at": when})
STATUS = st.sampled_from(["ok", "error", "uncertain"])
RESULT = st.fixed_dictionaries({"call_id": texts, "status": STATUS, "content": values, "occurred_at": when})
SHAPES: tuple[tuple[EventType, st.SearchStrategy[Any]], ...] = (
    (EventType.USER_MESSAGE, USER),
    (EventType.ASSISTANT_RESPONSE, ANSWER),
)
SHAPES += ((EventType.TOOL_CALL, CALL), (EventType.TOOL_RESULT, RESULT))
saying = st.one_of([st.tuples(st.just(kind), data, extras) for kind, data in SHAPES])
NEVER = ("type", "ts", "is_error", "v", "speaker", "origin", "model", "reason")  # the format's own, or typed elsewhere


@NO_DEADLINE
@given(st.lists(saying, max_size=8))
def test_any_conversation_is_read_as_it_was_written(
    drafts: list[tuple[EventType, dict[str, Any], dict[str, Any]]],
) -> None:
    events = [Event("s", 1, EventType.SESSION_START, {"model": "m", "occurred_at": NOW.isoformat()}, NOW)]
    for number, (kind, data, extra_fields) in enumerate(drafts, start=2):
        full = {name: value for name, value in extra_fields.items() if name not in NEVER} | data
        events.append(Event("s", number, kind, full, NOW))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.jsonl"
        path.write_text("".join(claw0.write({"id": "s", "key": "a:b:c"}, events)), encoding="utf-8")
        items = list(claw0.read(path, path))
    assert select_problems(items) == []
    assert types_and_data(items) == [(event.type, dict(event.data)) for event in events]
