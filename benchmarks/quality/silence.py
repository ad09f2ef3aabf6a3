"""Where the answer of a failure was lost: for each later failure without a right one, how far its cure had come.

A precedent is a failure of the sessions learned from, of the same line or operation, after which something worked that
also worked here, as `help_outcomes` says, or a call of the same form. Each is then followed through the product's own
functions: its record, its form, its solution, the form bound to this failure. The furthest one tells the stage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.quality.help_outcomes import LATER_CALLS, find_resolver, judge_failure, masked_line, named_calls
from benchmarks.quality.replayed_sessions import GIT_READS, READS, Call, ReplayedSession
from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.argument_redaction import redact_arguments
from consolidator.memory.calls.directory import in_directory, place_below, plain_path, strip_cd
from consolidator.memory.calls.operation import failed_symbol
from consolidator.memory.calls.symbols import is_edit, is_inspection, shell_command
from consolidator.memory.lessons.lesson import WORKED_CALL, Lesson, read_calls
from consolidator.memory.solutions import grouping
from consolidator.memory.solutions.error_line import headline
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.fingerprint import fingerprint
from consolidator.memory.solutions.fix_form import FixForm, forms_of_record
from consolidator.memory.solutions.fix_suggestion import FailedCall, suggest_fix
from consolidator.models.memory_filter import LessonFilter, SolutionFilter
from consolidator.models.solution import SolutionRow
from consolidator.service.memory.lessons import list_lessons, read_lesson
from consolidator.store.memory import listing
from consolidator.store.queries import fetch_all
from consolidator.store.sessions.sessions import imported_session_id

STAGES = (  # the later, the further a cure came
    "no precedent",
    "the same call again",
    "not recorded",
    "noise",
    "another resolver",
    "no form",
    "other fingerprint",
    "in one session",
    "in vain too often",
    "share below a third",
    "harm",
    "of one case",
    "not bound",
    "bound to another call",
    "another was told",
    "filtered",
)


@dataclass(frozen=True, slots=True)
class Silence:
    """A failure without a right answer."""

    stage: str
    detail: str  # which slot, rule or reason
    worked: str  # what then worked
    error: str
    sessions: int  # with a precedent
    held_in: tuple[str, ...]  # lessons and worked calls that have what worked


@dataclass(frozen=True, slots=True)
class _Recorded:
    session_id: str
    call_id: str
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Precedent:
    session: ReplayedSession
    position: int
    line: str
    operations: frozenset[str]
    cures: tuple[str, ...]  # what worked after it


class Silences:
    """What a database holds of the sessions it learned from, to be asked about later failures."""

    def __init__(
        self,
        first: Iterable[ReplayedSession],
        rows: Iterable[_Recorded],
        solutions: Iterable[SolutionRow],
        lessons: Iterable[Lesson],
    ) -> None:
        self._lessons = list(lessons)
        self._precedents = [each for session in first for each in _list_precedents(session)]
        self._records = {(row.session_id, row.call_id): row.record for row in rows}
        self._solutions = {row.fingerprint: row for row in solutions}

    @classmethod
    async def load(cls, database: Database, first: Iterable[ReplayedSession]) -> Silences:
        """Read what a database learned."""
        known = [
            await list_lessons(database, LessonFilter(kinds=kinds, limit=100_000)) for kinds in (None, (WORKED_CALL,))
        ]
        query = (
            "select e.session_id, e.data ->> 'call_id' as call_id, r.record from event e join error_record r"
            " using (session_id, seq)"
        )
        async with database.connection() as conn:
            rows = await fetch_all(conn, _Recorded, query)
            solutions = await listing.list_solutions(conn, SolutionFilter(include_unsolved=True, limit=100_000))
        return cls(first, rows, solutions, [read_lesson(row) for lessons in known for row in lessons])

    def explain(self, session: ReplayedSession, position: int, directory: str, *, told: bool) -> Silence:
        """Return how far the cure of a failure came; `told` where another answer was given."""
        failed = session.calls[position]
        arguments, root = redact_arguments(failed.arguments), plain_path(session.directory)
        call = FailedCall(failed.tool, arguments, place_below(directory, root), root)
        error = redact(failed.text)
        exact = fingerprint(failed_symbol(failed.tool, arguments, error), error)
        line, operations = masked_line(failed.text), _operations(failed)

        stages: list[tuple[int, str]] = []
        sessions: set[str] = set()
        for each in self._precedents:
            record = self._record_of(each)
            is_alike = each.line == line or (record is not None and record.fingerprint == exact)
            if not is_alike and not (operations & each.operations):
                continue
            if not (_is_right(each.cures, session, position) or _is_alike_by_form(record, session, position)):
                continue
            sessions.add(each.session.origin)
            stage, detail = self._follow(record, each, session, position, call, exact)
            stages.append((STAGES.index("another was told" if told and stage == "filtered" else stage), detail))
        if not stages and _is_repeated(session.calls, position):
            stages.append((STAGES.index("the same call again"), ""))
        furthest, detail = max(stages, default=(0, ""))
        return Silence(
            STAGES[furthest],
            detail,
            redact(find_resolver(session.calls[: position + 1 + LATER_CALLS], position) or ""),
            headline(error),
            len(sessions),
            tuple(_list_holding(self._lessons, session, position, operations)),
        )

    def _record_of(self, each: _Precedent) -> ErrorRecord | None:
        call_id = each.session.calls[each.position].call_id
        record = self._records.get((imported_session_id(each.session.agent, each.session.origin), call_id))
        return None if record is None else ErrorRecord.from_json(record)

    def _follow(
        self,
        record: ErrorRecord | None,
        each: _Precedent,
        session: ReplayedSession,
        position: int,
        call: FailedCall,
        exact: str,
    ) -> tuple[str, str]:
        """Return the stage at which a precedent's cure was lost."""
        if record is None:
            return "not recorded", each.session.calls[each.position].outcome
        if record.status == "noise":
            return "noise", record.noise_reason or ""
        if not (_is_right(_cures_of(record), session, position) or _is_alike_by_form(record, session, position)):
            return "another resolver", f"{record.rule} {record.resolving or ''}"[:80]
        keys = {case.form.key for case in forms_of_record(record)}
        if not keys:
            return "no form", record.rule or ""
        if record.fingerprint != exact:
            return "other fingerprint", record.fingerprint
        row = self._solutions.get(exact)
        if row is None:
            return "filtered", "no solution"
        fixes = [fix for fix in row.body["fixes"] if fix["form"] is not None and _key(fix) in keys]
        if not fixes:
            return ("harm", row.withheld[0][:80]) if row.withheld else ("of one case", "")
        return max((self._follow_fix(row, fix, session, position, call) for fix in fixes), key=_order)

    def _follow_fix(
        self, row: SolutionRow, fix: Mapping[str, Any], session: ReplayedSession, position: int, call: FailedCall
    ) -> tuple[str, str]:
        if not fix["confirmed"]:
            counts = f"worked {fix['worked']} of {fix['tried']}, {fix['sessions']} of {row.sessions} sessions"
            if fix["sessions"] < grouping.MIN_CONFIRMING_SESSIONS:
                return "in one session", counts
            if fix["worked"] < grouping.MIN_CONFIRMING_RATE * fix["tried"]:
                return "in vain too often", counts
            is_rare = fix["sessions"] < grouping.MIN_CONFIRMING_SHARE * row.sessions
            return ("share below a third" if is_rare else "of one case"), counts
        error = redact(session.calls[position].text)
        suggestion = suggest_fix({**row.body, "fixes": [fix]}, error, call)
        if suggestion is None or suggestion.tool is None:
            return "not bound", _open_slots(fix, headline(error), call)
        line = shell_command(suggestion.tool, suggestion.arguments)
        if judge_failure([line or suggestion.text], session, position) != "right":
            return "bound to another call", suggestion.text[:80]
        return "filtered", suggestion.text[:80]


def _is_right(cures: Iterable[str], session: ReplayedSession, position: int) -> bool:
    return any(judge_failure([cure], session, position) == "right" for cure in cures)


def _is_alike_by_form(record: ErrorRecord | None, session: ReplayedSession, position: int) -> bool:
    """Whether a later call has the form of what resolved a record, whatever words fill its slots."""
    forms = [] if record is None else [case.form for case in forms_of_record(record)]
    lines = [call.command for call in session.calls[position + 1 : position + 1 + LATER_CALLS] if call.outcome == "ok"]
    for words in (form.words for form in forms if form.tool is None and len(form.constants.split()) > 1):
        parts = (
            re.escape(part) if isinstance(part, str) else rf"{re.escape(part.before)}\S+{re.escape(part.after)}"
            for part in words
        )
        pattern = r"\s+".join(parts)
        if any(re.fullmatch(pattern, strip_cd(line).strip()) for line in lines if line):
            return True
    return False


def _list_precedents(session: ReplayedSession) -> Iterator[_Precedent]:
    for position, call in enumerate(session.calls):
        if not call.failed:
            continue
        cures = []
        for later in session.calls[position + 1 : position + 1 + LATER_CALLS]:
            is_near = find_resolver([call, later], 0) is not None
            if later.outcome == "ok" and (is_near or _operations(call) & _operations(later)):
                cures += [later.command] if later.command else _paths_of(later)
        if cures:
            yield _Precedent(session, position, masked_line(call.text), _operations(call), tuple(dict.fromkeys(cures)))


def _operations(call: Call) -> frozenset[str]:
    """Return what a shell call does, without what only looks."""
    acting = (
        (
            segment.operation
            for segment in call.segments
            if segment.operation.split()[0] not in READS and segment.operation.removeprefix("git ") not in GIT_READS
        )
        if call.command
        else ()
    )
    return frozenset(acting)


def _paths_of(call: Call) -> list[str]:
    values = call.arguments.values() if isinstance(call.arguments, dict) else ()
    return [value for value in values if isinstance(value, str) and "/" in value and len(value) < 300]


def _cures_of(record: ErrorRecord) -> list[str]:
    """Return the calls that resolved a record: the one that worked, and the steps before it."""
    texts = record.resolver_arguments
    cures = [step.argument for step in record.between if not is_inspection(step.symbol) and not is_edit(step.symbol)]
    if "command" in texts:
        moved = record.resolver_directory if record.resolver_directory != record.directory else None
        cures += [in_directory(texts["command"], record.moved_to or moved), texts["command"]]
    return [*cures, *([record.resolving] if record.resolving else []), *(t for t in texts.values() if "/" in t)]


def _is_repeated(calls: Sequence[Call], position: int) -> bool:
    failed = calls[position]
    later = calls[position + 1 : position + 1 + LATER_CALLS]
    return any(
        call.outcome == "ok" and call.tool == failed.tool and call.arguments == failed.arguments for call in later
    )


def _list_holding(
    lessons: Iterable[Lesson], session: ReplayedSession, position: int, operations: frozenset[str]
) -> Iterator[str]:
    """Yield the lessons about what failed that hold what worked."""
    failed = session.calls[position]
    for lesson in lessons:
        if not any(operation.split()[0] in f"{lesson.key} {lesson.line}".split() for operation in operations):
            continue
        calls = [call.call for call in read_calls(lesson)] if lesson.kind == WORKED_CALL else []
        calls += [*named_calls(lesson.line, failed), *([lesson.instead] if lesson.instead else [])]
        if judge_failure(calls, session, position) == "right":
            yield f"{lesson.kind} {lesson.key}"


def _key(fix: Mapping[str, Any]) -> str:
    return FixForm.from_json(fix["form"]).key


def _order(stage: tuple[str, str]) -> int:
    return STAGES.index(stage[0])


def _open_slots(fix: Mapping[str, Any], line: str, call: FailedCall) -> str:
    """Return the slots of a form that stay open, or that the failed call is another one than it replaces."""
    form = FixForm.from_json(fix["form"])
    if form.kind in ("place", "again", "inner", "edit"):
        return form.kind
    texts = {"command": shell_command(call.tool, call.arguments) or ""}
    values = fix["values"] if len(fix["values"]) == len(form.slots) else [()] * len(form.slots)
    slots = [
        slot.label
        for slot, known in zip(form.slots, values, strict=True)
        if FixForm("step", None, (slot,)).bind(line, texts, [known]) is None
    ]
    is_another = FixForm("call", None, (), form.failed).bind(line, texts) is None
    return ", ".join(slots) or ("another call failed" if form.kind == "call" and is_another else "may not be made")
