"""What streams of a followed session need: signs of life, and what a surface has shown of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress

from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable, UsageError
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.live.items import Cursor, begun_message
from consolidator.runtime.session.access import get_session
from consolidator.store.turns import following as store
from consolidator.store.turns.following import SessionMarks as SessionMarks

MAX_SURFACE_LENGTH = 200
KEEP_ALIVE_SECONDS = 15.0  # between two signs of life of a stream; then its credential is looked at again, too


async def keep_alive(
    frames: AsyncGenerator[bytes, None],
    stopping: asyncio.Event,
    is_authorized: Callable[[], Awaitable[bool]],
    end: Callable[[str], bytes | None],
) -> AsyncIterator[bytes]:
    """Yield the frames of a stream, and a comment where none comes for a while.

    Where the service is `stopping`, the credential `unauthorized` or the database `unavailable`, the stream ends with
    what `end` returns for that reason: the client goes on where it was.
    """
    stopped = asyncio.create_task(stopping.wait())
    coming: asyncio.Future[bytes] | None = None
    reason = ""
    try:
        while not reason:
            coming = coming or asyncio.ensure_future(anext(frames))
            done, _ = await asyncio.wait(
                (coming, stopped), timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if coming in done:
                frame, coming = coming, None
                try:
                    yield frame.result()
                except StopAsyncIteration:
                    return
            elif stopped in done:
                reason = "stopping"
            elif await is_authorized():
                yield b": still here\n\n"
            else:
                reason = "unauthorized"
        if last := end(reason):
            yield last
    except DatabaseUnavailable:
        if last := end("unavailable"):
            yield last
    finally:
        stopped.cancel()
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration, DatabaseUnavailable):
                await coming
        await frames.aclose()


async def acknowledge(
    database: Database, session_id: str, surface: str, cursor: Cursor | str, *, viewer: Viewer = OWNER
) -> int:
    """Record that a surface (a client's name) has shown a session up to a cursor; return how many messages that names.

    They are deliveries, as the session's own channel records them: what was shown where can be replayed. Repeating it
    records nothing. Raises Forbidden, NotFound, and UsageError for a cursor beyond the log or a blank name.
    """
    upto = Cursor.parse(cursor) if isinstance(cursor, str) else cursor
    if not surface.strip() or not surface.isprintable() or len(surface) > MAX_SURFACE_LENGTH:
        raise UsageError(f"a surface has a name of at most {MAX_SURFACE_LENGTH} characters that can be printed")
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "write")
        if upto.seq > session.head:
            raise UsageError(f"cursor {upto} is beyond the end of session {session_id}, which is {session.head}")
        last = await store.find_last_mark(conn, session.id, upto.seq, session.ingest_bounds)
        return await store.acknowledge(
            conn,
            session.id,
            surface,
            upto=upto.seq,
            open_message=None if last is None else begun_message(last),
            piece=upto.piece,
            low=session.created_at - store.CLOCK_SKEW,
            now=database.clock.now(),
        )
