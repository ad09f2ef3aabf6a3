"""Delivers a session's messages to its channel: after their commit, in order, and only the part that is missing.

A channel that fails gets nothing more until the next wake. What it did not acknowledge is delivered then.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from consolidator.errors import StaleEpoch
from consolidator.llm.redaction.redact import format_redacted_traceback
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.lease import Lease
from consolidator.runtime.turn.harness import Delta, Harness, Sender
from consolidator.store.turns import generation as store

log = logging.getLogger("consolidator.runtime")
_PAGE = 100  # messages loaded at once
SEND_TIMEOUT = 30.0  # seconds that a channel has for a chunk: one that hangs would hold the session forever


def tells_people(event: Event) -> bool:
    """Tell whether an event ends a message that a channel is sent, or makes one void: see `list_answers`."""
    is_void = event.type is EventType.POLICY_DECISION and event.data.get("decision") == "generation_replaced"
    return is_void or event.type in (EventType.ASSISTANT_RESPONSE, EventType.ERROR)


@dataclass(slots=True)
class ChannelDelivery:
    """Delivery to a session's channel, by the current holder of the session's lease."""

    harness: Harness
    lease: Lease
    channel: str = field(init=False)
    delivered_to: int = field(init=False)  # every message up to this event was delivered
    sender: Sender | None = field(init=False)  # None: nobody here can reach the channel, or it failed
    send_timeout: float | None = field(init=False)  # seconds
    unrecorded: dict[str, Any] | None = None  # what was acknowledged last, if the session's release is to record it

    def __post_init__(self) -> None:
        self.channel = self.lease.session.channel_name
        self.delivered_to = self.lease.session.delivered_to
        self.sender = self.harness.find_sender(self.lease.session)
        # A listener in this process may take any time: the answer waits for its reader.
        self.send_timeout = None if self.lease.session_id in self.harness.listeners else SEND_TIMEOUT

    async def deliver_backlog(self) -> None:
        """Deliver what earlier holders left undelivered of finished messages."""
        session = self.lease.session
        while self.sender is not None and self.delivered_to < session.head:
            async with self.harness.database.connection() as conn:
                messages = await store.list_answers(
                    conn, session.id, self.channel, after=self.delivered_to, bounds=session.ingest_bounds, limit=_PAGE
                )
            for message in messages:
                if message.void_id is not None:
                    await self.deliver_void(message.void_id)
                if message.message_id is not None:
                    await self.deliver_rest(message.message_id, after=message.upto or 0)
                if self.sender is None:
                    return
                self.delivered_to = message.seq
            if len(messages) < _PAGE:
                self.delivered_to = session.head

    async def deliver_rest(self, message_id: str, *, after: int) -> None:
        """Deliver the chunks of a message that come after its chunk `after`."""
        if self.sender is None:
            return
        async with self.harness.database.connection() as conn:
            chunks = await store.read_chunks(conn, self.lease.session_id, message_id, after=after)
        for chunk in chunks:
            await self.deliver_chunk(message_id, chunk.seq, chunk.delta, started=chunk.started_seq)

    async def deliver_chunk(
        self, message_id: str, seq: int, text: str, *, started: int, ends_turn: bool = False
    ) -> None:
        """Deliver a committed chunk and, once the channel has acknowledged it, record that.

        What ends a turn is recorded as the session is released, which follows.
        """
        if await self._send(Delta(self.lease.session_id, message_id, seq, text)):
            now = self.harness.database.clock.now()
            self.unrecorded = {"message": message_id, "upto": seq, "started": started, "now": now}
            if not ends_turn:
                await self.record()

    async def record(self) -> None:
        """Record what the channel has acknowledged."""
        if self.unrecorded is not None:
            values, self.unrecorded = self.unrecorded, None
            with boundary("delivery"):
                async with self.harness.database.connection() as conn:
                    message = values.pop("message")
                    await store.record_delivery(conn, self.lease.session_id, message, self.channel, **values)

    async def deliver_void(self, message_id: str) -> None:
        """Tell the channel that what it was sent of a message is void."""
        await self._send(Delta(self.lease.session_id, message_id, 0, "", "void"))

    async def _send(self, delta: Delta) -> bool:
        """Send a delta; False if there is no channel, or it fails."""
        if self.sender is None:
            return False
        try:
            with boundary("send"):
                self.lease.check_valid()
                async with asyncio.timeout(self.send_timeout):
                    await self.sender(delta)
        except StaleEpoch:
            raise
        except Exception as error:  # noqa: BLE001 - a channel is an author's code: the answer goes on without it
            log.warning(
                "channel %s of session %s failed: %s", self.channel, delta.session_id, format_redacted_traceback(error)
            )
            self.sender = None
            return False
        return True
