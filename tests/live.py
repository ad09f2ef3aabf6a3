"""A writer of sessions that are followed live: what it commits, and in which order."""

from __future__ import annotations

import random

from consolidator.database import Database
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.store.log import events
from consolidator.store.turns import generation


class Writer:
    """Writes a session as its driver would: messages, answers in pieces, and answers that are replaced."""

    def __init__(self, database: Database, session_id: str) -> None:
        self.database = database
        self.session_id = session_id
        self.answers = 0
        self.message_id = ""
        self.started = 0
        self.pieces = 0

    async def append(self, kind: EventType, **data: object) -> int:
        """Append an event; return its seq."""
        async with self.database.connection() as conn:
            now = self.database.clock.now()
            return (await events.append(conn, self.session_id, [NewEvent(kind, data)], now=now)).last_seq

    async def begin(self) -> None:
        """Begin an answer."""
        self.answers += 1
        self.message_id, self.pieces = f"{self.session_id}-m{self.answers}", 0
        self.started = await self.append(EventType.THINKING_START, message_id=self.message_id)

    async def say(self, text: str) -> None:
        """Commit a piece of the answer."""
        async with self.database.connection() as conn:
            self.pieces = await generation.append_chunks(
                conn, self.session_id, self.message_id, [text],
                after=self.pieces, started=self.started, epoch=0, now=self.database.clock.now(),
            )  # fmt: skip

    async def end(self, text: str) -> None:
        """End the answer."""
        data = {"message_id": self.message_id, "text": text, "chunks": self.pieces}
        await self.append(EventType.ASSISTANT_RESPONSE, **data)

    async def replace(self) -> None:
        """Give the answer up."""
        await self.append(EventType.POLICY_DECISION, decision="generation_replaced", message_id=self.message_id)

    async def write_turns(self, count: int, chance: random.Random) -> list[str]:
        """Write turns, some of them replaced or steered, and the session's end; return what each follower must get.

        That is words, in the order in which they were committed.
        """
        lines: list[str] = []
        for turn in range(count):
            await self.begin()
            lines.append("ThinkingStart")
            for piece in range(chance.randint(1, 8)):
                await self.say(f"{turn}-{piece}")
                lines.append(f"{turn}-{piece}")
                if chance.random() < 0.2:
                    await self.append(EventType.USER_MESSAGE, text="meanwhile", mode="steer")
                    lines.append("UserMessage")
            if chance.random() < 0.3:
                await self.replace()
                lines.append("void")
            else:
                await self.end("…")
                lines.append("AssistantResponse")
        await self.append(EventType.SESSION_END, reason="done")
        return [*lines, "SessionEnd"]
