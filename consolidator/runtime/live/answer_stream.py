"""The answers to a session's messages as they come, from whichever process drives the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress

from consolidator.errors import SessionBusy, StaleEpoch
from consolidator.models.session import SessionRow
from consolidator.runtime.live.hub import FollowHub
from consolidator.runtime.live.items import Cursor, FollowedItem
from consolidator.runtime.session.lease import Lease
from consolidator.runtime.turn import wake as waking
from consolidator.runtime.turn.harness import Delta, Harness, StepResult
from consolidator.store.turns import generation as store


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


_POLL_SECONDS = 0.1  # between two attempts to drive a session that is not settled
_FOLLOW_SECONDS = 0.5  # between two attempts to drive a session that another process drives


class AnswerStream:
    """Drives a session until a message is answered, or with None until nothing is open, and yields what comes of it.

    A `lease` that the message acquired is used. `result` tells afterwards why it ended; `load_session` returns the
    session's row as it is, and `open_hub` what follows sessions that other processes drive.
    """

    def __init__(
        self,
        harness: Harness,
        session_id: str,
        message_seq: int | None,
        *,
        lease: Lease | None = None,
        load_session: Callable[[], Awaitable[SessionRow]],
        open_hub: Callable[[], Awaitable[FollowHub]],
    ) -> None:
        self.result: StepResult | None = None
        self._harness = harness
        self._session_id = session_id
        self._message_seq = message_seq
        self._lease = lease
        self._load_session = load_session
        self._open_hub = open_hub
        self._cursor = Cursor(message_seq or 0)  # of what another process answers

    async def deltas(self) -> AsyncIterator[Delta]:
        """Yield what comes."""
        queue, listeners = DeltaQueue(), self._harness.listeners
        driver = asyncio.create_task(self._drive(queue))
        driver.add_done_callback(lambda _: queue.close())
        try:
            async for delta in queue.deltas():
                yield delta
            self.result = await driver
        finally:
            driver.cancel()
            await asyncio.gather(driver, return_exceptions=True)
            if self._lease is not None:  # the driver did not begin
                await asyncio.shield(self._lease.release())
            queue.abandon()
            if listeners.get(self._session_id) is queue:
                del listeners[self._session_id]

    async def _drive(self, queue: DeltaQueue) -> StepResult:
        """Wake the session until a message is answered, by this process or by the one that drives the session."""
        message_seq, listeners = self._message_seq, self._harness.listeners
        heard_all = True  # whether our queue was the session's only listener in every wake
        while True:
            heard_all = listeners.setdefault(self._session_id, queue) is queue and heard_all
            try:
                lease, self._lease = self._lease, None
                result = await waking.wake_session(self._harness, self._session_id, lease=lease)
            except (SessionBusy, StaleEpoch):
                result = None

            if result is not None and result.is_settled and result.finish_reason != "idle" and heard_all:
                return result

            session = await self._load_session()
            if not session.pending or (message_seq is not None and session.settled_to >= message_seq):
                break
            if session.status != "open" or (result is not None and result.finish_reason not in ("stop", "idle")):
                break

            if result is None and message_seq is not None:
                await self._put_elsewhere_answers(queue, message_seq)
            else:
                await asyncio.sleep(_POLL_SECONDS)

        has_driven = result is not None and result.finish_reason != "idle"
        if message_seq is not None and not (has_driven and heard_all):
            await self._put_missed_answers(session, message_seq, queue)
        if result is not None and has_driven:
            return result
        return StepResult(session.head, "approval" if session.attention and message_seq is None else "idle")

    async def _put_elsewhere_answers(self, queue: DeltaQueue, message_seq: int) -> None:
        """Queue for a while what another process answers, piece by piece; return earlier if the message is settled."""
        following = (await self._open_hub()).follow(self._session_id, self._cursor)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FOLLOW_SECONDS), aclosing(following) as items:
                async for item in items:
                    if item.marks is not None:
                        if not item.marks.pending or item.marks.settled_to >= message_seq:
                            return
                        continue
                    delta = _to_delta(item)
                    if delta is not None and not queue.has(delta):
                        queue.put(delta)
                    self._cursor = item.cursor

    async def _put_missed_answers(self, session: SessionRow, message_seq: int, queue: DeltaQueue) -> None:
        """Queue the undelivered deltas after a message."""
        async with self._harness.database.connection() as conn:
            answers = await store.list_answers(
                conn, self._session_id, "", after=message_seq, bounds=session.ingest_bounds
            )
            for answer in answers:
                if answer.void_id is not None and answer.void_id in queue.last_seqs:
                    queue.put(Delta(self._session_id, answer.void_id, 0, "", "void"))
                if answer.message_id is None:
                    continue
                last_seq = queue.last_seqs.get(answer.message_id, 0)
                for chunk in await store.read_chunks(conn, self._session_id, answer.message_id, after=last_seq):
                    queue.put(Delta(self._session_id, chunk.message_id, chunk.seq, chunk.delta))


def _to_delta(item: FollowedItem) -> Delta | None:
    """Return an item of another process's answer as a delta; None for one that is not shown."""
    if item.piece is not None:
        return Delta(item.session_id, item.piece.message_id, item.piece.seq, item.piece.delta)
    if item.kind == "void" and item.message_id is not None:
        return Delta(item.session_id, item.message_id, 0, "", "void")
    return None
