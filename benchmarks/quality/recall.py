"""Measures recall on dialogues in the LoCoMo format: the share of evidence behind the first 5, 10 and 20 results.

    python -m benchmarks.quality.recall FOLDER

A dialogue goes through import and a night; the annotators' observations stand in for a model's answers. The baseline
is plain BM25 over the turns, independent of the product. Without a folder, the dialogues are synthetic.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.quality.synthetic_dialogues import generate_dialogue
from consolidator.clock import FrozenClock
from consolidator.formats import locomo
from consolidator.jobs.importing.importer import import_sources
from consolidator.jobs.importing.source_files import ImportSource
from consolidator.jobs.nightly import JobRunner
from consolidator.service.memory.recall import rank_documents
from consolidator.store.queries import fetch_all, fetch_value
from consolidator.testing import ModelServer, ScriptedReply

RANKS = (5, 10, 20)
TARGETS = {5: 0.57, 10: 0.65, 20: 0.75}
_TURN = re.compile(r"D(\d+):(\d+)")
_WORD = re.compile(r"\w+")
_PROMPT_LINE = re.compile(r'^(e\d+) \[[^\]]*\] \w+(?: "(?:[^"\\]|\\.)*")?: ("(?:[^"\\]|\\.)*")$', re.MULTILINE)
_SELECT_TURNS: LiteralString = (
    "select session_id, seq, data ->> 'dia_id' as id, data ->> 'text' as text from event "
    "where event_type = 'UserMessage' order by session_id, seq"
)
OBSERVED = "observed"
RankShares = dict[int, float]  # the share of a question's evidence behind the first results, by rank


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the turns that answer it."""

    text: str
    evidence: frozenset[str]
    category: int


class Observation(NamedTuple):
    """A fact that annotators observed about a speaker, and the turns that prove it."""

    speaker: str
    fact: str
    turns: list[str]


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn of a dialogue as an event."""

    session_id: str
    seq: int
    id: str  # the dialogue's name of it, such as D1:3
    text: str


@dataclass(slots=True)
class RecallScores:
    """The scores of dialogues."""

    recall: list[RankShares] = field(default_factory=list)  # by question
    bm25: list[RankShares] = field(default_factory=list)
    facts: int = 0  # that the night stored
    observations: int = 0  # that the annotators wrote

    def add(self, other: RecallScores) -> None:
        """Add the scores of another dialogue."""
        self.recall += other.recall
        self.bm25 += other.bm25
        self.facts += other.facts
        self.observations += other.observations


def parse_questions(record: Mapping[str, Any]) -> list[Question]:
    """Return a dialogue's questions, except those without evidence and those about what was never said (category 5)."""
    questions = []
    for entry in record.get("qa", []):
        evidence = frozenset(parse_turns(entry.get("evidence")))
        if evidence and entry.get("category") != 5:
            questions.append(Question(str(entry["question"]), evidence, entry.get("category", 0)))
    return questions


def parse_turns(value: Any) -> list[str]:
    """Return the turns that a text or a list names, in canonical form."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    return [f"D{int(session)}:{int(turn)}" for session, turn in _TURN.findall(text)]


def parse_observations(record: Mapping[str, Any]) -> list[Observation]:
    """Return a dialogue's observations; they stand at the top level or below `observation`."""
    nested = record.get("observation")
    observations = []
    for name, by_speaker in {**record, **(nested if isinstance(nested, dict) else {})}.items():
        if re.fullmatch(r"session_\d+_observation", name) and isinstance(by_speaker, dict):
            for speaker, entries in by_speaker.items():
                observations += [
                    Observation(speaker, str(entry[0]), parse_turns(entry[1])) for entry in entries if len(entry) > 1
                ]
    return observations


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
    """Import a dialogue, run a night, and ask its questions."""
    clock = FrozenClock(datetime.now(UTC))
    async with server.open_database(clock) as database, ModelServer(answers=create_observer(record)) as model:
        await import_sources(database, [ImportSource(path, locomo)])
        clock.advance(timedelta(days=2))
        settings = server.default_settings().model_copy(update={"model": "observations", "openai_base_url": model.url})
        await JobRunner(database, settings).run_now("consolidation")
        async with database.connection() as conn:
            turns = await fetch_all(conn, StoredTurn, _SELECT_TURNS)
            facts = await fetch_value(conn, "select count(*) from fact where predicate = %(name)s", {"name": OBSERVED})
        turn_ids = {(turn.session_id, turn.seq): turn.id for turn in turns}
        scores = RecallScores(facts=facts, observations=len(parse_observations(record)))
        for question in parse_questions(record):
            documents = await rank_documents(database, question.text, agent=locomo.NAME, limit=max(RANKS))
            evidence = [{turn_ids[event] for event in document.events if event in turn_ids} for document in documents]
            scores.recall.append({rank: evidence_share(question, set().union(*evidence[:rank])) for rank in RANKS})
            order = rank_bm25([turn.text for turn in turns], question.text)
            ids = [turns[position].id for position in order]
            scores.bm25.append({rank: evidence_share(question, set(ids[:rank])) for rank in RANKS})
    return scores


def create_observer(record: Mapping[str, Any]) -> Callable[[dict[str, Any]], ScriptedReply]:
    """Return the answers of a model that finds what the annotators observed in the lines of its prompt."""
    texts = {turn["dia_id"]: turn["text"] for _, turns, _ in locomo.parse_sessions(dict(record)) for turn in turns}
    observations = parse_observations(record)

    def answer(request: dict[str, Any]) -> ScriptedReply:
        lines = {json.loads(text): alias for alias, text in _PROMPT_LINE.findall(request["messages"][1]["content"])}
        if request.get("response_format", {}).get("json_schema", {}).get("name", "facts") != "facts":
            return ScriptedReply.json({"operations": []})
        facts = [_extracted_fact(observation, texts, lines) for observation in observations]
        return ScriptedReply.json({"facts": [fact for fact in facts if fact is not None]})

    return answer


def _extracted_fact(
    observation: Observation, texts: Mapping[str, str], lines: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return an observation as an extracted fact; None if no turn that proves it is in the prompt."""
    quotes = [texts[turn] for turn in observation.turns if turn in texts]
    evidence = [{"event": lines[text], "quote": text[:200]} for text in quotes if text in lines]
    if not evidence:
        return None
    return {
        "subject": observation.speaker,
        "predicate": OBSERVED,
        "value": observation.fact,
        "sentence": observation.fact,
        "kind": "profile",
        "single_valued": False,
        "valid_from": None,
        "valid_to": None,
        "evidence": evidence,
    }


def evidence_share(question: Question, turns: set[str]) -> float:
    """Return the share of a question's evidence that is among the turns."""
    return len(question.evidence & turns) / len(question.evidence)


def measure(folder: Path | None) -> Report:
    """Measure all dialogues of a folder, or synthetic ones."""
    report = Report("recall quality", "share of evidence turns behind the first results")
    with tempfile.TemporaryDirectory() as temporary:
        if folder is None:
            for seed in range(3):
                Path(temporary, f"synthetic-{seed}.json").write_text(json.dumps(generate_dialogue(seed)))
            report.notes.append("synthetic dialogues: the targets are for real ones")
        scores = asyncio.run(_score_files(sorted((folder or Path(temporary)).rglob("*.json"))))
    for name, shares in (("recall", scores.recall), ("BM25 over turns", scores.bm25)):
        for rank in RANKS:
            mean = sum(by_rank[rank] for by_rank in shares) / max(len(shares), 1)
            target = TARGETS[rank] if name == "recall" and folder is not None else None
            report.add(f"{name}, first {rank}", mean, at_least=target)
    report.add("questions", len(scores.recall))
    report.add("facts", scores.facts, f"of {scores.observations:,} observations")
    return report


async def _score_files(paths: Sequence[Path]) -> RecallScores:
    scores = RecallScores()
    async with open_server() as server:
        for path in paths:
            content = json.loads(await asyncio.to_thread(path.read_text, "utf-8"))
            for number, record in enumerate(content if isinstance(content, list) else [content]):
                with tempfile.TemporaryDirectory() as folder:
                    single = Path(folder) / f"{path.stem}-{number}.json"
                    single.write_text(json.dumps(record))
                    scores.add(await score_dialogue(server, single, record))
    return scores


def main() -> None:
    """Parse the command line and print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.recall", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="dialogues in the LoCoMo format")
    report = measure(parser.parse_args().folder)
    print(report.format_table())
    print(json.dumps(report.to_json()))


if __name__ == "__main__":
    main()
