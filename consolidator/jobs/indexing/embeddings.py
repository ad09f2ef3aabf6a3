"""Vectors for recall, where a model for them is set: filled in the background, batch by batch, and asked for a query.

What has none yet is what is left to do: whoever is stopped goes on from there, and another model's are made anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from ulid import ULID

from consolidator.database import Database
from consolidator.errors import ModelError, ModelRefused, ModelTruncated
from consolidator.jobs.model.calls import Calls
from consolidator.llm.client import client_of
from consolidator.settings import Settings
from consolidator.store.nights import runs
from consolidator.store.search import vectors

log = logging.getLogger("consolidator.jobs")
BATCH = 64  # texts of one request
LOT = 32 * BATCH  # documents looked for at once: to find those without a vector costs a look at all that there are
LONGEST = 2000  # characters of a text that a model reads
PLAIN = "hello"  # what no server refuses that makes vectors
PATIENCE = 5  # seconds that a question waits for its vector
_told: set[str] = set()


async def embed_missing(
    database: Database,
    settings: Settings,
    stop: asyncio.Event | None = None,
    *,
    run: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> str | None:
    """Make the vectors that are missing; return what came of it in words, None where no model for them is set.

    The calls count in a `run` and stop at its caps; `progress` is told how many have been made.
    """
    if settings.embed_model is None:
        return None
    async with database.connection() as conn:
        if await vectors.prepare(conn) is None:
            return _once("this server has no pgvector: recall searches by words alone")
    async with database.connection() as alone:  # held, idle: two replicas of a night would both pay for the same
        if not await runs.enter(alone, "embed"):
            return "left to another replica, which is making them"
        try:
            return await _embedded(database, settings, settings.embed_model, stop, run=run, progress=progress)
        finally:
            await runs.leave(alone, "embed")


async def _embedded(
    database: Database,
    settings: Settings,
    model: str,
    stop: asyncio.Event | None,
    *,
    run: str | None,
    progress: Callable[[int], None] | None,
) -> str:
    calls, done = Calls(database, settings, run or str(ULID())), 0
    try:
        async with aclosing(_batches(calls, model, stop)) as made:
            async for many in made:
                done += many
                if progress is not None:
                    progress(done)
    except ModelError as error:
        return f"{done} made, then: {error}"
    finally:
        await calls.close()
    async with database.connection() as conn:
        await vectors.index_many(conn, model)
    return f"{done} made"


async def _batches(calls: Calls, model: str, stop: asyncio.Event | None) -> AsyncGenerator[int, None]:
    """Make the vectors that are missing, batch by batch; no connection is held while the model is asked."""
    while True:
        async with calls.database.connection() as conn:
            waiting = await vectors.waiting(conn, model, LOT)
        for start in range(0, len(waiting), BATCH):
            if stop and stop.is_set():
                return
            batch = waiting[start : start + BATCH]
            found = await _made(calls, model, [one["text"][:LONGEST] for one in batch])
            async with calls.database.transaction(flushed=False) as conn:
                await vectors.save(conn, model, batch, found)
            yield sum(map(bool, found))
        if not waiting:
            return


async def _made(calls: Calls, model: str, texts: list[str]) -> list[list[float]]:
    """Return a vector for each text; an empty one, which is near to nothing, for what the server refuses by itself.

    It is kept, so that no later night asks again.
    """
    try:
        return await calls.embed(model, texts)
    except (ModelRefused, ModelTruncated) as error:
        if len(texts) == 1:
            await calls.embed(model, [PLAIN])  # raises where every text is refused: then this one is not at fault
            log.warning("a text of %d characters stays without a vector: %s", len(texts[0]), error)
            return [[]]
        middle = len(texts) // 2
        return await _made(calls, model, texts[:middle]) + await _made(calls, model, texts[middle:])


async def vector_of(settings: Settings | None, query: str) -> list[float] | None:
    """Return a query's vector; None where no model is set, or it does not answer: words alone will do."""
    if settings is None or settings.embed_model is None:
        return None
    client = client_of(settings)
    try:
        async with asyncio.timeout(PATIENCE):
            return (await client.embed(settings.embed_model, [query[:LONGEST]])).vectors[0]
    except (ModelError, TimeoutError) as error:
        log.warning("recall by words alone: %s", error or f"no vector within {PATIENCE} s")
        return None
    finally:
        await client.close()


def _once(told: str) -> str:
    if told not in _told:
        _told.add(told)
        log.warning("%s", told)
    return told
