"""Recall from many facts, in a hundred scopes and in one: the time of a question, also of several at once."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.database.partitions import Connection
from consolidator.llm import static_vectors
from consolidator.memory.recall.postings import FACT, pack_postings
from consolidator.memory.text.words import count_words
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.recall import load_documents, rank_documents, search_vectors
from consolidator.settings import Settings
from consolidator.store.queries import fetch_value
from consolidator.store.search import index, scope_sizes, vectors
from consolidator.store.search.index import Posting, UnindexedFactRow
from consolidator.store.search.scope_sizes import ScopeCounts, SearchScope

TITLE = "a question to memory, by text and by vector, facts in a hundred scopes"
FACTS = {"tiny": (1000,), "small": (10_000, 100_000), "full": (10_000, 100_000, 1_000_000)}
VECTORS = {"tiny": 1000, "small": 10_000, "full": 100_000}
SCOPES, DIMENSIONS, QUESTIONS = 100, 256, 200
VOCABULARY = 60_000  # different words, with the frequencies of Zipf's law
BATCH = 50_000
MAX_P95 = 50  # milliseconds
CLIENTS = 8  # of one process
MAX_P95_AT_ONCE = 40


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Fill databases with synthetic facts, and ask questions."""
    report = Report("recall", TITLE, scale)
    for count in FACTS[scale]:
        async with server.open_database(FrozenClock(datetime.now(UTC))) as database:
            started = time.perf_counter()
            sentences = await write_facts(database, count)
            report.add(f"{count:,} facts: written", count / (time.perf_counter() - started), "facts/s")
            _add_latencies(report, f"{count:,} facts: by text", await time_questions(database, sentences, 8))
            _add_latencies(report, f"{count:,} facts: long questions", await time_questions(database, sentences, 20))
            if count == FACTS[scale][-1]:
                _add_latencies(report, "all 100 scopes", await time_questions(database, sentences, 8, all_scopes=True))
                at_once = await time_questions(database, sentences, 8, clients=CLIENTS)
                _add_latencies(report, f"{count:,} facts: {CLIENTS} clients at once", at_once)
                report.add("index", await _measure_index(database) / 1e6, "MB")
            if count >= VECTORS[scale] and not any(figure.name.startswith("vectors") for figure in report.figures):
                await _measure_vectors(database, report, VECTORS[scale])
                await _measure_table(database, report, VECTORS[scale], sentences)
    await _measure_one_scope(server, report, FACTS[scale][-1])
    return report


async def _measure_one_scope(server: BenchmarkServer, report: Report, count: int) -> None:
    """Ask the same where all facts are in one scope, one client and several."""
    async with server.open_database(FrozenClock(datetime.now(UTC))) as database:
        sentences = await write_facts(database, count, scopes=1)
        for name, length, clients in (
            ("by text", 8, 1), ("long questions", 20, 1), (f"{CLIENTS} clients at once", 8, CLIENTS),
        ):  # fmt: skip
            seconds = await time_questions(database, sentences, length, scopes=1, clients=clients)
            _add_latencies(report, f"{count:,} facts in one scope: {name}", seconds)


def _add_latencies(report: Report, name: str, seconds: Sequence[float]) -> None:
    target = MAX_P95_AT_ONCE if name.endswith("at once") else MAX_P95
    milliseconds = sorted(duration * 1000 for duration in seconds)
    report.add(f"{name}, median", statistics.median(milliseconds), "ms")
    report.add(f"{name}, p95", milliseconds[int(len(milliseconds) * 0.95)], "ms", at_most=target)


def _generate_word(number: int) -> str:
    """Return a synthetic word; no two of them have the same stem."""
    letters = []
    number += 20
    while number:
        number, remainder = divmod(number, 19)
        letters.append("bcdfghjklmnpqrtvwxz"[remainder] + "ao"[remainder % 2])
    return "".join(letters)


class _SyntheticFact(NamedTuple):
    """A fact, and the number of its scope."""

    id: str
    scope: int
    sentence: str
    occurred_at: datetime

    @property
    def common_columns(self) -> tuple[str, ...]:
        """The columns that its candidate has, too, from agent to trust."""
        fixed = (f"agent-{self.scope}", "agent", "user", self.id, "", self.sentence)
        return (*fixed, "profile", "explicit", "user")


async def write_facts(database: Database, count: int, *, scopes: int = SCOPES) -> list[str]:
    """Write facts with their candidates and their postings in the index; return some of their sentences."""
    rng = np.random.default_rng(count)
    vocabulary = [_generate_word(number) for number in range(VOCABULARY)]
    frequency = 1 / np.arange(1, VOCABULARY + 1)
    frequency /= frequency.sum()
    sample: list[str] = []
    async with database.connection() as conn:
        for first in range(0, count, BATCH):
            drawn = rng.choice(VOCABULARY, size=(min(BATCH, count - first), 10), p=frequency)
            sentences = ["The user said that " + " ".join(vocabulary[number] for number in row) for row in drawn]
            await _write_batch(conn, first, sentences, scopes)
            sample += sentences[:200]
        await conn.execute("vacuum analyze")
    return sample


async def _write_batch(conn: Connection, first: int, sentences: Sequence[str], scopes: int) -> None:
    """Write facts of some scopes as nights leave them; ids count from `first`."""
    now = datetime.now(UTC)
    facts = [
        _SyntheticFact(f"f{first + n}", n % scopes, sentence, now - timedelta(minutes=n))
        for n, sentence in enumerate(sentences)
    ]
    async with conn.transaction(), conn.cursor() as cursor:
        async with cursor.copy(
            "copy candidate (id, agent, level, subject, predicate, value, sentence, kind, confidence, trust, "
            "session_id, seq, occurred_at, quote, extractor, reconciled, run_id) from stdin"
        ) as copy:
            for fact in facts:
                source = (f"session-{fact.scope}", first, fact.occurred_at, fact.sentence)
                await copy.write_row((fact.id, *fact.common_columns, *source, "rules:1", True, "synthetic"))
        async with cursor.copy(
            "copy fact (id, agent, level, subject, predicate, value, sentence, kind, confidence, trust, valid_from, "
            "recorded_at, sessions, evidence, run_id) from stdin"
        ) as copy:
            for fact in facts:
                times = (fact.occurred_at, fact.occurred_at)
                await copy.write_row((fact.id, *fact.common_columns, *times, 1, [fact.id], "synthetic"))
        await _index_batch(conn, facts)


async def _index_batch(conn: Connection, facts: Sequence[_SyntheticFact]) -> None:
    scopes = [SearchScope(f"agent-{number}") for number in range(SCOPES)]
    unindexed = [
        (
            UnindexedFactRow(fact.id, f"agent-{fact.scope}", None, None, "agent", fact.sentence),
            scopes[fact.scope].number,
        )
        for fact in facts
    ]
    numbers = await index.save_facts(conn, unindexed)
    new_postings: list[Posting] = []
    counts = {scope: ScopeCounts() for scope in scopes}
    for fact in facts:
        scope, words = scopes[fact.scope], count_words(fact.sentence)
        new_postings += [
            (word, scope.number, posting) for word, posting in pack_postings(FACT, numbers[fact.id], words)
        ]
        counts[scope].facts += 1
        counts[scope].fact_words += sum(words.values())
    await index.add_postings(conn, new_postings)
    await scope_sizes.add_counts(conn, counts)


async def time_questions(
    database: Database,
    sentences: Sequence[str],
    length: int,
    *,
    all_scopes: bool = False,
    scopes: int = SCOPES,
    clients: int = 1,
    settings: Settings | None = None,
) -> list[float]:
    """Ask questions of `length` words that facts have, each of one scope or of all; return the seconds of each."""
    rng = random.Random(length)
    asked: list[tuple[str, str | None]] = []
    for number in range(QUESTIONS):
        words = " ".join(rng.sample(sentences, 2)).split()
        question = " ".join(["the", "user", *rng.sample(words, length - 2)])
        asked.append((question, None if all_scopes else f"agent-{number % scopes}"))
    seconds: list[float] = []

    async def ask_in_turn(questions: Sequence[tuple[str, str | None]]) -> None:
        for question, agent in questions:
            started = time.perf_counter()
            assert await rank_documents(database, question, MemoryScope(agent=agent), settings=settings)
            seconds.append(time.perf_counter() - started)

    await asyncio.gather(*(ask_in_turn(asked[client::clients]) for client in range(clients)))
    return seconds


async def _measure_vectors(database: Database, report: Report, count: int) -> None:
    """Give facts vectors, and ask by vector: in one scope, which compares all, and in all scopes, by the index."""
    rng = np.random.default_rng(1)
    async with database.connection() as conn:
        if await vectors.ensure_pgvector(conn) is None:
            report.notes.append("this server has no pgvector")
            return
        await _write_vectors(conn, count, "synthetic", lambda texts: _random_vectors(rng, len(texts)))
        started = time.perf_counter()
        await vectors.update_index(conn, "synthetic")
        report.add(f"vectors: index of {count:,}", time.perf_counter() - started, "s")
        await conn.execute("vacuum analyze embedding")
        for name, agents in (
            ("one scope", [f"agent-{number}" for number in range(SCOPES)]),
            ("100 scopes at once", [None]),
        ):
            seconds = []
            for number in range(QUESTIONS):
                agent = agents[number % len(agents)]
                vector = rng.normal(size=DIMENSIONS).tolist()
                started = time.perf_counter()
                corpus = await scope_sizes.load_corpus(conn, MemoryScope(agent, None, None))
                channels = await search_vectors(conn, "synthetic", vector, corpus)
                assert (await load_documents(conn, channels))[1]
                seconds.append(time.perf_counter() - started)
            _add_latencies(report, f"vectors: {count:,}, {name}", seconds)


async def _measure_table(database: Database, report: Report, count: int, sentences: Sequence[str]) -> None:
    """Ask whole questions by words alone and with the table of words, its vector of the question included."""
    if static_vectors.embedding_name(Settings()) != static_vectors.NAME:
        report.notes.append("consolidator[vectors] is not installed")
        return
    async with database.connection() as conn:
        if await vectors.ensure_pgvector(conn) is None:
            return
        await _write_vectors(conn, count, static_vectors.NAME, static_vectors.embed)
        await vectors.update_index(conn, static_vectors.NAME)
        await conn.execute("vacuum analyze embedding")
    for name, model in (("words alone", static_vectors.WORDS_ONLY), ("words and the table", None)):
        settings = Settings(embed_model=model)
        _add_latencies(
            report, f"whole questions, {name}", await time_questions(database, sentences, 8, settings=settings)
        )


def _random_vectors(rng: np.random.Generator, count: int) -> list[list[float]]:
    drawn = rng.normal(size=(count, DIMENSIONS)).astype(np.float32)
    return [(vector / np.linalg.norm(vector)).tolist() for vector in drawn]


async def _write_vectors(
    conn: Connection, count: int, model: str, embed: Callable[[Sequence[str]], list[list[float]]]
) -> None:
    """Write vectors of a model for the first `count` facts of the index."""
    result = await conn.execute("select number, scope, text from indexed_fact order by number limit %s", [count])
    facts = await result.fetchall()
    await conn.execute("truncate embedding")
    async with (
        conn.cursor() as cursor,
        cursor.copy("copy embedding (kind, number, scope, model, vector) from stdin") as copy,
    ):
        for (number, scope, _), vector in zip(facts, embed([text for _, _, text in facts]), strict=True):
            await copy.write_row((FACT, number, scope, model, vector))


async def _measure_index(database: Database) -> int:
    """Return the bytes of the text index."""
    async with database.connection() as conn:
        return int(await fetch_value(conn, "select pg_total_relation_size('posting')"))
