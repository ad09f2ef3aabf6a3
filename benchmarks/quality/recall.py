"""Measures recall on dialogues in the LoCoMo format: evidence behind the first results, and what is in the block.

    python -m benchmarks.quality.recall FOLDER

The share of a question's evidence behind the first 5, 10 and 20 results: a dialogue goes through import and a night,
and the annotators' observations stand in for a model's answers. The baseline is plain BM25 over the turns, independent
of the product. Where `consolidator[vectors]` is installed, the same with its vectors.

Gold words in the block: the share of the content words of a gold answer that the block holds, as it is rendered within
its budget. The facts are what a model once answered, if `NAME.answers.json` is beside `NAME.json`, else those of the
rules; then the same block without facts. Without a folder, the dialogues are synthetic.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

from benchmarks.harness import locomo
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.quality.dialogues import (
    KINDS,
    OBSERVED,
    Question,
    create_stand_in,
    find_recorded_facts,
    observed_facts,
    parse_questions,
)
from benchmarks.quality.synthetic_dialogues import generate_dialogue
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.indexing.indexer import index_facts
from consolidator.jobs.nightly import JobRunner
from consolidator.llm.static_vectors import embedding_name
from consolidator.memory.recall.block import estimate_tokens
from consolidator.memory.text.words import query_words, split_words
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.recall import rank_documents, recall
from consolidator.settings import Settings
from consolidator.store.calls import scopes
from consolidator.store.queries import execute, fetch_all, fetch_value
from consolidator.testing import ModelServer

RANKS = (5, 10, 20)
TARGETS = {"by words": {5: 0.60, 10: 0.68, 20: 0.78}, "with vectors": {5: 0.65, 10: 0.73, 20: 0.82}}
GOLD_WORDS_TARGET = 0.80
_WORD = re.compile(r"\w+")
_SELECT_TURNS: LiteralString = (
    "select session_id, seq, data ->> 'dia_id' as id, data ->> 'text' as text from event "
    "where event_type = 'UserMessage' order by session_id, seq"
)
RankShares = dict[int, float]  # the share of a question's evidence behind the first results, by rank


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn of a dialogue as an event."""

    session_id: str
    seq: int
    id: str  # the dialogue's name of it, such as D1:3
    text: str


@dataclass(slots=True)
class RecallScores:
    """The scores of dialogues, each with an entry for each question."""

    questions: list[Question] = field(default_factory=list)
    ranked: dict[str, list[RankShares]] = field(default_factory=dict)  # by search
    gold_words: dict[str, list[float]] = field(default_factory=dict)  # by what the block may hold
    tokens: dict[str, list[float]] = field(default_factory=dict)  # of the blocks, by what they may hold
    facts: int = 0  # that the night stored
    observations: int = 0  # that the annotators wrote

    def add(self, other: RecallScores) -> None:
        """Add the scores of another dialogue."""
        self.questions += other.questions
        self.facts += other.facts
        self.observations += other.observations
        for search, shares in other.ranked.items():
            self.ranked.setdefault(search, []).extend(shares)
        for block, words in other.gold_words.items():
            self.gold_words.setdefault(block, []).extend(words)
            self.tokens.setdefault(block, []).extend(other.tokens[block])


def rank_bm25(texts: Sequence[str], query: str, k1: float = 1.5, b: float = 0.75) -> list[int]:
    """Return the positions of texts, the best first, by plain BM25 (Robertson and Zaragoza 2009)."""
    word_counts = [Counter(_WORD.findall(text.lower())) for text in texts]
    lengths = [sum(words.values()) for words in word_counts]
    mean_length = sum(lengths) / max(len(lengths), 1) or 1
    scores = [0.0] * len(texts)
    for word in set(_WORD.findall(query.lower())):
        matching = sum(word in words for words in word_counts)
        rarity = math.log(1 + (len(texts) - matching + 0.5) / (matching + 0.5))
        for position, words in enumerate(word_counts):
            if count := words[word]:
                length_norm = 1 - b + b * lengths[position] / mean_length
                scores[position] += rarity * count * (k1 + 1) / (count + k1 * length_norm)
    return sorted(range(len(texts)), key=lambda position: (-scores[position], position))


async def score_dialogue(server: BenchmarkServer, path: Path, record: Mapping[str, Any]) -> RecallScores:
    """Import a dialogue, run nights, and ask its questions."""
    scores = RecallScores(questions=parse_questions(record))
    await _score_evidence(server, path, record, scores)
    await _score_blocks(server, path, record, scores)
    return scores


async def _score_evidence(server: BenchmarkServer, path: Path, record: Mapping[str, Any], scores: RecallScores) -> None:
    """Score the evidence behind the first results, with the annotators' observations as facts."""
    clock = FrozenClock(datetime.now(UTC))
    facts = observed_facts(record)
    async with server.open_database(clock) as database, ModelServer(create_stand_in(record, facts)) as model:
        settings = _night_settings(server, model)
        await _run_night(database, clock, settings, path)
        async with database.connection() as conn:
            turns = await fetch_all(conn, StoredTurn, _SELECT_TURNS)
            scores.facts = await fetch_value(
                conn, "select count(*) from fact where predicate = %(name)s", {"name": OBSERVED}
            )
        scores.observations = len(facts)
        searches: dict[str, Settings | None] = {"by words": None}
        if embedding_name(settings) is not None:
            searches["with vectors"] = settings
        for question in scores.questions:
            for name, search_settings in searches.items():
                shares = await _rank_evidence(database, question, turns, search_settings)
                scores.ranked.setdefault(name, []).append(shares)
            order = rank_bm25([turn.text for turn in turns], question.text)
            ids = [turns[position].id for position in order]
            plain = {rank: evidence_share(question, set(ids[:rank])) for rank in RANKS}
            scores.ranked.setdefault("plain BM25", []).append(plain)


async def _rank_evidence(
    database: Database, question: Question, turns: Sequence[StoredTurn], settings: Settings | None
) -> RankShares:
    turn_ids = {(turn.session_id, turn.seq): turn.id for turn in turns}
    documents = await rank_documents(
        database, question.text, MemoryScope(agent=locomo.NAME), limit=max(RANKS), settings=settings
    )
    evidence = [{turn_ids[event] for event in document.events if event in turn_ids} for document in documents]
    return {rank: evidence_share(question, set().union(*evidence[:rank])) for rank in RANKS}


async def _score_blocks(server: BenchmarkServer, path: Path, record: Mapping[str, Any], scores: RecallScores) -> None:
    """Score the gold words in the block, with recorded or rule facts, and without any."""
    clock = FrozenClock(datetime.now(UTC))
    recorded = find_recorded_facts(path)
    async with server.open_database(clock) as database, ModelServer(create_stand_in(record, recorded or [])) as model:
        settings = server.default_settings() if recorded is None else _night_settings(server, model)
        await _run_night(database, clock, settings, path)
        await _add_gold_words(database, "with rule facts" if recorded is None else "with a model's facts", scores)
        async with database.transaction() as conn:
            await scopes.lock_agents(conn, [locomo.NAME])
            await execute(conn, "update fact set superseded_at = recorded_at")
            await index_facts(conn, locomo.NAME)
        without = "rule facts" if recorded is None else "a model's facts"
        await _add_gold_words(database, f"without {without}", scores)


async def _add_gold_words(database: Database, name: str, scores: RecallScores) -> None:
    for question in scores.questions:
        block = (await recall(database, question.text, MemoryScope(agent=locomo.NAME))).block
        gold = set(query_words(question.answer))
        share = len(gold & set(split_words(block))) / len(gold) if gold else 0.0
        scores.gold_words.setdefault(name, []).append(share)
        scores.tokens.setdefault(name, []).append(estimate_tokens(block))


def _night_settings(server: BenchmarkServer, model: ModelServer) -> Settings:
    return server.default_settings().model_copy(update={"model": "stand-in", "openai_base_url": model.url})


async def _run_night(database: Database, clock: FrozenClock, settings: Settings, path: Path) -> None:
    await import_sources(database, [ImportSource(path, locomo)])
    clock.advance(timedelta(days=2))
    await JobRunner(database, settings).run_now("consolidation")


def evidence_share(question: Question, turns: set[str]) -> float:
    """Return the share of a question's evidence that is among the turns."""
    return len(question.evidence & turns) / len(question.evidence)


def measure(folder: Path | None) -> Report:
    """Measure all dialogues of a folder, or synthetic ones."""
    report = Report("recall quality", "share of evidence turns behind the first results, and gold words in the block")
    with tempfile.TemporaryDirectory() as temporary:
        if folder is None:
            for seed in range(3):
                Path(temporary, f"synthetic-{seed}.json").write_text(json.dumps(generate_dialogue(seed)))
            report.notes.append("synthetic dialogues: the targets are for real ones")
        paths = [path for path in (folder or Path(temporary)).rglob("*.json") if ".answers" not in path.suffixes]
        scores = asyncio.run(_score_files(sorted(paths)))
    _add_figures(report, scores, with_targets=folder is not None)
    return report


def _add_figures(report: Report, scores: RecallScores, *, with_targets: bool) -> None:
    for search, shares in scores.ranked.items():
        targets = TARGETS.get(search, {}) if with_targets else {}
        for rank in RANKS:
            values = [by_rank[rank] for by_rank in shares]
            report.add(f"{search}, first {rank}", _mean(values), at_least=targets.get(rank))
        if targets:
            for kind in KINDS.values():
                last = [by_rank[max(RANKS)] for by_rank in shares]
                report.add(f"{search}, first {max(RANKS)}, {kind}", _mean_of_kind(scores, last, kind))
    report.add("questions", len(scores.questions))
    report.add("facts", scores.facts, f"of {scores.observations:,} observations")
    for block, words in scores.gold_words.items():
        target = GOLD_WORDS_TARGET if with_targets and block == "with a model's facts" else None
        report.add(f"gold words in the block {block}", _mean(words), at_least=target)
        report.add(f"tokens of the block {block}", _mean(scores.tokens[block]))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)


def _mean_of_kind(scores: RecallScores, values: Sequence[float], kind: str) -> float:
    return _mean([value for question, value in zip(scores.questions, values, strict=True) if question.kind == kind])


async def _score_files(paths: Sequence[Path]) -> RecallScores:
    scores = RecallScores()
    async with open_server() as server:
        for path in paths:
            content = json.loads(await asyncio.to_thread(path.read_text, "utf-8"))
            if isinstance(content, dict):
                scores.add(await score_dialogue(server, path, content))
                continue
            for number, record in enumerate(content):
                with tempfile.TemporaryDirectory() as folder:
                    single = Path(folder) / f"{path.stem}-{number}.json"
                    single.write_text(json.dumps(record))
                    scores.add(await score_dialogue(server, single, record))
    return scores


def main() -> None:
    """Parse the command line and print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.recall", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="dialogues in the LoCoMo format")
    arguments = parser.parse_args()
    report = measure(arguments.folder)
    print(report.format_table())
    print(json.dumps(report.to_json()))


if __name__ == "__main__":
    main()
