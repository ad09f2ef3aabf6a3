"""Measures recall on dialogues in the LoCoMo format: the share of evidence behind the first 5, 10 and 20 results.

    python -m benchmarks.quality.recall FOLDER

A dialogue goes through import and a night; the annotators' observations stand in for a model's answers. Beside it:
plain BM25 over the turns, which knows nothing of the product. Without a folder, dialogues that are made up.
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
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString

from benchmarks.quality.dialogues import dialogue
from benchmarks.report import Report
from benchmarks.server import Server, open_server
from consolidator.clock import FrozenClock
from consolidator.formats import locomo
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.nightly import Nights
from consolidator.service.recall import ranked
from consolidator.store.queries import rows
from consolidator.testing import ModelServer, ScriptedReply

FIRST = (5, 10, 20)
REACH = {5: 0.57, 10: 0.65, 20: 0.75}
_TURN = re.compile(r"D(\d+):(\d+)")
_WORD = re.compile(r"\w+")
_LINE = re.compile(r'^(e\d+) \[[^\]]*\] \w+(?: "(?:[^"\\]|\\.)*")?: ("(?:[^"\\]|\\.)*")$', re.MULTILINE)
_TOLD: LiteralString = (
    "select session_id, seq, data ->> 'dia_id' as id, data ->> 'text' as text from event "
    "where event_type = 'UserMessage' order by session_id, seq"
)
OBSERVED = "observed"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the turns that answer it."""

    text: str
    evidence: frozenset[str]
    category: int


def questions(record: Mapping[str, Any]) -> list[Question]:
    """Return a dialogue's questions, but those without evidence and those that ask for what was never said."""
    found = []
    for told in record.get("qa", []):
        evidence = frozenset(turns(told.get("evidence")))
        if evidence and told.get("category") != 5:
            found.append(Question(str(told["question"]), evidence, told.get("category", 0)))
    return found


def turns(told: Any) -> list[str]:
    """Return the turns that a text or a list names, written alike."""
    text = " ".join(map(str, told)) if isinstance(told, list) else str(told or "")
    return [f"D{int(session)}:{int(turn)}" for session, turn in _TURN.findall(text)]


def observations(record: Mapping[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Return (speaker, fact, turns) of a dialogue's observations."""
    held = record.get("observation")
    found = []
    for name, told in {**record, **(held if isinstance(held, dict) else {})}.items():
        if re.fullmatch(r"session_\d+_observation", name) and isinstance(told, dict):
            for speaker, facts_told in told.items():
                found += [(speaker, str(one[0]), turns(one[1])) for one in facts_told if len(one) > 1]
    return found


def bm25(texts: Sequence[str], query: str, k1: float = 1.5, b: float = 0.75) -> list[int]:
    """Return the positions of texts, the best first (Robertson and Zaragoza 2009), as plainly as it can be written."""
    held = [Counter(_WORD.findall(text.lower())) for text in texts]
    lengths = [sum(words.values()) for words in held]
    usual = sum(lengths) / max(len(lengths), 1) or 1
    scores = [0.0] * len(texts)
    for word in set(_WORD.findall(query.lower())):
        having = sum(word in words for words in held)
        rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for place, words in enumerate(held):
            if often := words[word]:
                scores[place] += rarity * often * (k1 + 1) / (often + k1 * (1 - b + b * lengths[place] / usual))
    return sorted(range(len(texts)), key=lambda place: (-scores[place], place))


async def answer(server: Server, path: Path, record: Mapping[str, Any]) -> dict[str, list[dict[int, float]]]:
    """Have a dialogue imported, consolidated and asked; return the shares of evidence found, for each question."""
    clock = FrozenClock(datetime.now(UTC))
    async with server.database(clock) as database, ModelServer(answers=observer(record)) as model:
        await import_sources(database, [ImportSource(path, locomo)])
        clock.advance(timedelta(days=2))
        settings = server.settings().model_copy(update={"model": "observations", "openai_base_url": model.url})
        await Nights(database, settings).run_now("consolidation")
        async with database.connection() as conn:
            told = await rows(conn, _TOLD)
            believed = await rows(
                conn, "select count(*) as facts from fact where predicate = %(name)s", {"name": OBSERVED}
            )
        names = {(one["session_id"], one["seq"]): one["id"] for one in told}
        found: dict[str, list[dict[int, float]]] = {"recall": [], "BM25 over turns": [], "facts": []}
        found["facts"].append({0: believed[0]["facts"], 1: len(observations(record))})
        for question in questions(record):
            items = await ranked(database, question.text, agent=locomo.NAME, limit=max(FIRST))
            behind = [{names[place] for place in item.places if place in names} for item in items]
            found["recall"].append({most: share(question, set().union(*behind[:most])) for most in FIRST})
            order = bm25([one["text"] for one in told], question.text)
            ids = [told[place]["id"] for place in order]
            found["BM25 over turns"].append({most: share(question, set(ids[:most])) for most in FIRST})
    return found


def observer(record: Mapping[str, Any]) -> Callable[[dict[str, Any]], ScriptedReply]:
    """Return what answers for a model: of the lines it is shown, what the annotators observed."""
    texts = {turn["dia_id"]: turn["text"] for _, held, _ in locomo.sessions_of(dict(record)) for turn in held}
    noted = observations(record)

    def answer_to(asked: dict[str, Any]) -> ScriptedReply:
        shown = {json.loads(words): name for name, words in _LINE.findall(asked["messages"][1]["content"])}
        if asked.get("response_format", {}).get("json_schema", {}).get("name", "facts") != "facts":
            return ScriptedReply.json({"operations": []})
        return ScriptedReply.json({"facts": [one for told in noted if (one := _fact(told, texts, shown)) is not None]})

    return answer_to


def _fact(
    told: tuple[str, str, list[str]], texts: Mapping[str, str], shown: Mapping[str, str]
) -> dict[str, Any] | None:
    speaker, fact, turns_told = told
    said = [texts[turn] for turn in turns_told if turn in texts]
    proofs = [(shown[text], text) for text in said if text in shown]
    if not proofs:
        return None
    return {
        "subject": speaker,
        "predicate": OBSERVED,
        "value": fact,
        "sentence": fact,
        "kind": "profile",
        "single_valued": False,
        "valid_from": None,
        "valid_to": None,
        "evidence": [{"event": name, "quote": text[:200]} for name, text in proofs],
    }


def share(question: Question, found: set[str]) -> float:
    """Return which share of a question's evidence was found."""
    return len(question.evidence & found) / len(question.evidence)


def measure(folder: Path | None) -> Report:
    """Measure all dialogues of a folder, or made-up ones."""
    report = Report("recall quality", "share of evidence turns behind the first results")
    with tempfile.TemporaryDirectory() as made:
        if folder is None:
            for seed in range(3):
                Path(made, f"made-{seed}.json").write_text(json.dumps(dialogue(seed)))
            report.notes.append("dialogues made up: the targets are for real ones")
        shares = asyncio.run(_all(sorted((folder or Path(made)).rglob("*.json"))))
    told = shares.pop("facts")
    for name, found in shares.items():
        for most in FIRST:
            value = sum(one[most] for one in found) / max(len(found), 1)
            target = REACH[most] if name == "recall" and folder is not None else None
            report.add(f"{name}, first {most}", value, at_least=target)
    report.add("questions", len(shares["recall"]))
    report.add("facts", sum(one[0] for one in told), f"of {sum(one[1] for one in told):,.0f} observations")
    return report


async def _all(paths: Sequence[Path]) -> dict[str, list[dict[int, float]]]:
    shares: dict[str, list[dict[int, float]]] = {"recall": [], "BM25 over turns": [], "facts": []}
    async with open_server() as server:
        for path in paths:
            value = json.loads(await asyncio.to_thread(path.read_text, "utf-8"))
            for number, record in enumerate(value if isinstance(value, list) else [value]):
                with tempfile.TemporaryDirectory() as alone:
                    single = Path(alone) / f"{path.stem}-{number}.json"
                    single.write_text(json.dumps(record))
                    for name, found in (await answer(server, single, record)).items():
                        shares[name] += found
    return shares


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.recall", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="dialogues in the LoCoMo format")
    report = measure(parser.parse_args().folder)
    print(report.table())
    print(json.dumps(report.as_json()))


if __name__ == "__main__":
    main()
