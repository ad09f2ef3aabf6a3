"""Requests that are done once, however often they come: the answer is committed together with what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from consolidator.database import Connection, Database
from consolidator.database.one_transaction import open_one_transaction
from consolidator.errors import KeyReused, RequestUnderWay
from consolidator.models.api_request import ApiRequestRow
from consolidator.store.log import api_requests as store

ANSWERS_FOUND = timedelta(days=1)  # after this a key may be used for something else


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
            if not await store.try_lock(conn, request.credential, request.key):
                raise RequestUnderWay("the same request is being done: ask again for its answer")
            answered = await _find(inner, conn, request)
            if answered is not None:
                return answered
            answer = await work(inner)
            await _keep(inner, conn, request, answer)
        return answer


async def answer_again(database: Database, request: KeyedRequest | None, work: Work) -> Answer:
    """Do a request's work outside of any transaction, as it may wait for a model; keep the answer afterwards.

    A crash between the two has the work done again: it must find nothing left to do then.
    """
    if request is None:
        return await work(database)
    async with database.connection() as conn:
        answered = await _find(database, conn, request)
    if answered is not None:
        return answered
    answer = await work(database)
    async with database.connection() as conn:
        await _keep(database, conn, request, answer)
    return answer


async def _find(database: Database, conn: Connection, request: KeyedRequest) -> Answer | None:
    since = database.clock.now() - ANSWERS_FOUND
    row = await store.find(conn, request.credential, request.key, since=since)
    if row is None:
        return None
    if bytes(row.request_hash) != request.request_hash:
        raise KeyReused("this idempotency key came with another request: use a new key for each")
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
    await store.add(conn, row)
