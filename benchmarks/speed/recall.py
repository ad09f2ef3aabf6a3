"""Recall from many facts in a hundred scopes: how long a question takes, and how that grows."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from benchmarks.harness.report import Report
from benchmarks.harness.server import Server
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.database.partitions import Connection
from consolidator.memory.recall.postings import FACT, pack_postings
from consolidator.memory.text.words import count_words
from consolidator.service.recall import load_documents, rank_documents, search_vectors
from consolidator.store.search import index, postings, scope_sizes, vectors
from consolidator.store.search.index import UnindexedFactRow
from consolidator.store.search.postings import Posting
from consolidator.store.search.scope_sizes import ScopeCounts, SearchScope

TITLE = "a question to memory, by text and by vector, facts in a hundred scopes"
FACTS = {"tiny": (1000,), "small": (10_000, 100_000), "full": (10_000, 100_000, 1_000_000)}
VECTORS = {"tiny": 1000, "small": 10_000, "full": 100_000}
SCOPES, SIZE, QUESTIONS = 100, 256, 200
WORDS = 60_000  # different words, as frequent as Zipf's law has it
BATCH = 50_000
TARGET = 50  # milliseconds, 95 of 100 questions


async def measure(server: Server, scale: str) -> Report:
    """Fill databases with made-up facts, and ask."""
    report = Report("recall", TITLE, scale)
    for count in FACTS[scale]:
        async with server.database(FrozenClock(datetime.now(UTC))) as database:
            began = time.perf_counter()
            made = await filled(database, count)
            report.add(f"{count:,} facts: written", count / (time.perf_counter() - began), "facts/s")
            _told(report, f"{count:,} facts: by text", await asked(database, made, 8))
            _told(report, f"{count:,} facts: long questions", await asked(database, made, 20))
            if count == FACTS[scale][-1]:
                _told(report, "100 scopes at once", await asked(database, made, 8, everywhere=True))
                report.add("index", await _size(database) / 1e6, "MB")
            if count >= VECTORS[scale] and not any(one.name.startswith("vectors") for one in report.figures):
                await _by_vectors(database, report, VECTORS[scale])
    return report


def _told(report: Report, name: str, seconds: Sequence[float]) -> None:
    milliseconds = sorted(one * 1000 for one in seconds)
    report.add(f"{name}, median", statistics.median(milliseconds), "ms")
    report.add(f"{name}, p95", milliseconds[int(len(milliseconds) * 0.95)], "ms", at_most=TARGET)


def _word(number: int) -> str:
    """Return a made-up word; none is taken for another by its ending."""
    letters = []
    number += 20
    while number:
        number, rest = divmod(number, 19)
        letters.append("bcdfghjklmnpqrtvwxz"[rest] + "ao"[rest % 2])
    return "".join(letters)


async def filled(database: Database, count: int) -> list[str]:
    """Write so many facts with their candidates and their place in the index; return some sentences."""
    chance = np.random.default_rng(count)
    vocabulary = [_word(number) for number in range(WORDS)]
    frequency = 1 / np.arange(1, WORDS + 1)
    frequency /= frequency.sum()
    sentences: list[str] = []
    async with database.connection() as conn:
        for first in range(0, count, BATCH):
            drawn = chance.choice(WORDS, size=(min(BATCH, count - first), 10), p=frequency)
            told = ["The user said that " + " ".join(vocabulary[number] for number in one) for one in drawn]
            await _written(conn, first, told)
            sentences += told[:200]
        await conn.execute("vacuum analyze")
    return sentences


async def _written(conn: Connection, first: int, told: Sequence[str]) -> None:
    """Write facts as nights leave them."""
    now = datetime.now(UTC)
    scopes = [SearchScope(f"agent-{number}") for number in range(SCOPES)]
    rows = [(f"f{first + n}", n % SCOPES, sentence, now - timedelta(minutes=n)) for n, sentence in enumerate(told)]
    async with conn.transaction(), conn.cursor() as cursor:
        async with cursor.copy(
            "copy candidate (id, agent, level, subject, predicate, value, sentence, kind, confidence, trust, "
            "session_id, seq, occurred_at, quote, extractor, reconciled, run_id) from stdin"
        ) as copy:
            for name, scope, said, at in rows:
                common = (f"agent-{scope}", "agent", "user", name, "", said, "profile", "explicit", "user")
                await copy.write_row((name, *common, f"session-{scope}", first, at, said, "rules:1", True, "made"))
        async with cursor.copy(
            "copy fact (id, agent, level, subject, predicate, value, sentence, kind, confidence, trust, valid_from, "
            "recorded_at, sessions, evidence, run_id) from stdin"
        ) as copy:
            for name, scope, said, at in rows:
                common = (f"agent-{scope}", "agent", "user", name, "", said, "profile", "explicit", "user")
                await copy.write_row((name, *common, at, at, 1, [name], "made"))
        unindexed = [
            (UnindexedFactRow(name, f"agent-{scope}", None, None, "agent", said), scopes[scope].number)
            for name, scope, said, _ in rows
        ]
        numbers = await index.save_facts(conn, unindexed)
        fact_postings: list[Posting] = []
        counts = {scope: ScopeCounts() for scope in scopes}
        for name, scope, said, _ in rows:
            words = count_words(said)
            fact_postings += [
                (word, scopes[scope].number, ref) for word, ref in pack_postings(FACT, numbers[name], words)
            ]
            counts[scopes[scope]].facts += 1
            counts[scopes[scope]].fact_words += sum(words.values())
        await postings.add_postings(conn, fact_postings)
        await scope_sizes.add_counts(conn, counts)


async def asked(database: Database, made: Sequence[str], length: int, *, everywhere: bool = False) -> list[float]:
    """Ask questions of words that facts have, each of one scope; return the seconds that each took."""
    chance = random.Random(length)
    seconds = []
    for number in range(QUESTIONS):
        words = " ".join(chance.sample(made, 2)).split()
        question = " ".join(["the", "user", *chance.sample(words, length - 2)])
        agent = None if everywhere else f"agent-{number % SCOPES}"
        began = time.perf_counter()
        assert await rank_documents(database, question, agent=agent)
        seconds.append(time.perf_counter() - began)
    return seconds


async def _by_vectors(database: Database, report: Report, count: int) -> None:
    """Give some facts vectors, and ask by vector: in one scope, where all are compared, and in all by the index."""
    chance = np.random.default_rng(1)
    async with database.connection() as conn:
        if await vectors.ensure_pgvector(conn) is None:
            report.notes.append("this server has no pgvector")
            return
        found = await (
            await conn.execute("select number, scope from indexed_fact order by number limit %s", [count])
        ).fetchall()
        async with (
            conn.cursor() as cursor,
            cursor.copy("copy embedding (kind, number, scope, model, vector) from stdin") as copy,
        ):
            for number, scope in found:
                vector = chance.normal(size=SIZE).astype(np.float32)
                await copy.write_row((FACT, number, scope, "made", (vector / np.linalg.norm(vector)).tolist()))
        began = time.perf_counter()
        await vectors.update_index(conn, "made")
        report.add(f"vectors: index of {count:,}", time.perf_counter() - began, "s")
        await conn.execute("vacuum analyze embedding")
        for name, agents in (("one scope", range(SCOPES)), ("100 scopes at once", [None])):
            seconds = []
            for number in range(QUESTIONS):
                agent = agents[number % len(agents)]
                vector = chance.normal(size=SIZE).tolist()
                began = time.perf_counter()
                sums = await scope_sizes.load_corpus(
                    conn, agent=None if agent is None else f"agent-{agent}", project=None, peer=None
                )
                channels = await search_vectors(conn, "made", vector, sums)
                assert (await load_documents(conn, channels))[1]
                seconds.append(time.perf_counter() - began)
            _told(report, f"vectors: {count:,}, {name}", seconds)


async def _size(database: Database) -> int:
    async with database.connection() as conn:
        cursor = await conn.execute("select pg_total_relation_size('posting')")
        (found,) = await cursor.fetchall()
    return int(found[0])
