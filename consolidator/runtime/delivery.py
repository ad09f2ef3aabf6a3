"""Hands a session's messages on to its channel: after their commit, in order, the missing part only.

A channel that fails is left alone until the next wake; what it did not acknowledge is still owed to it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from consolidator.errors import StaleEpoch
from consolidator.llm.redaction.redact import traced
from consolidator.runtime.boundaries import around
from consolidator.runtime.harness import Delta, Harness, Sender, channel_of
from consolidator.runtime.lease import Lease
from consolidator.store.log import generation as store

log = logging.getLogger("consolidator.runtime")
_PAGE = 100  # messages looked at at once
PATIENCE = 30.0  # seconds that a channel has for a piece: one that hangs would hold the session for ever


@dataclass(slots=True)
class Outlet:
    """A session's channel, as one holder of its lease serves it."""

    harness: Harness
    lease: Lease
    name: str = field(init=False)
    delivered_to: int = field(init=False)  # every message up to this event arrived
    sender: Sender | None = field(init=False)
    patience: float | None = field(init=False)

    def __post_init__(self) -> None:
        self.name = channel_of(self.lease.row)
        self.delivered_to = self.lease.row["delivered_to"]
        self.sender = self.harness.sender(self.lease.session_id, self.name)
        # Who listens in this process may take their time: the answer waits for its reader.
        self.patience = None if self.lease.session_id in self.harness.listeners else PATIENCE

    async def catch_up(self) -> None:
        """Hand on what earlier holders left undelivered of finished messages."""
        row = self.lease.row
        while self.sender is not None and self.delivered_to < row["head"]:
            async with self.harness.database.connection() as conn:
                bounds = (row["created_at"], row["last_event_at"])
                found = await store.messages(
                    conn, row["id"], self.name, after=self.delivered_to, bounds=bounds, limit=_PAGE
                )
            for message in found:
                if message["void_id"] is not None:
                    await self.void(message["void_id"])
                if message["message_id"] is not None:
                    await self.rest(message["message_id"], after=message["upto"] or 0)
                if self.sender is None:
                    return
                self.delivered_to = message["seq"]
            if len(found) < _PAGE:
                self.delivered_to = row["head"]

    async def rest(self, message_id: str, *, after: int) -> None:
        """Hand on the pieces of a message that come after one."""
        if self.sender is None:
            return
        async with self.harness.database.connection() as conn:
            missing = await store.chunks(conn, self.lease.session_id, message_id, after=after)
        for chunk in missing:
            await self.hand_on(message_id, chunk.seq, chunk.delta, started=chunk.started_seq)

    async def hand_on(self, message_id: str, seq: int, text: str, *, started: int) -> None:
        """Hand a committed piece on and, once the channel has it, record that."""
        delta = Delta(self.lease.session_id, message_id, seq, text)
        if not await self._sent(delta):
            return
        with around("delivery"):
            async with self.harness.database.connection() as conn:
                now = self.harness.database.clock.now()
                await store.deliver(conn, delta.session_id, message_id, self.name, upto=seq, started=started, now=now)

    async def void(self, message_id: str) -> None:
        """Tell the channel that what it was shown of a message does not count."""
        await self._sent(Delta(self.lease.session_id, message_id, 0, "", "void"))

    async def _sent(self, delta: Delta) -> bool:
        if self.sender is None:
            return False
        try:
            with around("send"):
                self.lease.check()
                async with asyncio.timeout(self.patience):
                    await self.sender(delta)
        except StaleEpoch:
            raise
        except Exception as error:  # noqa: BLE001 - a channel is somebody else's code: the answer goes on without it
            log.warning("channel %s of session %s failed: %s", self.name, delta.session_id, traced(error))
            self.sender = None
            return False
        return True
