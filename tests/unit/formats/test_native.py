"""Native exports: what is written is read back, byte for byte."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from consolidator.formats import native
from consolidator.formats.base import ForeignSession, Item
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.session import has_controls
from tests.unit.formats.format_logs import (
    NO_DEADLINE,
    NOW,
    read_text,
    select_events,
    select_problems,
    select_sessions,
    to_log_events,
)

SESSION: dict[str, Any] = {
    "id": "01J",
    "origin": "claude-code:4d5611e5",
    "key": "main:chat:ann",
    "current": True,
    "conversation_id": "c",
    "agent": "main",
    "channel": "chat",
    "peer": "ann",
    "project": "/src/shop",
    "parent_id": "01H",
    "parent_seq": 0,
    "root_id": "01G",
    "kind": "fork",
    "simulated": True,
    "model": "m",
    "details": {"environment": {"a": [1]}},
    "status": "ended",
    "error": "gave up",
    "head": 9,
    "consolidated_to": 4,
    "pruned_to": 0,
    "lease_epoch": 3,
    "turns": 2,
    "expires_at": NOW,
}


def event(seq: int, data: Mapping[str, Any], kind: EventType = EventType.USER_MESSAGE, **more: Any) -> Event:
    return Event("01J", seq, kind, data, NOW, **more)


def as_imported_row(session: ForeignSession) -> dict[str, Any]:
    """The row that an import makes of a session: it may have ids and names of its own."""
    return {
        "id": f"our-{session.origin}",
        "origin": f"consolidator:{session.origin}",
        "key": session.key,
        "agent": session.agent,
        "channel": session.channel,
        "peer": session.peer,
        "project": session.project,
        "model": session.model,
        "kind": session.kind,
        "parent_id": f"our-{session.parent_origin}" if session.parent_origin else None,
        "root_id": f"our-{session.origin}",
        "details": session.details,
        "status": "ended" if session.ended else "open",
        "head": 77,
        "pruned_to": session.details[native.EXPORTED].get("pruned_to", 0),
    }


def export_again(items: list[Item]) -> str:
    (session,) = select_sessions(items)
    first = int(select_events(items)[0].key.rpartition("/")[2]) if select_events(items) else 1
    return "".join(native.write(as_imported_row(session), to_log_events(items, first)))


def test_the_first_line_names_the_session_and_each_other_is_an_event() -> None:
    learned = event(1, {"text": "hi", "v": 1}, consolidated_at=NOW, task_id="t", tool_name=None)
    header, line = native.write(SESSION, [learned])
    first_line = json.loads(header)
    assert first_line["consolidator"] == 1
    assert set(first_line["session"]) == set(SESSION) - {
        "current", "head", "consolidated_to", "pruned_to", "lease_epoch", "turns", "expires_at"
    }  # fmt: skip
    assert line == (
        '{"data":{"occurred_at":"2026-05-06T07:08:09.123456+00:00","text":"hi","v":1},'
        '"seq":1,"task_id":"t","type":"UserMessage"}\n'
    )


def test_an_event_that_says_when_it_happened_keeps_its_own_word() -> None:
    _, line = native.write(SESSION, [event(1, {"text": "hi", "occurred_at": "2020-01-01"})])
    assert json.loads(line)["data"] == {"text": "hi", "occurred_at": "2020-01-01"}


def test_an_export_comes_back_as_it_was(tmp_path: Path) -> None:
    events = [event(1, {"text": "hi"}, task_id="t"), event(2, {"text": "é\u2028"}, tool_name="x")]
    items = read_text(native, tmp_path, "".join(native.write(SESSION, events)))
    (session,) = select_sessions(items)
    assert (session.origin, session.parent_origin, session.kind, session.ended) == ("01J", "01H", "fork", True)
    assert (session.agent, session.channel, session.peer, session.key) == ("main", "chat", "ann", "main:chat:ann")
    assert session.details["environment"] == {"a": [1]}
    assert session.details[native.EXPORTED]["simulated"] is True
    when = NOW.isoformat()
    assert [(item.key, item.seq, item.data, item.task_id, item.tool_name) for item in select_events(items)] == [
        ("01J/1", 1, {"text": "hi", "occurred_at": when}, "t", None),
        ("01J/2", 2, {"text": "é\u2028", "occurred_at": when}, None, "x"),
    ]


def test_a_session_without_its_beginning_keeps_its_numbers(tmp_path: Path) -> None:
    text = "".join(native.write(SESSION, [event(41, {"text": "later"})]))
    items = read_text(native, tmp_path, text)
    assert select_events(items)[0].key == "01J/41"
    assert select_sessions(items)[0].details[native.EXPORTED]["pruned_to"] == 40
    assert export_again(items) == text


def test_what_utf8_and_jsonb_cannot_hold_is_escaped_and_comes_back(tmp_path: Path) -> None:
    data = {"text": "a\0b\ud800c\udfff", "\udc00": [float("1e300"), 10**30]}
    text = "".join(native.write(SESSION, [event(1, data)]))
    text.encode("utf-8")
    assert "\\u0000" in text
    assert "\\ud800" in text
    items = read_text(native, tmp_path, text)
    assert select_events(items)[0].data == {**data, "occurred_at": NOW.isoformat()}
    assert export_again(items) == text


def test_several_sessions_may_follow_one_another(tmp_path: Path) -> None:
    first = "".join(native.write(SESSION, [event(1, {"text": "a"})]))
    second = "".join(native.write({"id": "02", "agent": "b"}, [event(1, {"text": "b"})]))
    items = read_text(native, tmp_path, first + second)
    assert [type(item).__name__ for item in items] == ["ForeignSession", "ForeignEvent"] * 2
    assert [item.key for item in select_events(items)] == ["01J/1", "02/1"]


def test_a_session_without_events_is_its_header(tmp_path: Path) -> None:
    (header,) = native.write({**SESSION, "pruned_to": 12}, [])
    items = read_text(native, tmp_path, header)
    assert select_sessions(items)[0].details[native.EXPORTED]["pruned_to"] == 12
    assert export_again(items) == header


def test_a_damaged_event_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = list(native.write(SESSION, [event(n, {"text": str(n)}) for n in range(1, 5)]))
    lines[2] = "damage\n"
    items = read_text(native, tmp_path, "".join(lines))
    assert [problem.line for problem in select_problems(items)] == [3]
    assert [item.data["text"] for item in select_events(items)] == ["1", "3", "4"]


def test_a_damaged_header_does_not_give_its_events_to_the_session_before(tmp_path: Path) -> None:
    first = list(native.write(SESSION, [event(n, {"text": "a"}) for n in (1, 2)]))
    second = list(native.write({"id": "02", "agent": "b"}, [event(n, {"text": "b"}) for n in (1, 2)]))
    third = list(native.write({"id": "03", "agent": "b"}, [event(1, {"text": "c"})]))
    items = read_text(native, tmp_path, "".join([*first, "damage\n", *second[1:], *third]))
    assert [item.data["text"] for item in select_events(items)] == ["a", "a", "c"]
    assert len(select_problems(items)) == 3


def test_lines_like_none_of_ours_are_problems(tmp_path: Path) -> None:
    lines: list[object] = [
        {"seq": 1, "type": "UserMessage", "data": {"text": "of no session"}},
        {"consolidator": 99, "session": {"id": "x", "agent": "a"}},
        {"consolidator": 1, "session": {"agent": "a"}},
        {"consolidator": 1, "session": {"id": "x", "agent": "a"}},
        {"seq": True, "type": "UserMessage", "data": {"text": ""}},
        {"seq": 1, "type": "Nothing", "data": {}},
        {"seq": 1, "type": "UserMessage", "data": []},
        {"seq": 1, "type": "UserMessage", "data": {"text": "good"}},
    ]
    items = read_text(native, tmp_path, "".join(json.dumps(line) + "\n" for line in lines))
    assert [problem.line for problem in select_problems(items)] == [1, 2, 3, 5, 6, 7]
    assert [item.data["text"] for item in select_events(items)] == ["good"]


def test_it_is_recognised_by_its_first_line(tmp_path: Path) -> None:
    header = next(native.write(SESSION, []))
    assert native.recognises(tmp_path / "x.jsonl", header.encode())
    assert not native.recognises(tmp_path / "x.jsonl", b'{"type":"user"}\n' + header.encode())


# Surrogates that make a pair are one character in JSON; each alone is itself.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["\ud800", "x\udfff", "\0"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
maybe = st.none() | texts
rows = st.fixed_dictionaries(
    {"id": st.text("abc", min_size=1), "agent": st.text("xyz", min_size=1), "kind": st.sampled_from(["root", "fork"])},
    optional={
        "origin": maybe,
        "key": maybe.filter(lambda key: not has_controls(key or "")),
        "conversation_id": maybe,
        "project": maybe,
        "parent_id": maybe,
        "parent_seq": st.none() | st.integers(0, 99),
        "simulated": st.booleans(),
        "status": st.sampled_from(["open", "ended"]),
        "error": maybe,
        "details": st.dictionaries(st.text("abc"), values, max_size=3),
    },
)
moments = st.datetimes(timezones=st.just(UTC))


@NO_DEADLINE
@given(
    rows,
    st.integers(1, 50),
    st.lists(st.tuples(st.sampled_from(EventType), st.dictionaries(texts, values), moments, maybe, maybe), max_size=5),
)
def test_any_session_is_exported_again_byte_for_byte(
    row: dict[str, Any], first: int, drafts: list[tuple[EventType, dict[str, Any], datetime, str | None, str | None]]
) -> None:
    row.setdefault("status", "open")
    events = [
        Event(row["id"], first + n, kind, data, moment, None, task, tool)
        for n, (kind, data, moment, task, tool) in enumerate(drafts)
    ]
    text = "".join(native.write(row, events))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.jsonl"
        path.write_bytes(text.encode("utf-8"))
        items = list(native.read(path, path))
    assert select_problems(items) == []
    assert [(item.seq, item.type, item.data) for item in select_events(items)] == [
        (item.seq, item.type, {**item.data, "occurred_at": item.data.get("occurred_at") or item.created_at.isoformat()})
        for item in events
    ]
    assert export_again(items) == text


def test_numbers_that_json_does_not_have_are_written_as_words() -> None:
    _, line = native.write(SESSION, [event(1, {"text": "", "rewards": [float("nan"), float("-inf"), 1.5]})])
    assert '"rewards":["NaN","-Infinity",1.5]' in line
