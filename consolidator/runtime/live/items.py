"""What a follower of a session receives, and the cursor that names how far it has come."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from consolidator.errors import UsageError
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.store.turns.following import SessionMarks

_CURSOR = re.compile(r"(-?[0-9]{1,18})(?:\.([0-9]{1,9}))?", re.ASCII)
_VOIDING_DECISION = "generation_replaced"
_ENDING_DECISIONS = (_VOIDING_DECISION, "turn_interrupted")


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """How far a follower has come: the last event it has, and how many pieces of the answer that is open there.

    As text `42` or `42.7`; below 1 in what an imported fork reads of its parent. A follower receives what they name in
    their order.
    """

    seq: int = 0
    piece: int = 0

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return the cursor of a text. Raises UsageError."""
        match = _CURSOR.fullmatch(text.strip())
        if match is None:
            raise UsageError(f"{text[:40]!r} is no cursor, such as 42, or 42.7 for an event and a piece of its answer")
        return cls(int(match[1]), int(match[2] or 0))

    def __str__(self) -> str:
        return f"{self.seq}.{self.piece}" if self.piece else str(self.seq)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of an answer, as it was committed."""

    message_id: str
    number: int  # in its message, from 1
    started_seq: int  # the event that began the message
    text: str
    after_seq: int | None = None  # the last event before it; None where that is not stored: it comes at the end


@dataclass(frozen=True, slots=True)
class FollowedItem:
    """What came next in a session.

    An `event`; a `piece` of an answer; a `void`, the event by which the pieces of an answer no longer count; a `gap`,
    where retention has removed events that the follower had not seen: it continues after `cursor`; or a `state`, where
    the session stands once the follower has all that came: it is not repeated after a reconnect.
    """

    kind: Literal["event", "piece", "void", "gap", "state"]
    session_id: str
    cursor: Cursor  # to continue after this item
    event: Event | None = None  # of an event or a void
    piece: Piece | None = None
    message_id: str | None = None  # the message that is void
    came_in_pieces: bool = False  # the follower has the answer's whole text already
    marks: SessionMarks | None = None  # of a state

    def as_json(self) -> dict[str, Any]:
        """Return the item as JSON can hold it; the text of an answer that came in pieces is left out."""
        item: dict[str, Any] = {"kind": self.kind, "session_id": self.session_id, "cursor": str(self.cursor)}
        if self.piece is not None:
            piece = self.piece
            return item | {"message_id": piece.message_id, "piece": piece.number, "text": piece.text}
        if self.marks is not None:
            marks = self.marks
            names = ("head", "status", "pending", "settled_to", "waiting_calls", "error")
            return item | {name: getattr(marks, name) for name in names}
        if self.message_id is not None:
            item["message_id"] = self.message_id
        if self.event is not None:
            event = self.event
            data: Mapping[str, Any] = event.data
            if self.came_in_pieces:
                data = {name: value for name, value in data.items() if name != "text"} | {"complete": True}
            item["event"] = {
                "seq": event.seq, "type": event.type.value, "data": data, "created_at": event.created_at,
                "task_id": event.task_id, "principal": event.principal,
            }  # fmt: skip
        return item


def begun_message(event: Event) -> str | None:
    """Return the id of the message that an event begins: an answer, or the notice that comes with the event."""
    if event.type is EventType.THINKING_START:
        return _text(event.data.get("message_id"))
    return noticed_message(event)


def noticed_message(event: Event) -> str | None:
    """Return the id of the message that an event brings whole: a notice to the person."""
    return _text(event.data.get("notice_id"))


def ends_message(event: Event) -> bool:
    """Tell whether no piece of the message that was open comes after an event."""
    if event.type in (EventType.ASSISTANT_RESPONSE, EventType.THINKING_START) or is_voiding(event):
        return True
    return event.type is EventType.POLICY_DECISION and event.data.get("decision") in _ENDING_DECISIONS


def is_voiding(event: Event) -> bool:
    """Tell whether an event gives up the message that it ends: its pieces no longer count."""
    if event.type is EventType.ERROR:
        return bool(event.data.get("message_id"))
    return event.type is EventType.POLICY_DECISION and event.data.get("decision") == _VOIDING_DECISION


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
