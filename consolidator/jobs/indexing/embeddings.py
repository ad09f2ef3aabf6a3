"""Embeds documents and queries for recall, where a model is configured or a table of words is installed.

A document without a vector of the configured model is still to be embedded: an interrupted job resumes from there, and
another model embeds every document again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from ulid import ULID

from consolidator.database import Database
from consolidator.errors import ModelError, ModelRefused, ModelTruncated
from consolidator.llm import static_vectors
from consolidator.llm.client import create_client
from consolidator.settings import Settings
from consolidator.store.nights import runs
from consolidator.store.search import vectors
from consolidator.store.search.vectors import UnembeddedRow

if TYPE_CHECKING:
    from consolidator.jobs.model.calls import ModelCalls

log = logging.getLogger("consolidator.jobs")
BATCH_SIZE = 64  # texts of one request
LOOKUP_SIZE = 32 * BATCH_SIZE  # documents loaded at once
MAX_TEXT_LENGTH = 2000  # characters of a text that a model reads
PROBE_TEXT = "hello"  # a text that every embedding server accepts
QUERY_TIMEOUT = 5  # seconds that a query waits for its vector
_warned: set[str] = set()


async def embed_missing(
    database: Database, settings: Settings, stop: asyncio.Event | None = None, *, run_id: str | None = None
) -> str | None:
    """Embed the documents that have no vector; return a line for the run's report, None where nothing makes vectors.

    The calls count for the run and stop at its caps.
    """
    model = static_vectors.embedding_name(settings)
    if model is None:
        return None
    async with database.connection() as conn:
        if await vectors.ensure_pgvector(conn) is None:
            message = "this server has no pgvector: recall searches by words alone"
            if message not in _warned:
                _warned.add(message)
                log.warning("%s", message)
            return message
    async with database.connection() as locked:  # held idle, so that two replicas do not pay for the same vectors
        if not await runs.try_lock_job(locked, "embed"):
            return "left to another replica, which is making them"
        from consolidator.jobs.model.calls import ModelCalls

        try:
            calls = ModelCalls(database, settings, run_id or str(ULID()), stop=stop)
            return await _embed_documents(calls, model, stop)
        finally:
            await runs.unlock_job(locked, "embed")


async def _embed_documents(calls: ModelCalls, model: str, stop: asyncio.Event | None) -> str:
    done = 0
    try:
        async with aclosing(_embed_batches(calls, model, stop)) as batches:
            async for count in batches:
                done += count
    except ModelError as error:
        return f"{done} made, then: {error}"
    finally:
        await calls.close()
    async with calls.database.connection() as conn:
        await vectors.update_index(conn, model)
    return f"{done} made"


async def _embed_batches(calls: ModelCalls, model: str, stop: asyncio.Event | None) -> AsyncGenerator[int, None]:
    """Embed documents in batches and yield the vectors of each; no connection is held while the model is asked."""
    last: UnembeddedRow | None = None
    while True:
        async with calls.database.connection() as conn:
            documents = await vectors.load_unembedded(conn, model, LOOKUP_SIZE, last)
        for start in range(0, len(documents), BATCH_SIZE):
            if stop and stop.is_set():
                return
            batch = documents[start : start + BATCH_SIZE]
            embedded = await _embed_texts(calls, model, [document.text[:MAX_TEXT_LENGTH] for document in batch])
            async with calls.database.transaction(flushed=False) as conn:
                await vectors.save_vectors(conn, model, batch, embedded)
            yield sum(map(bool, embedded))
        if not documents:
            return
        last = documents[-1]


async def _embed_texts(calls: ModelCalls, model: str, texts: list[str]) -> list[list[float]]:
    """Return a vector for each text; an empty one for a text that the server refuses even alone.

    The empty vector is stored and near to nothing, so that no later night asks again.
    """
    if model == static_vectors.NAME:
        return await asyncio.to_thread(static_vectors.embed, texts)
    try:
        return await calls.embed(model, texts)
    except (ModelRefused, ModelTruncated) as error:
        if len(texts) == 1:
            await calls.embed(model, [PROBE_TEXT])  # raises where the server refuses every text
            log.warning("a text of %d characters stays without a vector: %s", len(texts[0]), error)
            return [[]]
        middle = len(texts) // 2
        return await _embed_texts(calls, model, texts[:middle]) + await _embed_texts(calls, model, texts[middle:])


async def embed_query(settings: Settings, model: str, query: str) -> list[float] | None:
    """Return a query's vector by what `embedding_name` names; None where the model does not answer in time."""
    client = create_client(settings)
    try:
        async with asyncio.timeout(QUERY_TIMEOUT):
            return (await client.embed(model, [query[:MAX_TEXT_LENGTH]])).vectors[0]
    except (ModelError, TimeoutError) as error:
        log.warning("recall by words alone: %s", error or f"no vector within {QUERY_TIMEOUT} s")
        return None
    finally:
        await client.close()
