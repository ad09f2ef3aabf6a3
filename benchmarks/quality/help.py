"""Measure what agents would have been told: later sessions of a folder, replayed through the hooks of their agent,
Claude Code or Codex.

    python -m benchmarks.quality.help FOLDER --train N [--show] [--why]

The first N sessions in time are imported and learned from in one night, as the day after the last of them, where each
directory is known as the checkout that any of its sessions shows it to be, as it would say itself. The others
are then replayed event by event: each start, prompt and failure is handed to the functions that answer hooks, in the
client's own form, and each call of a shell to the program that warns before calls. What they tell is judged by what the
session then did (`help_outcomes`), beside a baseline of thirty lines. A failure that its exit code hides is reported to
no hook for failures; what would have been told of it is counted apart. `--why` follows what was lost (`silence`).
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer, open_server
from benchmarks.quality import product_runs
from benchmarks.quality.help_outcomes import (
    BY_HAND,
    VERDICTS,
    Baseline,
    describe_arguments,
    judge_failure,
    judge_warning,
    named_calls,
    named_directory,
)
from benchmarks.quality.replayed_sessions import Call, ReplayedSession, Step, find_format, read_sessions
from benchmarks.quality.silence import STAGES, Silence, Silences
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.merging.warning_file import DIRECTORY
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.directory import is_absolute, plain_path
from consolidator.memory.calls.symbols import shell_command
from consolidator.memory.recall.block import estimate_tokens
from consolidator.service.clients.hooks_text import hook_command
from consolidator.service.clients.installation import PROGRAMS
from consolidator.service.clients.registry import CLIENTS, Hook
from consolidator.service.hooks.payload import answer_hook, parse_hook
from consolidator.service.memory.telling.brief import Brief
from consolidator.store.sessions.sessions import imported_session_id

BEFORE_CALL = "PreToolUse"  # as both call it
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
    silences: list[tuple[Moment, str, Silence]] = field(
        default_factory=list
    )  # failures that nothing right was told of, if asked for

    def told(self, moment: Moment) -> list[Telling]:
        """Return what was told at a kind of moment."""
        return [telling for telling in self.tellings if telling.moment == moment]


@asynccontextmanager
async def open_learned(
    server: BenchmarkServer, folder: Path, train: int, **settings: Any
) -> AsyncIterator[tuple[Database, list[ReplayedSession], list[ReplayedSession]]]:
    """Yield a database that learned from a folder's first sessions, and the sessions: learned from, and later ones."""
    sessions = await asyncio.to_thread(read_sessions, folder)
    first, later = sessions[:train], sessions[train:]
    clock = FrozenClock(datetime.fromisoformat(first[-1].started) + timedelta(days=1))
    (server.home / DIRECTORY).mkdir(mode=0o700, exist_ok=True)  # where the night leaves its warnings
    async with server.open_database(clock) as database:
        log_format = find_format(folder)
        ids = [imported_session_id(session.agent, session.origin) for session in first]
        await product_runs.note_checkouts(database, folder, log_format)
        await product_runs.import_folder(database, folder, log_format, ids)
        await product_runs.run_night(database, server, **settings)
        yield database, first, later


async def replay(
    database: Database,
    home: Path,
    first: Sequence[ReplayedSession],
    later: Iterable[ReplayedSession],
    *,
    why: bool = False,
) -> Replay:
    """Replay sessions, one after the other, and judge what they were told; `home` has the night's file of warnings."""
    result, baseline = Replay(), Baseline(first)
    silences = await Silences.load(database, first) if why else None
    for session in later:
        result.sessions += 1
        await _SessionReplay(database, home, session, result, baseline, silences).run()
    return result


class _SessionReplay:
    """One session's replay: as the service of the hooks, it remembers what the session was shown."""

    def __init__(
        self,
        database: Database,
        home: Path,
        session: ReplayedSession,
        result: Replay,
        baseline: Baseline,
        silences: Silences | None,
    ) -> None:
        self._database, self._home, self._silences = database, home, silences
        self._session, self._result, self._baseline = session, result, baseline
        self._client = CLIENTS[session.agent]
        self._failure = next(hook for hook in self._client.hooks if hook.moment == "failure")
        self._shown: set[str] = set()

    async def run(self) -> None:
        """Hand every event to its hook."""
        start = await self._ask("SessionStart", {"source": "startup"}, self._session.directory)
        self._note("start", "", _text_of(start))
        for step in self._session.steps:
            if step.kind == "prompt":
                answer = await self._ask("UserPromptSubmit", {"prompt": step.text}, step.directory)
                self._note("prompt", redact(step.text), _text_of(answer))
            elif step.kind == "call":
                await self._ask_before(step)
            elif self._session.calls[step.call].failed:
                await self._ask_after(step)

    def _payload(self, event: str, fields: Mapping[str, Any], directory: str) -> dict[str, Any]:
        return {
            "session_id": self._session.origin,
            "transcript_path": str(self._session.path),
            "cwd": directory,
            "hook_event_name": event,
            **fields,
        }

    async def _ask(self, event: str, fields: Mapping[str, Any], directory: str) -> Brief | None:
        """Call the functions that answer a hook; None too for an event without a hook."""
        payload = json.dumps(self._payload(event, fields, directory)).encode()
        call = parse_hook(self._client.name, event, payload, self._session.directory)
        if call is None:
            return None
        answer = await answer_hook(self._database, call, self._shown)
        self._shown |= set() if answer is None else set(answer.shown)
        return answer

    async def _ask_before(self, step: Step) -> None:
        """Run the program that warns before a call, for the tools that its hook is installed for."""
        call, hook = self._session.calls[step.call], self._client.hook(BEFORE_CALL)
        described = self._describe_call(call)
        if hook is None or not _is_matched(hook, described):
            return
        body = self._payload(BEFORE_CALL, described, step.directory)
        command = hook_command(hook, sys.executable, PROGRAMS, str(self._home), self._client.name)
        program = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
        printed, _ = await program.communicate(json.dumps(body).encode())
        text = json.loads(printed)["hookSpecificOutput"]["additionalContext"] if printed else None
        told = [] if text is None else named_calls(text, call)
        self._note("call", _about(call), text, judge_warning(told, self._session, step.call), told)

    async def _ask_after(self, step: Step) -> None:
        """Ask of a failed call; of one whose exit code hides it, as if the client had seen that."""
        call = self._session.calls[step.call]
        moment: Moment = "failure" if call.outcome == "failed" else "masked failure"
        fields = {**self._describe_call(call), "error": call.text, "is_interrupt": False}
        fields["tool_response"] = f"Exit code: 1\nOutput:\n{call.text}"  # as Codex says it
        is_asked = _is_matched(self._failure, fields)
        answer = await self._ask(self._failure.event, fields, step.directory) if is_asked else None
        told = [] if answer is None else self._read_calls(answer, call)
        verdict = judge_failure(told, self._session, step.call)
        self._note(moment, _about(call), _text_of(answer), verdict, told)
        if self._silences is not None and verdict not in ("right", "too late"):
            silence = self._silences.explain(self._session, step.call, step.directory, told=answer is not None)
            self._result.silences.append((moment, _about(call), silence))
        suggested = self._baseline.answer(call)
        if suggested is not None:
            self._result.baseline.append((moment, judge_failure([suggested], self._session, step.call)))

    def _describe_call(self, call: Call) -> dict[str, Any]:
        """Return a call as its agent's hooks describe it: Codex calls each shell so, and has its line."""
        line = shell_command(call.tool, call.arguments) if self._client.name == "codex" else None
        tool, arguments = (call.tool, call.arguments) if line is None else ("Bash", {"command": line})
        return {"tool_name": tool, "tool_input": arguments, "tool_use_id": call.call_id}

    def _read_calls(self, answer: Brief, call: Call) -> list[str]:
        """Return the calls that an answer tells to make: the one that it carries, else those in its text."""
        carried = answer.fix.get("call")
        if carried is None and isinstance(answer.fix.get("tool"), str):
            arguments = answer.fix.get("arguments")
            carried = shell_command(answer.fix["tool"], arguments) or (arguments and describe_arguments(arguments))
        if not carried and BY_HAND in answer.block.text:
            return [BY_HAND]
        calls = [str(carried)] if carried else named_calls(answer.block.text, call)
        place = named_directory(answer.block.text, self._session.directory)
        folder = None if place is None else shlex.quote(plain_path(f"{self._session.directory}/{place}"))
        if place is not None and is_absolute(place):
            folder = shlex.quote(place)
        return [line if folder is None or "cd " in line else f"cd {folder} && {line}" for line in calls]

    def _note(
        self, moment: Moment, about: str, text: str | None, verdict: str | None = None, calls: Sequence[str] = ()
    ) -> None:
        self._result.asked[moment] += 1
        if text is not None:
            tokens = estimate_tokens(text)
            telling = Telling(self._session.origin, moment, about[:300], text, tokens, verdict, tuple(calls))
            self._result.tellings.append(telling)


def _text_of(answer: Brief | None) -> str | None:
    return None if answer is None else answer.block.text


def _is_matched(hook: Hook, described: Mapping[str, Any]) -> bool:
    return re.search(hook.matcher or "", described["tool_name"]) is not None


def _about(call: Call) -> str:
    """Return a call as it is printed: whatever its session held, no credential."""
    return redact(call.command or f"{call.tool} {json.dumps(call.arguments)}")


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
    stages = Counter(silence.stage for *_, silence in result.silences)
    for stage in STAGES if stages else ():
        report.add(f"without a right answer: {stage}", stages[stage], f"of {stages.total()}")
    if show:
        report.details["silences"] = [(moment, about, asdict(silence)) for moment, about, silence in result.silences]
        report.notes += [
            f"{silence.stage} ({silence.detail}; {silence.sessions} sessions; {silence.held_in}) {moment} "
            f"{about[:200]!r}: {silence.error[:150]!r} -> {silence.worked[:200]!r}"
            for moment, about, silence in result.silences
        ]
        report.details["told"] = [asdict(telling) for telling in result.tellings]
        report.notes += [
            f"{telling.moment} {telling.verdict or ''} {telling.about!r} {telling.calls}: {telling.text}"
            for telling in result.tellings
        ]
    return report


async def run(folder: Path, train: int, *, show: bool = False, why: bool = False) -> Report:
    """Measure a folder, on the benchmark server."""
    async with open_server() as server, open_learned(server, folder, train) as (database, first, later):
        return build_report(await replay(database, server.home, first, later, why=why), show=show)


def main() -> None:
    """Print a table, and a line of JSON."""
    parser = product_runs.create_folder_parser(__doc__)
    parser.add_argument("--train", type=int, required=True, help="sessions to learn from, the first in time")
    parser.add_argument("--show", action="store_true", help="also print what was told")
    parser.add_argument("--why", action="store_true", help="also follow what would have helped and was not told")
    options = parser.parse_args()
    report = asyncio.run(run(options.folder, options.train, show=options.show, why=options.why))
    product_runs.print_report(report, options.json)


if __name__ == "__main__":
    main()
