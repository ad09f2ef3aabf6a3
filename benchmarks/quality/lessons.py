"""Measure what memory holds and tells of the lessons that an engineer of a project would keep.

    python -m benchmarks.quality.lessons FOLDER --lessons FILE --train N [--show] [--answers FILE] [--write FILE]

A line of the file is a lesson, checked by hand: `id`, `lesson` (or `question`, asked instead of it), `needs_model`, and
`match`: groups of patterns, of which each must have a hit in a line that states the lesson. A lesson is told at a start
or at its moment (any answer of the replay, see `help`), held by a line of memory, or recalled by its question in the
first 700 tokens. `--answers` has what a model answered about each session (see `model_use.session_answers`); `--write`
keeps the questions that it has no answer to.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.report import Report
from benchmarks.harness.server import open_server
from benchmarks.model_use.session_answers import SessionAnswers
from benchmarks.model_use.stand_in_model import count_prompt_tokens
from benchmarks.quality import help as replays
from benchmarks.quality import product_runs
from consolidator.database import Database
from consolidator.memory.calls.directory import plain_path
from consolidator.memory.text.markers import RECALL_BEGIN, RECALL_END
from consolidator.models.memory_filter import FactFilter, LessonFilter, MemoryScope, ProcedureFilter, SolutionFilter
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.lessons import list_lessons
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.recall import recall
from consolidator.service.memory.solutions import list_solutions
from consolidator.store.queries import fetch_column
from consolidator.testing import ModelServer

RECALL_TOKENS = 700
MODEL = "gpt-5-mini"
TOLD_OBSERVATIONS = (
    "select sentence from fact where kind = 'observation' and confidence = 'explicit' and superseded_at is null "
    "and valid_to is null order by sentence"
)
MAX_ROWS = 1000  # of each kind of memory
WAYS = ("told at a start", "told at its moment", "held", "recalled")


@dataclass(frozen=True, slots=True)
class ReferenceLesson:
    """A lesson that memory should have, and how to recognise it."""

    id: str
    question: str
    needs_model: bool
    groups: tuple[re.Pattern[str], ...]  # each must have a hit in a line

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReferenceLesson:
        """Read a line of a lessons file."""
        groups = tuple(
            re.compile("|".join(f"(?:{pattern})" for pattern in group), re.IGNORECASE) for group in data["match"]["all"]
        )
        return cls(data["id"], data.get("question") or data["lesson"], bool(data["needs_model"]), groups)

    def is_stated_by(self, line: str) -> bool:
        """Whether a line states the lesson."""
        return all(group.search(line) for group in self.groups)


@dataclass(slots=True)
class Coverage:
    """The lines that were told, held and recalled, by way; a recalled line belongs to one lesson's question."""

    lines: dict[str, list[str]] = field(default_factory=dict)
    recalled: dict[str, list[str]] = field(default_factory=dict)  # by lesson

    def find(self, lesson: ReferenceLesson, way: str) -> str | None:
        """Return the first line that states a lesson in one of WAYS."""
        lines = self.recalled.get(lesson.id, []) if way == "recalled" else self.lines.get(way, [])
        return next((line for line in lines if lesson.is_stated_by(line)), None)


def read_lessons(path: Path) -> list[ReferenceLesson]:
    """Read a lessons file, one JSON object a line."""
    with path.open(encoding="utf-8") as lines:
        return [ReferenceLesson.from_json(json.loads(line)) for line in lines if line.strip()]


def block_lines(text: str) -> list[str]:
    """Return the lines of a block that was told, without its marks."""
    return [line for line in text.splitlines() if line.strip() and line not in (RECALL_BEGIN, RECALL_END)]


async def list_memory_lines(database: Database) -> list[str]:
    """Return every line that memory holds: lessons, facts, procedures and solutions, also those that are not told."""
    lessons = await list_lessons(database, LessonFilter(limit=MAX_ROWS))
    facts = await list_facts(database, FactFilter(limit=MAX_ROWS))
    solutions = await list_solutions(database, SolutionFilter(limit=MAX_ROWS, include_unsolved=True))
    procedures = await list_procedures(database, ProcedureFilter(limit=MAX_ROWS, include_unworthy=True))
    return [
        *(row.line for row in lessons),
        *(fact.sentence for fact in facts),
        *(str(row.body.get("line") or row.headline) for row in solutions),
        *(row.title for row in procedures),
    ]


async def measure(
    database: Database, result: replays.Replay, lessons: Iterable[ReferenceLesson], project: str
) -> Coverage:
    """Return what a replay told, what memory holds, and what it recalls for each lesson's question."""
    coverage = Coverage()
    starts = [line for telling in result.told("start") for line in block_lines(telling.text)]
    others = [line for telling in result.tellings if telling.moment != "start" for line in block_lines(telling.text)]
    coverage.lines = {
        "told at a start": list(dict.fromkeys(starts)),
        "told at its moment": list(dict.fromkeys(others)),
        "held": await list_memory_lines(database),
    }
    for lesson in lessons:
        answer = await recall(database, lesson.question, MemoryScope(project=project), token_budget=RECALL_TOKENS)
        coverage.recalled[lesson.id] = [item.line for item in answer.items]
    return coverage


def build_report(lessons: Sequence[ReferenceLesson], coverage: Coverage, *, show: bool = False) -> Report:
    """Return how many lessons are told, held and recalled, those that need a model apart, and each lesson's ways."""
    report = Report("lessons", f"{len(lessons)} reference lessons")
    for needs_model, name in ((False, "without a model"), (True, "with a model")):
        group = [lesson for lesson in lessons if lesson.needs_model is needs_model]
        for way in WAYS:
            count = sum(coverage.find(lesson, way) is not None for lesson in group)
            report.add(f"{name}: {way}", count, f"of {len(group)}")
    report.details["lessons"] = {
        lesson.id: {way: line for way in WAYS if (line := coverage.find(lesson, way)) is not None} for lesson in lessons
    }
    for lesson in lessons:
        ways = report.details["lessons"][lesson.id]
        report.notes.append(f"{lesson.id}{' (model)' if lesson.needs_model else ''}: {', '.join(ways) or '-'}")
        if show:
            report.notes += [f"    {way}: {line[:300]}" for way, line in ways.items()]
    return report


async def run(
    folder: Path, lessons_file: Path, train: int, asked: SessionAnswers | None = None, *, show: bool = False
) -> Report:
    """Measure a folder, on the benchmark server; with a model where there are answers of one."""
    lessons = await asyncio.to_thread(read_lessons, lessons_file)
    async with open_server() as server, ModelServer(answers=asked or SessionAnswers()) as model:
        settings = {} if asked is None else {"openai_base_url": model.url, "model": MODEL}
        async with replays.open_learned(server, folder, train, **settings) as (database, first, later):
            result = await replays.replay(database, server.home, first, later)
            coverage = await measure(database, result, lessons, plain_path(first[-1].directory))
            report = build_report(lessons, coverage, show=show)
            await _add_model_outcome(report, database, len(first), model.requests)
            return report


async def _add_model_outcome(
    report: Report, database: Database, sessions: int, requests: Sequence[dict[str, Any]]
) -> None:
    """Add what a model was asked, and what became of what it answered."""
    if not requests:
        return
    report.add(
        "tokens of questions a session, instruction included", sum(map(count_prompt_tokens, requests)) / sessions
    )
    reasons = "select coalesce(rejected, quarantined, 'taken') from candidate where extractor like 'model:%%'"
    async with database.connection() as conn:
        outcomes = Counter(await fetch_column(conn, reasons))
        told = await fetch_column(conn, TOLD_OBSERVATIONS)
    for reason, count in outcomes.most_common():
        report.add(f"model's answers: {reason}", count)
    report.add("observations told", len(told))
    report.notes += [f"observation: {sentence}" for sentence in told]


def main() -> None:
    """Print a table, each lesson, and a line of JSON."""
    parser = product_runs.create_folder_parser(__doc__)
    parser.add_argument("--lessons", type=Path, required=True, help="JSONL: id, lesson, needs_model, match")
    parser.add_argument("--train", type=int, required=True, help="sessions to learn from, the first in time")
    parser.add_argument("--show", action="store_true", help="also print the lines")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="JSONL: what a model answered about each session")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the questions without an answer here")
    options = parser.parse_args()
    asked = SessionAnswers(options.answers) if options.answers or options.write else None
    report = asyncio.run(run(options.folder, options.lessons, options.train, asked, show=options.show))
    if asked is not None and options.write:
        options.write.write_text("".join(f"=== {key}\n{lines}\n\n" for key, lines in asked.unknown.items()), "utf-8")
    product_runs.print_report(report, options.json)


if __name__ == "__main__":
    main()
