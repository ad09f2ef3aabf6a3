"""What a follower of a session receives, and the cursor that names how far it has come."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from consolidator.errors import UsageError
from consolidator.models.event import Event, PlacedChunk
from consolidator.models.payload import EventType
from consolidator.store.turns.following import SessionMarks

Pieces = Mapping[str, Sequence[PlacedChunk]]  # by message
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
    piece: PlacedChunk | None = None
    message_id: str | None = None  # the message that is void
    came_in_pieces: bool = False  # the follower has the answer's whole text already
    marks: SessionMarks | None = None  # of a state


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


@dataclass(frozen=True, slots=True)
class Position:
    """Where a follower is: the last event it has, and the message that is open there with the pieces it has of it."""

    seq: int = 0
    message_id: str | None = None
    piece: int = 0
    is_notice: bool = False  # the open message came whole with its event, and ends with the next one

    @property
    def cursor(self) -> Cursor:
        """The position as the follower names it."""
        return Cursor(self.seq, self.piece)


@dataclass(slots=True)
class FollowFold:
    """The items of one session, from a position on; with `whole`, answers come as events alone."""

    session_id: str
    position: Position = field(default_factory=Position)
    whole: bool = False

    def take(self, log: Sequence[Event], pieces: Pieces) -> Iterator[FollowedItem]:
        """Yield what comes of the next events, and of the pieces by message.

        The pieces are all that were committed when the events were read, or later.
        """
        for event in log:
            if event.seq <= self.position.seq:
                continue
            yield from self._take_pieces(pieces, before=event)
            yield from self.take_event(event)
            if self.position.is_notice:
                yield from self._take_pieces(pieces)
        yield from self._take_pieces(pieces)

    def take_event(self, event: Event) -> Iterator[FollowedItem]:
        """Yield what comes of the next event, of which the pieces before it must have been taken. A jump is a gap."""
        before = self.position
        if event.seq > before.seq + 1:
            self.position = before = Position(event.seq - 1)
            yield FollowedItem("gap", self.session_id, before.cursor)
        if self.whole:
            self.position = Position(event.seq)
            yield FollowedItem("event", self.session_id, Cursor(event.seq), event)
            return
        begun, ends = begun_message(event), ends_message(event)
        if begun is not None:
            self.position = Position(event.seq, begun, 0, noticed_message(event) is not None)
        elif before.is_notice or ends:
            self.position = Position(event.seq)
        else:
            self.position = Position(event.seq, before.message_id, before.piece)
        cursor = self.position.cursor
        had_pieces = before.piece if ends and event.data.get("message_id") == before.message_id else 0
        if had_pieces and is_voiding(event):
            yield FollowedItem("void", self.session_id, cursor, event, message_id=before.message_id)
        else:
            complete = event.type is EventType.ASSISTANT_RESPONSE and 0 < had_pieces == event.data.get("chunks")
            yield FollowedItem("event", self.session_id, cursor, event, came_in_pieces=complete)

    def open_messages(self, log: Sequence[Event]) -> dict[str, int]:
        """Return the messages whose pieces the next events need, with the number of pieces that are taken of each."""
        if self.whole:
            return {}
        needed = {} if self.position.message_id is None else {self.position.message_id: self.position.piece}
        begun = (begun_message(event) for event in log if event.seq > self.position.seq)
        return needed | {message_id: 0 for message_id in begun if message_id is not None}

    def holds_back(self, pieces: Sequence[PlacedChunk]) -> bool:
        """Tell whether one of these pieces came after an event that is not taken yet."""
        return any(piece.after_seq is not None and piece.after_seq > self.position.seq for piece in pieces[-1:])

    def _take_pieces(self, pieces: Pieces, before: Event | None = None) -> Iterator[FollowedItem]:
        """Yield the next pieces of the open message: up to the last event, or those that came before one."""
        message_id = self.position.message_id
        if message_id is None:
            return
        stays_open = before is not None and not (ends_message(before) or begun_message(before))
        upto = self.position.seq if before is None else before.seq - 1
        for piece in pieces.get(message_id, ()):
            if not self.position.is_notice:
                if piece.after_seq is None and stays_open:
                    return
                if piece.after_seq is not None and piece.after_seq > upto:
                    return
            if piece.seq > self.position.piece:
                self.position = replace(self.position, piece=piece.seq)
                yield FollowedItem("piece", self.session_id, self.position.cursor, piece=piece)


def restore_position(cursor: Cursor, last: Event | None) -> Position:
    """Return the position that a cursor names; `last` is the last event up to it that begins or ends a message."""
    message_id = None if last is None else begun_message(last)
    if last is None or message_id is None:
        return Position(cursor.seq)
    is_notice = noticed_message(last) is not None
    if is_notice and last.seq < cursor.seq:
        return Position(cursor.seq)
    return Position(cursor.seq, message_id, cursor.piece, is_notice)
