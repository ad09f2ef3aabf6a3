"""What the questions to a model are made of, and what its answers come to: of real logs, with a stand-in server.

    python -m benchmarks.model_use.questions FOLDER [--one-night] [--answers FILE] [--write DIRECTORY]

Imports the logs and runs a night for each of their days, or one for all, as after a first import. `--answers` names
what a model answered for a dialogue in the LoCoMo format (session number -> facts, each with the `dia_id` and the quote
of its turns); without it the stand-in takes sentences in the first person for facts. `--write` keeps every question, to
be read by a person.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.model_use.recorded_answers import RecordedAnswers, judge_saying
from benchmarks.model_use.stand_in_model import ModelUsage, count_common_tokens, count_prompt_tokens
from benchmarks.model_use.transcript_lines import parse_shown_lines, parse_statements
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.jobs.nightly import JobRunner
from consolidator.store.log import events
from consolidator.store.queries import fetch_column
from consolidator.store.sessions import sessions
from consolidator.testing import ModelServer, ScriptedReply

TITLE = "what a model is asked, and what comes of it"
MODEL = "gpt-5-mini"
_TRANSCRIPT_START = re.compile(r"^(?:Session s1|Read before|\[\d)", re.MULTILINE)
Answer = Callable[[dict[str, Any]], ScriptedReply]


@dataclass(slots=True)
class QuestionLog:
    """The questions that were asked, and their answers' operations."""

    answer_facts: Answer
    extract: list[dict[str, Any]] = field(default_factory=list)
    repair: list[dict[str, Any]] = field(default_factory=list)
    reconcile: list[dict[str, Any]] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    options: int = 0  # targets that sayings were shown with

    def __call__(self, request: dict[str, Any]) -> ScriptedReply:
        """Answer a request and keep it."""
        name = request["response_format"]["json_schema"]["name"]
        if name == "decisions":
            self.reconcile.append(request)
            return self._decide(request)
        (self.repair if len(request["messages"]) > 2 else self.extract).append(request)
        return self.answer_facts(request)

    def _decide(self, request: dict[str, Any]) -> ScriptedReply:
        statements = parse_statements(request["messages"][1]["content"])
        operations = [
            judge_saying(name, statement, statements) for name, statement in statements.items() if name[0] == "c"
        ]
        self.operations.update(operation["operation"] for operation in operations)
        self.options += sum(len(statement.get("may_target", ())) for statement in statements.values())
        return ScriptedReply.json({"operations": operations})


async def measure(
    server: BenchmarkServer, folder: Path, answers: Path | None = None, *, one_night: bool = False
) -> tuple[Report, QuestionLog]:
    """Import a folder, run its nights, and report what was asked and what came of it."""
    reader: Answer = ModelUsage()
    if answers is not None:
        dialogue = answers.with_name(answers.name.replace(".answers", ""))
        reader = RecordedAnswers(
            json.loads(await asyncio.to_thread(dialogue.read_text, "utf-8")),
            json.loads(await asyncio.to_thread(answers.read_text, "utf-8")),
        )
    asked = QuestionLog(reader)
    report = Report("questions", TITLE, folder.name)
    clock = FrozenClock(datetime.now(UTC))
    async with server.open_database(clock) as database, ModelServer(answers=asked) as model:
        await import_sources(database, [ImportSource(folder, None)], lenient=True)
        clock.advance(timedelta(days=2))
        days = await _list_days(database)
        if one_night:
            days = {"all": [session for ids in days.values() for session in ids]}
        update = {"openai_base_url": model.url, "model": MODEL}
        jobs = JobRunner(database, server.default_settings().model_copy(update=update))
        for _, session_ids in sorted(days.items()):
            result = await jobs.run_now("consolidation", only=session_ids)
            assert not result["model"]["failures"], result["model"]
            clock.advance(timedelta(minutes=1))
        report.add("sessions", sum(map(len, days.values())))
        report.add("nights", len(days))
        _add_questions(report, asked)
        await _add_outcome(report, database)
    return report, asked


async def _list_days(database: Database) -> dict[str, list[str]]:
    """Return the sessions of each day of the logs."""
    days: defaultdict[str, list[str]] = defaultdict(list)
    async with database.connection() as conn:
        ids = await fetch_column(conn, "select id from session order by created_at, id")
        for session in await sessions.get_each(conn, ids):
            log = await events.read(conn, session.id, bounds=session.ingest_bounds)
            if log:
                days[max(event.occurred_at for event in log).date().isoformat()].append(session.id)
    return days


def _add_questions(report: Report, asked: QuestionLog) -> None:
    whole_prompts = [str(request["messages"][1]["content"]) for request in asked.extract]
    prompts = [_from_transcript(prompt) for prompt in whole_prompts]
    lines = [parse_shown_lines(prompt) for prompt in prompts]
    report.add("extract: calls", len(prompts))
    report.add("extract: characters of transcripts", sum(map(len, prompts)))
    report.add("extract: characters of relation names", sum(map(len, whole_prompts)) - sum(map(len, prompts)))
    report.add("extract: prompt tokens, instructions included", sum(map(count_prompt_tokens, asked.extract)))
    repeated = sum(map(count_common_tokens, asked.extract, asked.extract[1:]))
    report.add("extract: of these those with which the question before began, too", repeated)
    without = sum(not any(line.citable for line in shown) for shown in lines)
    report.add("extract: questions without a person's word", without)
    total = max(sum(map(len, prompts)), 1)
    shown_lines = [line for shown in lines for line in shown]
    words = sum(len(line.words) for line in shown_lines)
    report.add("extract: share of characters beside words (names, times)", (total - words) / total)
    by_source = Counter[str]()
    for line in shown_lines:
        by_source[line.kind] += len(line.words)
    for source, count in sorted(by_source.items()):
        report.add(f"extract: share of characters that are words of lines {source}", count / total)
    report.add("repair: calls", len(asked.repair))
    report.add("repair: prompt tokens", sum(map(count_prompt_tokens, asked.repair)))
    sayings = sum(asked.operations.values())
    report.add("reconcile: calls", len(asked.reconcile))
    report.add("reconcile: prompt tokens", sum(map(count_prompt_tokens, asked.reconcile)))
    report.add("reconcile: sayings asked about", sayings)
    report.add("reconcile: targets shown with them", asked.options)
    report.add("reconcile: share answered add by the stand-in", asked.operations["add"] / max(sayings, 1))


def _from_transcript(prompt: str) -> str:
    """Return a question from where the transcript begins."""
    begin = _TRANSCRIPT_START.search(prompt)
    return prompt[begin.start() :] if begin else ""


async def _add_outcome(report: Report, database: Database) -> None:
    async with database.connection() as conn:
        reasons = Counter(
            await fetch_column(
                conn,
                "select coalesce(rejected, quarantined, 'kept') from candidate where extractor like 'model:%%'",
            )
        )
        believed = await fetch_column(conn, "select sentence from fact where superseded_at is null order by 1")
    for reason, count in reasons.most_common():
        report.add(f"model's facts: {reason}", count)
    report.add("facts believed, of rules and model", len(believed))


def _write_questions(directory: Path, asked: QuestionLog) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    kinds: Iterable[tuple[str, Sequence[dict[str, Any]]]] = (
        ("extract", asked.extract), ("repair", asked.repair), ("reconcile", asked.reconcile),
    )  # fmt: skip
    for kind, requests in kinds:
        for number, request in enumerate(requests, 1):
            texts = [f"=== {message['role']}\n{message['content']}" for message in request["messages"]]
            (directory / f"{kind}-{number:03}.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")


async def _run(options: argparse.Namespace) -> Report:
    async with open_server() as server:
        report, asked = await measure(server, options.folder, options.answers, one_night=options.one_night)
    if options.write:
        await asyncio.to_thread(_write_questions, options.write, asked)
    return report


def main() -> None:
    """Parse the command line and print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model_use.questions", description=__doc__)
    parser.add_argument("folder", type=Path, help="logs in any of the formats, or one file")
    parser.add_argument("--one-night", action="store_true", help="one night for all days")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="NAME.answers.json beside NAME.json")
    parser.add_argument("--write", type=Path, metavar="DIRECTORY", help="keep every question here")
    report = asyncio.run(_run(parser.parse_args()))
    print(report.format_table())
    print(json.dumps(report.to_json()))


if __name__ == "__main__":
    main()
