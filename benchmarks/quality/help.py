"""Measure what agents would have been told: later sessions of a folder, replayed through the hooks of Claude Code.

    python -m benchmarks.quality.help FOLDER --train N [--show]

The first N sessions in time are imported and learned from in one night, as the day after the last of them. The others
are then replayed event by event: each start, prompt, call and failure is handed to the functions that answer hooks, in
the client's own form. What they tell is judged by what the session then did (`help_outcomes`), beside a baseline of
thirty lines. A failure that its exit code hides is reported to no hook for failures; what would have been told of it is
counted apart.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.quality import product_runs
from benchmarks.quality.help_outcomes import (
    VERDICTS,
    Baseline,
    judge_failure,
    judge_warning,
    named_calls,
    named_directory,
)
from benchmarks.quality.replayed_sessions import FORMAT, Call, ReplayedSession, Step, read_sessions
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.formats.registry import get_format
from consolidator.memory.calls.symbols import shell_command
from consolidator.service.clients.client import HookMoment
from consolidator.service.hooks.answers import answer_hook
from consolidator.service.hooks.payload import parse_hook
from consolidator.service.memory.brief import Brief
from consolidator.store.sessions.sessions import imported_session_id

Moment = Literal["start", "prompt", "call", "failure", "masked failure"]
MOMENTS: tuple[Moment, ...] = ("start", "prompt", "call", "failure", "masked failure")


@dataclass(frozen=True, slots=True)
class Telling:
    """What was told at one moment of a session, and its worth."""

    session: str
    moment: Moment
    about: str  # the prompt or the call
    text: str
    tokens: int
    verdict: str | None = None  # of a call and a failure
    calls: tuple[str, ...] = ()  # that were told to make


@dataclass(slots=True)
class Replay:
    """What came of a replay: how often each moment came, and what was told."""

    sessions: int = 0
    asked: Counter[Moment] = field(default_factory=Counter)
    tellings: list[Telling] = field(default_factory=list)
    baseline: list[tuple[Moment, str]] = field(default_factory=list)  # the moments it answered, and the verdicts

    def told(self, moment: Moment) -> list[Telling]:
        """Return what was told at a kind of moment."""
        return [telling for telling in self.tellings if telling.moment == moment]


@asynccontextmanager
async def open_learned(
    server: BenchmarkServer, folder: Path, train: int
) -> AsyncIterator[tuple[Database, list[ReplayedSession], list[ReplayedSession]]]:
    """Yield a database that learned from a folder's first sessions, and the sessions: learned from, and later ones."""
    sessions = await asyncio.to_thread(read_sessions, folder)
    first, later = sessions[:train], sessions[train:]
    clock = FrozenClock(datetime.fromisoformat(first[-1].started) + timedelta(days=1))
    async with server.open_database(clock) as database:
        ids = [imported_session_id(FORMAT, session.origin) for session in first]
        await product_runs.import_folder(database, folder, get_format(FORMAT), ids)
        await product_runs.run_night(database, server)
        yield database, first, later


async def replay(database: Database, first: Iterable[ReplayedSession], later: Iterable[ReplayedSession]) -> Replay:
    """Replay sessions, one after the other, and judge what they were told."""
    result, baseline = Replay(), Baseline(first)
    for session in later:
        result.sessions += 1
        await _SessionReplay(database, session, result, baseline).run()
    return result


class _SessionReplay:
    """One session's replay: as the service of the hooks, it remembers what the session was shown."""

    def __init__(self, database: Database, session: ReplayedSession, result: Replay, baseline: Baseline) -> None:
        self._database, self._session, self._result, self._baseline = database, session, result, baseline
        self._shown: set[str] = set()

    async def run(self) -> None:
        """Hand every event to its hook."""
        start = await self._ask("SessionStart", {"source": "startup"}, self._session.directory)
        self._note("start", "", start)
        for step in self._session.steps:
            if step.kind == "prompt":
                answer = await self._ask("UserPromptSubmit", {"prompt": step.text}, step.directory)
                self._note("prompt", step.text, answer)
            elif step.kind == "call":
                await self._ask_before(step)
            elif self._session.calls[step.call].failed:
                await self._ask_after(step)

    async def _ask(
        self, event: str, fields: Mapping[str, Any], directory: str, moment: HookMoment | None = None
    ) -> Brief | None:
        """Call the functions that answer a hook; of another `moment` than the event's, if one is named."""
        body = {
            "session_id": self._session.origin,
            "transcript_path": str(self._session.path),
            "cwd": directory,
            "hook_event_name": event,
            **fields,
        }
        call = parse_hook(FORMAT, event, json.dumps(body).encode(), self._session.directory)
        if call is None:
            return None
        answer = await answer_hook(self._database, replace(call, moment=moment or call.moment), self._shown)
        self._shown |= set() if answer is None else set(answer.shown)
        return answer

    async def _ask_before(self, step: Step) -> None:
        call = self._session.calls[step.call]
        answer = await self._ask("PostToolUseFailure", _describe_call(call), step.directory, "before_call")
        told = [] if answer is None else self._read_calls(answer, call)
        self._note("call", _about(call), answer, judge_warning(told, self._session, step.call), told)

    async def _ask_after(self, step: Step) -> None:
        """Ask of a failed call; of one whose exit code hides it, as if the client had seen that."""
        call = self._session.calls[step.call]
        moment: Moment = "failure" if call.outcome == "failed" else "masked failure"
        fields = {**_describe_call(call), "error": call.text, "is_interrupt": False}
        answer = await self._ask("PostToolUseFailure", fields, step.directory)
        told = [] if answer is None else self._read_calls(answer, call)
        self._note(moment, _about(call), answer, judge_failure(told, self._session, step.call), told)
        suggested = self._baseline.answer(call)
        if suggested is not None:
            self._result.baseline.append((moment, judge_failure([suggested], self._session, step.call)))

    def _read_calls(self, answer: Brief, call: Call) -> list[str]:
        """Return the calls that an answer tells to make: the one that it carries, else those in its text."""
        carried = answer.fix.get("call")
        if carried is None and isinstance(answer.fix.get("tool"), str):
            carried = shell_command(answer.fix["tool"], answer.fix.get("arguments"))
        calls = [str(carried)] if carried else named_calls(answer.block.text, call)
        place = named_directory(answer.block.text, self._session.directory)
        return [line if place is None or "cd " in line else f"cd {place} && {line}" for line in calls]

    def _note(
        self, moment: Moment, about: str, answer: Brief | None, verdict: str | None = None, calls: Sequence[str] = ()
    ) -> None:
        self._result.asked[moment] += 1
        if answer is not None:
            block = answer.block
            self._result.tellings.append(
                Telling(self._session.origin, moment, about[:300], block.text, block.tokens, verdict, tuple(calls))
            )


def _describe_call(call: Call) -> dict[str, Any]:
    return {"tool_name": call.tool, "tool_input": call.arguments, "tool_use_id": call.call_id}


def _about(call: Call) -> str:
    return call.command or f"{call.tool} {json.dumps(call.arguments)}"


def build_report(result: Replay, *, show: bool = False) -> Report:
    """Return the figures by moment, and what was told if asked for."""
    report = Report("help", f"what {result.sessions} later sessions would have been told")
    for moment in MOMENTS:
        tellings = result.told(moment)
        tokens = [telling.tokens for telling in tellings]
        share = f"of {result.asked[moment]}"
        report.add(f"{moment}: told", len(tellings), share)
        report.add(f"{moment}: tokens", sum(tokens) / max(1, len(tokens)), f"max {max(tokens, default=0)}")
        if moment in ("start", "prompt"):
            continue
        verdicts = Counter(telling.verdict for telling in tellings)
        names = ("right", "too late", "wrong") if moment == "call" else VERDICTS
        for name in names:
            report.add(f"{moment}: {name}", verdicts[name])
        if moment != "call":
            answered = [verdict for other, verdict in result.baseline if other == moment]
            report.add(f"{moment}: baseline told", len(answered), share)
            for name in VERDICTS[:-1]:
                report.add(f"{moment}: baseline {name}", answered.count(name))
    if show:
        report.details["told"] = [asdict(telling) for telling in result.tellings]
        report.notes += [
            f"{telling.moment} {telling.verdict or ''} {telling.about!r} {telling.calls}: {telling.text}"
            for telling in result.tellings
        ]
    return report


async def run(folder: Path, train: int, *, show: bool = False) -> Report:
    """Measure a folder, on the benchmark server."""
    async with open_server() as server, open_learned(server, folder, train) as (database, first, later):
        return build_report(await replay(database, first, later), show=show)


def main() -> None:
    """Print a table, and a line of JSON."""
    parser = product_runs.create_folder_parser(__doc__)
    parser.add_argument("--train", type=int, required=True, help="sessions to learn from, the first in time")
    parser.add_argument("--show", action="store_true", help="also print what was told")
    options = parser.parse_args()
    product_runs.print_report(asyncio.run(run(options.folder, options.train, show=options.show)), options.json)


if __name__ == "__main__":
    main()
