"""What a follower receives: each event and piece once and in order, wherever it is cut and goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.errors import UsageError
from consolidator.models.event import Event, PlacedChunk
from consolidator.models.payload import EventType
from consolidator.runtime.live.items import (
    Cursor,
    FollowedItem,
    FollowFold,
    Position,
    begun_message,
    ends_message,
    restore_position,
)

NOW = datetime(2026, 3, 2, tzinfo=UTC)


@dataclass
class Log:
    """A log as a runtime writes it: commits of an event or a piece, in their order."""

    events: list[Event] = field(default_factory=list)
    committed: list[str] = field(default_factory=list)  # in their order: seqs of events, and pieces by name
    pieces: dict[str, list[PlacedChunk]] = field(default_factory=dict)
    open_message: str | None = None
    started: int = 0

    def add(self, kind: EventType, **data: Any) -> None:
        self.events.append(Event("s", len(self.events) + 1, kind, data, NOW))
        self.committed.append(str(len(self.events)))

    def step(self, action: str) -> None:
        """Commit what an action asks for, if it can come now."""
        message_id = self.open_message
        if action == "user":
            self.add(EventType.USER_MESSAGE, text="hello")
        elif action == "begin" and message_id is None:
            self.started = len(self.events) + 1
            self.open_message = f"m{self.started}"
            self.add(EventType.THINKING_START, message_id=self.open_message)
        elif action == "piece" and message_id is not None:
            pieces = self.pieces.setdefault(message_id, [])
            after = len(self.events)
            pieces.append(PlacedChunk(message_id, len(pieces) + 1, f"{message_id}-{len(pieces)} ", self.started, after))
            self.committed.append(f"{message_id}.{len(pieces)}")
        elif action == "end" and message_id is not None:
            pieces = self.pieces.get(message_id, [])
            text = "".join(piece.delta for piece in pieces)
            self.add(EventType.ASSISTANT_RESPONSE, message_id=message_id, text=text, chunks=len(pieces))
            self.open_message = None
        elif action == "replace" and message_id is not None:
            self.add(EventType.POLICY_DECISION, decision="generation_replaced", message_id=message_id)
            self.open_message = None
        elif action == "resume" and message_id is not None:
            self.add(EventType.POLICY_DECISION, decision="generation_resumed", message_id=message_id)
        elif action == "fail" and message_id is not None:
            notice = f"n{len(self.events) + 1}"
            self.pieces[notice] = [PlacedChunk(notice, 1, "it failed", len(self.events) + 1, None)]
            self.add(EventType.ERROR, message_id=message_id, notice_id=notice, message="it failed")
            self.committed.append(f"{notice}.1")
            self.open_message = None

    def position(self, cursor: Cursor) -> Position:
        """Return the position of a cursor as a reader of the log finds it."""
        marks = [e for e in self.events if e.seq <= cursor.seq and (ends_message(e) or begun_message(e))]
        return restore_position(cursor, marks[-1] if marks else None)

    def read(self, fold: FollowFold, *, events: int = 1000) -> list[FollowedItem]:
        """Take what a reader finds for a fold, up to a number of events."""
        log = [event for event in self.events if event.seq > fold.position.seq][:events]
        found = {name: self.pieces.get(name, [])[taken:] for name, taken in fold.open_messages(log).items()}
        return list(fold.take(log, found))


ACTIONS = st.sampled_from(["user", "begin", "begin", "piece", "piece", "piece", "end", "replace", "resume", "fail"])


def names(items: list[FollowedItem]) -> list[str]:
    """Return items as short lines."""
    return [
        f"{item.piece.message_id}.{item.piece.seq}" if item.piece else f"{item.kind} {item.event and item.event.seq}"
        for item in items
    ]


def check_order(items: list[FollowedItem], log: Log) -> None:
    """Assert that everything came once and as it was committed, and voids for what was shown."""
    named = [f"{item.piece.message_id}.{item.piece.seq}" if item.piece else str(item.cursor.seq) for item in items]
    assert named == log.committed
    assert [item.event.seq for item in items if item.event] == [event.seq for event in log.events]
    shown: dict[str, int] = {}
    is_open: dict[str, bool] = {}
    for item in items:
        if item.piece:
            assert item.piece.seq == shown.get(item.piece.message_id, 0) + 1
            assert is_open[item.piece.message_id]
            shown[item.piece.message_id] = item.piece.seq
        if item.event:
            if begun := begun_message(item.event):
                is_open[begun] = True
            elif ends_message(item.event):
                is_open[item.event.data["message_id"]] = False
            given_up = item.event.type is not EventType.ASSISTANT_RESPONSE and ends_message(item.event)
            message_id = item.event.data.get("message_id")
            if given_up and begun_message(item.event) != message_id:
                assert (item.kind == "void") == bool(shown.get(message_id or ""))
            assert item.came_in_pieces == (
                item.event.type is EventType.ASSISTANT_RESPONSE and shown.get(message_id or "", 0) > 0
            )
    assert shown == {message_id: len(pieces) for message_id, pieces in log.pieces.items() if pieces}
    cursors = [item.cursor for item in items]
    assert cursors == sorted(set(cursors))


@given(st.lists(ACTIONS, max_size=60), st.data())
def test_each_item_comes_once_in_order_however_reading_and_commits_alternate(actions: list[str], data: Any) -> None:
    log, fold, items = Log(), FollowFold("s"), []
    for action in actions:
        log.step(action)
        if data.draw(st.booleans()):
            items += log.read(fold, events=data.draw(st.integers(1, 5)))
    while page := log.read(fold, events=3):
        items += page
    check_order(items, log)


@given(st.lists(ACTIONS, max_size=60), st.data())
def test_a_follower_that_is_cut_anywhere_goes_on_exactly_there(actions: list[str], data: Any) -> None:
    log, fold, items = Log(), FollowFold("s"), []
    for action in actions:
        log.step(action)
        if data.draw(st.booleans()):
            items += log.read(fold)
            if items and data.draw(st.booleans()):
                cursor = Cursor.parse(str(items[-1].cursor))
                fold = FollowFold("s", log.position(cursor))
    items += log.read(fold)
    check_order(items, log)


def test_whole_answers_come_as_events_alone() -> None:
    log = Log()
    for action in ("user", "begin", "piece", "piece", "replace", "begin", "piece", "end"):
        log.step(action)
    items = log.read(FollowFold("s", whole=True))
    assert [(item.kind, str(item.cursor)) for item in items] == [("event", str(n)) for n in range(1, 6)]
    assert items[-1].event is not None
    assert (items[-1].came_in_pieces, items[-1].event.data["text"]) == (False, "m4-0 ")


def test_an_answer_that_came_in_pieces_is_not_repeated_and_one_whose_pieces_are_gone_is_whole() -> None:
    log = Log()
    for action in ("begin", "piece", "piece", "end"):
        log.step(action)
    last = log.read(FollowFold("s"))[-1]
    assert last.came_in_pieces
    log.pieces.clear()
    assert not log.read(FollowFold("s"))[-1].came_in_pieces


def test_a_gap_is_told() -> None:
    log = Log()
    for _ in range(5):
        log.step("user")
    del log.events[1:3]
    items = log.read(FollowFold("s", Position(1)))
    assert [(item.kind, str(item.cursor)) for item in items] == [("gap", "3"), ("event", "4"), ("event", "5")]


def test_cursors_are_text_and_in_order() -> None:
    texts = ["-7", "0", "42", "42.1", "42.7", "42.12", "43"]
    assert [str(Cursor.parse(text)) for text in texts] == texts
    assert sorted(map(Cursor.parse, reversed(texts))) == list(map(Cursor.parse, texts))


@pytest.mark.parametrize("text", ["", "x", "--1", "1.", ".1", "1.2.3", "1e5", "٤٢", "9" * 19, "1." + "9" * 10])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no cursor"):
        Cursor.parse(text)
