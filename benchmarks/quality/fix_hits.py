"""Measure whether memory would have helped: the fix that `lookup_error` names for a failure, against what resolved it.

    python -m benchmarks.quality.fix_hits FOLDER... [--show]

Sessions are replayed in the order of time, with an import and a night of the product after each day; sessions without
times are cut into equal parts. Each failed call that its session resolves later is looked up in what the nights before
had learned. `judge` is pure: it compares a suggestion with the calls that followed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.quality import product_runs
from consolidator.database import Connection, Database
from consolidator.formats.base import Format
from consolidator.memory.calls.argument_redaction import redact_arguments
from consolidator.memory.calls.argument_summary import argument_texts
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.operation import parse_operations
from consolidator.memory.calls.symbols import call_symbol, shell_command
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.fix_suggestion import FailedCall
from consolidator.models.memory_filter import SolutionFilter
from consolidator.service.memory.solutions import find_solutions
from consolidator.store.log import events
from consolidator.store.queries import execute, fetch_all

PARTS = 10  # of sessions without times
MAX_FALSE = 0.2  # of the suggestions made
MIN_JUDGED = 20  # suggestions, below which their rate says nothing about the target
OUTCOMES = ("resolver", "step", "false", "last time", "nothing")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call that its session resolves later, and the calls from it to its resolver."""

    session_id: str
    agent: str
    failed: CompletedCall
    later: tuple[CompletedCall, ...]  # the last one is the resolver


@dataclass(slots=True)
class Tally:
    """What came of the lookups of a source."""

    failures: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    saved: int = 0  # calls between the failures and what was rightly suggested for them
    false: list[dict[str, str]] = field(default_factory=list)

    @property
    def made(self) -> int:
        """How often a concrete call was suggested."""
        return sum(self.outcomes[name] for name in ("resolver", "step", "false"))

    def add(self, other: Tally) -> None:
        """Add another source's figures."""
        self.failures += other.failures
        self.outcomes += other.outcomes
        self.saved += other.saved
        self.false += other.false


@dataclass(frozen=True, slots=True)
class _StoredRecord:
    session_id: str
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _SessionTimes:
    id: str
    agent: str
    origin: str
    started: str | None  # as the log says; None for a log without times


def is_same_call(tool: str, arguments: Any, call: CompletedCall) -> bool:
    """Whether a suggested call is the one that was made: program, subcommand and operands, or tool and arguments."""
    made = redact_arguments(call.arguments)
    if shell_command(call.tool, made) is not None:
        if shell_command(tool, arguments) is None:
            return False
        suggested, actual = (parse_operations(name, said)[0] for name, said in ((tool, arguments), (call.tool, made)))
        return (suggested.name, set(suggested.operands), suggested.words) == (
            actual.name,
            set(actual.operands),
            actual.words,
        )
    return tool == call.tool and _plain(argument_texts(tool, arguments)) == _plain(argument_texts(call.tool, made))


def _plain(texts: Mapping[str, str]) -> dict[str, str]:
    return {key: " ".join(text.split()) for key, text in texts.items()}


def judge(suggestion: Mapping[str, Any] | None, failure: Failure) -> tuple[str, int]:
    """Return what a suggestion is for a failure, one of OUTCOMES, and how many calls it would have saved.

    A call of the steps between is right where it was suggested as the step to take first. To try the same call again
    is right only where nothing was changed in between.
    """
    if suggestion is None:
        return "nothing", 0
    if suggestion.get("tool") is None:
        return "last time", 0
    tool, arguments = suggestion["tool"], suggestion["arguments"]
    resolver = failure.later[-1]
    if is_same_call(tool, arguments, resolver):
        acted = any(not parse_operations(call.tool, call.arguments)[0].inspects for call in failure.later[:-1])
        repeats = is_same_call(tool, arguments, failure.failed)
        return ("false", 0) if repeats and acted else ("resolver", len(failure.later) - 1)
    if suggestion.get("kind") == "step":
        for position, call in enumerate(failure.later[:-1]):
            if call.ok and is_same_call(tool, arguments, call):
                return "step", position
    return "false", 0


async def measure_folder(server: BenchmarkServer, folder: Path, log_format: Format | None = None) -> Tally:
    """Replay the sessions of a folder night by night, and look each failure up before its own night."""
    async with server.open_database(product_runs.freeze_clock()) as database:
        await product_runs.import_folder(database, folder, log_format)
        await product_runs.run_night(database, server)
        async with database.connection() as conn:
            days = await _list_days(conn)
            failures = await _load_failures(conn, days)
    tally = Tally()
    async with server.open_database(product_runs.freeze_clock()) as database:
        for sessions in days:
            for failure in (failure for session in sessions for failure in failures.get(session.id, ())):
                await _look_up(database, failure, tally)
            await product_runs.import_folder(database, folder, log_format, [session.id for session in sessions])
            await product_runs.run_night(database, server)
            async with database.transaction() as conn:
                await execute(conn, "delete from imported_file")  # the next day is in the same files
    return tally


async def _list_days(conn: Connection) -> list[list[_SessionTimes]]:
    """Return the sessions by day, oldest first; those without times in equal parts, in the order of their names."""
    sessions = await fetch_all(
        conn,
        _SessionTimes,
        "select s.id, s.agent, s.origin, (select min(e.data ->> 'occurred_at') from event e where e.session_id = s.id)"
        ' as started from session s order by s.origin collate "C"',
    )
    days: dict[str, list[_SessionTimes]] = {}
    for session in sorted((s for s in sessions if s.started), key=lambda s: str(s.started)):
        days.setdefault(str(session.started)[:10], []).append(session)
    timeless = [session for session in sessions if not session.started]
    size = max(1, -(-len(timeless) // PARTS))
    return [*days.values(), *(timeless[start : start + size] for start in range(0, len(timeless), size))]


async def _load_failures(conn: Connection, days: Sequence[Sequence[_SessionTimes]]) -> dict[str, list[Failure]]:
    """Return the failures that were resolved, by session; those that only led to another error are not among them."""
    rows = await fetch_all(
        conn,
        _StoredRecord,
        "select session_id, record from error_record where status = 'resolved' order by session_id, seq",
    )
    agents = {session.id: session.agent for sessions in days for session in sessions}
    calls: dict[str, list[CompletedCall]] = {}
    failures: dict[str, list[Failure]] = {}
    for row in rows:
        record = ErrorRecord.from_json(row.record)
        if record.rule == "superseded" or record.resolver_index is None:
            continue
        if row.session_id not in calls:
            calls[row.session_id] = await _load_calls(conn, row.session_id)
        failed = next(call for call in calls[row.session_id] if call.index == record.index)
        later = [call for call in calls[row.session_id] if record.index < call.index <= record.resolver_index]
        failures.setdefault(row.session_id, []).append(
            Failure(row.session_id, agents[row.session_id], failed, tuple(later))
        )
    return failures


async def _load_calls(conn: Connection, session_id: str) -> list[CompletedCall]:
    pairer = CallPairer()
    calls = [pairer.feed(event) for event in await events.read(conn, session_id)]
    return sorted((call for call in calls if call is not None), key=lambda call: call.index)


async def _look_up(database: Database, failure: Failure, tally: Tally) -> None:
    """Look a failure up as its agent would have, and count what came of it."""
    failed = failure.failed
    answers = await find_solutions(
        database,
        failed.result_text,
        SolutionFilter(agent=failure.agent, limit=1),
        tool=call_symbol(failed),
        call=FailedCall(failed.tool, failed.arguments),
    )
    suggestion = answers[0].body["suggestion"] if answers else None
    outcome, saved = judge(suggestion, failure)
    tally.failures += 1
    tally.outcomes[outcome] += 1
    tally.saved += saved
    if outcome == "false" and suggestion is not None:
        resolver = failure.later[-1]
        tally.false.append(
            {
                "session": failure.session_id,
                "call": str(failed.index),
                "failed": str(argument_texts(failed.tool, failed.arguments))[:300],
                "error": answers[0].headline,
                "suggested": str(suggestion["text"])[:300],
                "resolver": f"{resolver.tool} {argument_texts(resolver.tool, resolver.arguments)}"[:300],
            }
        )


def build_report(tallies: Mapping[str, Tally], *, show: bool = False) -> Report:
    """Return the figures of each source and of all of them, and the false suggestions if asked for."""
    report = Report("fix_hits", "what memory would have said about failures that were resolved later")
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    for name, tally in [*tallies.items(), ("all", total)]:
        outcomes, made = tally.outcomes, tally.made
        covered = tally.failures - outcomes["nothing"]
        report.add(f"{name}: failures resolved later", tally.failures)
        report.add(f"{name}: coverage", covered / max(1, tally.failures), f"{covered} answered")
        report.add(f"{name}: suggested", made / max(1, tally.failures), f"{made} calls")
        report.add(f"{name}: hit at 1", outcomes["resolver"] / max(1, tally.failures), f"{outcomes['resolver']} calls")
        report.add(f"{name}: right first steps", outcomes["step"])
        target = MAX_FALSE if name == "all" and made >= MIN_JUDGED else None
        report.add(f"{name}: false", outcomes["false"] / max(1, made), f"{outcomes['false']} of {made}", at_most=target)
        report.add(f"{name}: last time", outcomes["last time"], "hints")
        report.add(f"{name}: calls saved", tally.saved)
    report.details["false"] = total.false
    if show:
        report.notes += [f"{key}: {value}" for miss in total.false for key, value in miss.items()]
    return report


async def run(folders: Iterable[Path], log_format: Format | None, *, show: bool = False) -> Report:
    """Measure folders one after the other, on the benchmark server."""
    tallies: dict[str, Tally] = {}
    async with open_server() as server:
        for folder in folders:
            tallies[folder.name] = await measure_folder(server, folder, log_format)
    return build_report(tallies, show=show)


def main() -> None:
    """Print a table, and a line of JSON."""
    parser = product_runs.create_folder_parser(__doc__)
    parser.add_argument("folders", type=Path, nargs="*", help="more folders, each a source of its own")
    parser.add_argument("--show", action="store_true", help="also print each false suggestion")
    options = parser.parse_args()
    log_format = product_runs.parse_format(options.format)
    folders = [options.folder, *options.folders]
    product_runs.print_report(asyncio.run(run(folders, log_format, show=options.show)), options.json)


if __name__ == "__main__":
    main()
