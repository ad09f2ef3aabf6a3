"""Measures recall of what a person said by questions in other words: forty, written before they were first asked.

    python -m benchmarks.quality.paraphrases

A line of `paraphrases.txt` is what a person typed in some session of a project, the question, and the words of its
answer. The sessions also hold ordinary requests. A question is answered if its words are in the first 700 tokens of
recall: by words alone, and with vectors where `consolidator[vectors]` is installed. No model is asked.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.quality.product_runs import freeze_clock
from consolidator.database import Database
from consolidator.jobs.nightly import JobRunner
from consolidator.llm.static_vectors import embedding_name
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.payload import EventType
from consolidator.service.memory.recall import recall
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import sessions

TOKENS, MIN_SHARE, AGENT, PROJECT = 700, 0.85, "coder", "/work/dental"
_REQUESTS = (
    "Rename the field {} in the form of {}, please.",
    "The list of {} is empty after a reload. Can you look why?",
    "Add a button to {} that opens {}.",
    "Why does the import of {} take so long?",
    "Move the helper for {} into a file of its own, next to {}.",
)
_THINGS = (
    "orders",
    "patients",
    "invoices",
    "appointments",
    "reminders",
    "labels",
    "uploads",
    "reports",
    "rooms",
    "keys",
)


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """What a person said, and a question about it in other words."""

    said: str
    question: str
    answer: str  # in lower case


def read_paraphrases() -> list[Paraphrase]:
    """Return the forty paraphrases."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    return [Paraphrase(*(part.strip() for part in line.split(" | "))) for line in text.splitlines()]


async def _log_talk(database: Database, said: list[str]) -> None:
    """Log a session for each two statements, among five requests."""
    for start in range(0, len(said), 2):
        things = [_THINGS[(start + step) % len(_THINGS)] for step in range(6)]
        requests = [form.format(*things[number:]) for number, form in enumerate(_REQUESTS)]
        texts = [requests[0], said[start], *requests[1:3], said[start + 1], *requests[3:]]
        async with database.transaction() as conn:
            now = datetime.now(UTC) - timedelta(days=60 - start)
            session = {"id": f"talk-{start}", "agent": AGENT, "project": PROJECT}
            await sessions.open_session(conn, session, now=now)
            talk = [
                NewEvent(kind, {"text": words})
                for text in texts
                for kind, words in (
                    (EventType.USER_MESSAGE, text),
                    (EventType.ASSISTANT_RESPONSE, "Done, as you asked."),
                )
            ]
            await events.append(conn, f"talk-{start}", talk, now=now)


async def _count_answered(
    database: Database, settings: Settings | None, paraphrases: list[Paraphrase]
) -> tuple[int, list[str]]:
    missed = []
    for each in paraphrases:
        scope = MemoryScope(AGENT, PROJECT)
        answer = await recall(database, each.question, scope, token_budget=TOKENS, settings=settings)
        if each.answer not in answer.block.lower():
            missed.append(each.question)
    return len(paraphrases) - len(missed), missed


async def measure(server: BenchmarkServer) -> Report:
    """Log, run a night, and ask."""
    report = Report("paraphrases", "questions in other words than what was said")
    paraphrases = read_paraphrases()
    clock, settings = freeze_clock(), server.default_settings()
    async with server.open_database(clock) as database:
        await _log_talk(database, [each.said for each in paraphrases])
        clock.advance(timedelta(days=2))
        await JobRunner(database, settings).run_now("consolidation")
        searches: dict[str, Settings | None] = {"by words": None}
        if embedding_name(settings) is not None:
            searches["with vectors"] = settings
        for name, search in searches.items():
            count, missed = await _count_answered(database, search, paraphrases)
            target = MIN_SHARE if search is not None else None
            report.add(f"answered {name}, of {len(paraphrases)}", count / len(paraphrases), at_least=target)
            report.notes += [f"{name}: not answered: {question}" for question in missed]
    return report


async def _run() -> Report:
    async with open_server() as server:
        return await measure(server)


def main() -> None:
    """Print the report."""
    report = asyncio.run(_run())
    print(report.format_table())
    print(json.dumps(report.to_json()))


if __name__ == "__main__":
    main()
