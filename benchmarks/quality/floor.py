"""Measures recall's floor: whether it says nothing where the log has no answer, and still answers where it has one.

    python -m benchmarks.quality.floor FOLDER

The folder has the sample logs: claude-code, pi, swe-agent and locomo-dev. Thirty questions have an answer in them and
thirty have none (`floor_questions`); the floor was calibrated on every other one, and the rest is held out. Then all
annotated questions of the dialogues: those that the floor leaves unanswered are lost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.harness import locomo, swe_agent
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.quality.dialogues import parse_questions
from benchmarks.quality.floor_questions import DIALOGUES, QUESTIONS, LabelledQuestion
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.formats import pi
from consolidator.formats.claude_code import reader as claude_code
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.nightly import JobRunner
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.recall import recall
from consolidator.settings import Settings

FORMATS: dict[str, Any] = {
    "claude-code": claude_code,
    "pi": pi,
    "swe-agent": swe_agent,
    "locomo-dev": locomo,
}  # by folder
MAX_FALSE_SHARE, MIN_KEPT_SHARE = 0.2, 0.8


async def list_answered(database: Database, settings: Settings, questions: Iterable[tuple[str, str]]) -> list[bool]:
    """Tell of each question (agent, text) whether recall answers it."""
    return [
        bool((await recall(database, text, MemoryScope(agent=agent), settings=settings)).block)
        for agent, text in questions
    ]


def read_question(folder: Path, question: LabelledQuestion) -> str:
    """Return a question's text; that of a dialogue's own question stands in the dialogue."""
    if question.agent != DIALOGUES or not question.has_answer:
        return question.text
    name, number = question.text.split(":")
    record = json.loads((folder / "locomo-dev" / f"{name}.json").read_text(encoding="utf-8"))
    return str(record["qa"][int(number)]["question"])


async def score(server: BenchmarkServer, folder: Path) -> Report:
    """Import the sample logs, run a night, and ask."""
    report = Report("floor", "questions with an answer in the sample logs, and without")
    clock = FrozenClock(datetime.now(UTC))
    settings = server.default_settings()
    async with server.open_database(clock) as database:
        sources = [ImportSource(folder / place, log_format) for place, log_format in FORMATS.items()]
        await import_sources(database, sources)
        clock.advance(timedelta(days=2))
        await JobRunner(database, settings).run_now("consolidation")
        for half, questions in (("calibrated on", QUESTIONS[::2]), ("held out", QUESTIONS[1::2])):
            await _report_half(report, half, questions, database, settings, folder)
        dialogues = [
            (DIALOGUES, question.text)
            for path in sorted((folder / "locomo-dev").glob("[0-9][0-9].json"))
            for question in parse_questions(json.loads(path.read_text(encoding="utf-8")))
        ]
        answered = await list_answered(database, settings, dialogues)
        share = sum(answered) / max(len(answered), 1)
        report.add("all questions of the dialogues: answers kept", share, at_least=MIN_KEPT_SHARE)
    return report


async def _report_half(
    report: Report,
    half: str,
    questions: Sequence[LabelledQuestion],
    database: Database,
    settings: Settings,
    folder: Path,
) -> None:
    for has_answer, name in ((False, "false answers"), (True, "answers kept")):
        asked = [question for question in questions if question.has_answer is has_answer]
        texts = [(question.agent, read_question(folder, question)) for question in asked]
        answered = await list_answered(database, settings, texts)
        at_most = None if has_answer else MAX_FALSE_SHARE * len(asked)
        at_least = MIN_KEPT_SHARE * len(asked) if has_answer else None
        report.add(f"{half}: {name} of {len(asked)}", sum(answered), at_least=at_least, at_most=at_most)
        wrong = [
            question.text for question, is_answered in zip(asked, answered, strict=True) if is_answered != has_answer
        ]
        report.notes += [f"{half}: {'lost' if has_answer else 'answered'}: {text}" for text in wrong]


async def measure(folder: Path) -> Report:
    """Return the report on the sample logs in a folder."""
    async with open_server() as server:
        return await score(server, folder)


def main() -> None:
    """Parse the command line and print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.floor", description=__doc__)
    parser.add_argument("folder", type=Path, help="the sample logs")
    report = asyncio.run(measure(parser.parse_args().folder))
    print(report.format_table())
    print(json.dumps(report.to_json()))


if __name__ == "__main__":
    main()
