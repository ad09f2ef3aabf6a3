"""A queue of deltas between the harness that drives a session and the author's `async for` over its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from consolidator.runtime.turn.harness import Delta


class DeltaQueue:
    """A channel that is an iterator: asking for the next delta acknowledges the last one."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[Delta, asyncio.Future[None]] | None] = asyncio.Queue()
        self._unacknowledged: set[asyncio.Future[None]] = set()
        self._closed = False
        self.last_seqs: dict[str, int] = {}  # message_id -> seq of its last chunk; without void messages
        self._void_ids: set[str] = set()

    async def __call__(self, delta: Delta) -> None:
        """Send a delta and wait for its acknowledgement, as a Sender does; one that was put before has it."""
        if not self.has(delta):
            await self.put(delta)

    def has(self, delta: Delta) -> bool:
        """Tell whether a delta was put before: another process may have committed it, and this one sends it again."""
        if delta.kind == "void":
            return delta.message_id in self._void_ids
        return delta.seq <= self.last_seqs.get(delta.message_id, 0)

    def put(self, delta: Delta) -> asyncio.Future[None]:
        """Add a delta. The future is done when it is acknowledged, or when nobody reads any more."""
        acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._closed:
            acknowledged.set_result(None)
            return acknowledged
        if delta.kind == "void":
            self.last_seqs.pop(delta.message_id, None)
            self._void_ids.add(delta.message_id)
        else:
            self.last_seqs[delta.message_id] = delta.seq
        self._unacknowledged.add(acknowledged)
        acknowledged.add_done_callback(self._unacknowledged.discard)
        self._queue.put_nowait((delta, acknowledged))
        return acknowledged

    def close(self) -> None:
        """End the iteration after the deltas that are in the queue."""
        self._closed = True
        self._queue.put_nowait(None)

    def abandon(self) -> None:
        """Acknowledge everything from now on: another reader's answer must not wait for this one."""
        self._closed = True
        for acknowledged in list(self._unacknowledged):
            if not acknowledged.done():
                acknowledged.set_result(None)

    async def deltas(self) -> AsyncIterator[Delta]:
        """Yield the deltas until the queue is closed."""
        while (item := await self._queue.get()) is not None:
            delta, acknowledged = item
            yield delta
            if not acknowledged.done():
                acknowledged.set_result(None)
