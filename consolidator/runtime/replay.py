"""Replays a session from its log: what people said and what they were shown, piece by piece, byte for byte."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from consolidator.database import Connection
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.runtime.harness import channel_of
from consolidator.store.log import context as store
from consolidator.store.log import events, sessions
from consolidator.store.queries import Row

PAGE = 500  # events read at once
EVERYTHING = ""  # the channel of no session: all that was committed, whoever had it


@dataclass(frozen=True, slots=True)
class Shown:
    """What came next: a person's words, a piece of an answer, or that what was shown of an answer is void."""

    kind: Literal["user", "piece", "void"]
    seq: int  # of the event it belongs to: the message, or the one that began the answer
    text: str
    at: datetime
    message_id: str | None = None
    piece: int = 0  # its place in its message, from 1
    speaker: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        told = {"kind": self.kind, "seq": self.seq, "text": self.text, "at": self.at, "message_id": self.message_id}
        return told | {"piece": self.piece or None, "speaker": self.speaker}


async def replay(conn: Connection, session_id: str, *, channel: str | None = None) -> AsyncIterator[Shown]:
    """Yield what a session's people saw, in order; raise NotFound where there is no session.

    Of answers, what `channel` acknowledged: the session's own, unless another is named. EVERYTHING, or a session whose
    channel never had anything, replays all that was committed.
    """
    session = await sessions.get(conn, session_id)
    name = channel_of(session) if channel is None else channel
    if channel is None and not await store.has_reached(conn, session_id, name):
        name = EVERYTHING
    bounds = (session["created_at"], session["last_event_at"])
    telling = _ReplayFold(whole=name == EVERYTHING)
    after = session["pruned_to"]
    while after < session["head"]:
        upto = min(after + PAGE, session["head"])
        log = await events.read(conn, session_id, after=after, upto=upto, bounds=bounds)
        found = await store.pieces(conn, session_id, after=after, upto=upto, low=bounds[0], channel=name)
        telling.begin(found)
        for shown in telling.told(log):
            yield shown
        after = upto
    for shown in telling.rest():
        yield shown


@dataclass(slots=True)
class _ReplayFold:
    """Puts pieces in their place among the events."""

    whole: bool
    waiting: dict[str, list[Row]] = field(default_factory=dict)  # pieces that were not yet told, by message
    spoken: set[str] = field(default_factory=set)  # messages of which something was told

    def begin(self, found: Sequence[Row]) -> None:
        for piece in found:
            if self.whole or piece["seq"] <= piece["reached"]:
                self.waiting.setdefault(piece["message_id"], []).append(piece)

    def told(self, log: Sequence[Event]) -> Iterator[Shown]:
        for event in log:
            data = event.data
            name = str(data.get("message_id") or "")
            if event.type is EventType.USER_MESSAGE and data.get("origin", "user") == "user":
                yield from self._so_far(event)
                text, speaker = str(data.get("text") or ""), data.get("speaker")
                yield Shown("user", event.seq, text, event.created_at, speaker=speaker)
            elif event.type is EventType.ASSISTANT_RESPONSE:
                yield from self._answer(event, name)
            elif event.type is EventType.ERROR or data.get("decision") == "generation_replaced":
                yield from self._ended(event, name)
            if data.get("notice_id"):
                yield from self._of(str(data["notice_id"]))

    def rest(self) -> Iterator[Shown]:
        """Yield what was said of messages that have not ended."""
        for name in list(self.waiting):
            yield from self._of(name)

    def _so_far(self, event: Event) -> Iterator[Shown]:
        """Yield what was said before a person's word came in between."""
        for name, pieces in self.waiting.items():
            said = [piece for piece in pieces if piece["started_seq"] < event.seq]
            before = [piece for piece in said if piece["created_at"] <= event.created_at]
            self.waiting[name] = pieces[len(before) :]
            for piece in before:
                yield self._piece(piece)

    def _answer(self, event: Event, name: str) -> Iterator[Shown]:
        """Yield the rest of an answer; one that was not heard in pieces is one."""
        yield from self._of(name)
        text = str(event.data.get("text") or "")
        if text and not event.data.get("chunks") and name not in self.spoken:
            yield Shown("piece", event.seq, text, event.created_at, name or None, 1)

    def _ended(self, event: Event, name: str) -> Iterator[Shown]:
        """Yield what was shown of an answer that does not count, and that it does not."""
        yield from self._of(name)
        if name in self.spoken:
            yield Shown("void", event.seq, "", event.created_at, name)

    def _of(self, name: str) -> Iterator[Shown]:
        for piece in self.waiting.pop(name, []):
            yield self._piece(piece)

    def _piece(self, piece: Row) -> Shown:
        name = piece["message_id"]
        self.spoken.add(name)
        return Shown("piece", piece["started_seq"], piece["delta"], piece["created_at"], name, piece["seq"])
