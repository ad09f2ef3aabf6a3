"""Requests that are done once, however often they come: the answer is committed together with what it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from consolidator.database import Connection, Database
from consolidator.errors import ConsolidatorError, KeyReused, RequestUnderWay
from consolidator.llm.redaction.redact import redact
from consolidator.models.credential import UNDER_WAY, ApiRequestRow
from consolidator.process import has_ended, owner_name
from consolidator.store.sessions import credentials as store


@asynccontextmanager
async def open_one_transaction(database: Database) -> AsyncIterator[Database]:
    """Yield the same database, in which every connection is that of one transaction, committed at the end.

    A transaction in it is a savepoint. Its users take their turns: it is for one task, and never for a model call.
    """
    async with database.transaction() as conn:
        yield _OneTransaction(database, conn)


class _OneTransaction(Database):
    """The connection of an open transaction in the place of a pool."""

    def __init__(self, whole: Database, conn: Connection) -> None:
        self.dsn = whole.dsn
        self.clock = whole.clock
        self.server = whole.server
        self.pool, self.step_pool = whole.pool, whole.step_pool
        self._conn = conn

    @asynccontextmanager
    async def connection(self, *, for_step: bool = False) -> AsyncIterator[Connection]:
        """Yield the connection of the transaction."""
        yield self._conn

    @asynccontextmanager
    async def transaction(self, *, flushed: bool = True) -> AsyncIterator[Connection]:
        """Yield the connection inside a savepoint; the outer transaction decides when it is flushed."""
        async with self._conn.transaction():
            yield self._conn


log = logging.getLogger("consolidator.api")
ANSWERS_FOUND = timedelta(days=1)  # after this a key may be used for something else
LONGEST_WORK = timedelta(minutes=3)  # after this a request is not under way any more: its process was cut off


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request that came with a key."""

    credential: str
    key: str
    request_hash: bytes  # of its method, path and body


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered with."""

    status: int
    document: str  # JSON
    location: str | None = None  # of what was created
    session_id: str | None = None  # what it is about
    repeated: bool = False  # whether the request was done before


_ASK_AGAIN = "the same request is being done: ask again for its answer"
Work = Callable[[Database], Awaitable[Answer]]


async def answer_once(database: Database, request: KeyedRequest | None, work: Work) -> Answer:
    """Do a request's work in one transaction and return its answer; with a key, return what it was answered before.

    A failure is not kept: it had no effect. Raises KeyReused where the key came with another request, and
    RequestUnderWay while the same one is being done.
    """
    async with open_one_transaction(database) as inner:
        if request is None:
            return await work(inner)
        async with inner.connection() as conn:
            answered = await _find(inner, conn, request)
            if answered is not None:
                return answered
            answer = await work(inner)
            await _keep(inner, conn, request, answer)
        return answer


async def answer_again(database: Database, request: KeyedRequest | None, work: Work) -> Answer:
    """Do a request's work outside of any transaction, as it may wait for a model; keep the answer afterwards.

    Meanwhile a row says that it is under way, for every process; no lock is held. A crash has the work done again: it
    must find nothing left to do then. Raises as `answer_once` does.
    """
    if request is None:
        return await work(database)
    owner = owner_name()
    async with database.transaction() as conn:
        answered = await _find(database, conn, request)
        if answered is not None:
            return answered
        await _keep(database, conn, request, Answer(UNDER_WAY, owner))
    try:
        answer = await work(database)
        async with database.connection() as conn:
            await _keep(database, conn, request, answer)
    except BaseException:  # also where it took too long
        await asyncio.shield(_give_up(database, request, owner))
        raise
    return answer


async def _give_up(database: Database, request: KeyedRequest, owner: str) -> None:
    """Let a request that failed be done again at once; where the database is away, a while later."""
    try:
        async with database.connection() as conn:
            await store.remove_under_way(conn, request.credential, request.key, owner)
    except ConsolidatorError as error:
        log.warning("a request that failed can be sent again in %s: %s", LONGEST_WORK, redact(str(error)))


async def _find(database: Database, conn: Connection, request: KeyedRequest) -> Answer | None:
    """Return what a request was answered; None where it is to be done, by this transaction alone."""
    if not await store.try_lock_request(conn, request.credential, request.key):
        raise RequestUnderWay(_ASK_AGAIN)
    now = database.clock.now()
    row = await store.find_request(conn, request.credential, request.key, now - ANSWERS_FOUND)
    if row is None:
        return None
    is_under_way = row.status == UNDER_WAY
    if is_under_way and (has_ended(row.answer) or row.created_at < now - LONGEST_WORK):
        return None
    if bytes(row.request_hash) != request.request_hash:
        raise KeyReused("this idempotency key came with another request: use a new key for each")
    if is_under_way:
        raise RequestUnderWay(_ASK_AGAIN)
    return Answer(row.status, row.answer, row.location, row.session_id, repeated=True)


async def _keep(database: Database, conn: Connection, request: KeyedRequest, answer: Answer) -> None:
    row = ApiRequestRow(
        credential=request.credential,
        key=request.key,
        request_hash=request.request_hash,
        status=answer.status,
        answer=answer.document,
        location=answer.location,
        session_id=answer.session_id,
        created_at=database.clock.now(),
    )
    await store.add_request(conn, row)
