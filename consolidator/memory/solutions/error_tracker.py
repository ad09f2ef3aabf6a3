"""Track the failed calls of a session until something resolves them: a left fold over calls with bounded state.

Pure. However a session is cut into nights, the records are the same. The state holds redacted text only.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from consolidator.memory.calls.argument_redaction import argument_redactor, redact_arguments
from consolidator.memory.calls.argument_summary import (
    MAX_SUMMARY,
    argument_texts,
    describe_edit,
    shorten,
    summarize_arguments,
)
from consolidator.memory.calls.blame import find_named
from consolidator.memory.calls.call_pairing import CompletedCall
from consolidator.memory.calls.directory import call_directory, find_place, is_other_directory
from consolidator.memory.calls.guards import switches_off_check
from consolidator.memory.calls.operation import Operation, failed_symbol, parse_operations
from consolidator.memory.calls.shell import parse_commands
from consolidator.memory.calls.symbols import SHELL_PREFIX, call_symbol, shell_command, tool_symbol
from consolidator.memory.plain import Plain
from consolidator.memory.solutions.call_edit import MAX_LINE, CallEdit, find_edits
from consolidator.memory.solutions.error_line import (
    MAX_HEADLINE,
    ErrorLine,
    find_error_line,
    headline,
    shows_failure,
    truncate_middle,
)
from consolidator.memory.solutions.error_records import ErrorRecord, ErrorVariable, FailedAttempt, FixStep
from consolidator.memory.solutions.fingerprint import (
    VERSION,
    fingerprint_headline,
    is_wrong_place,
    masked_values,
    missing_command,
)
from consolidator.memory.solutions.line_kinds import NO_FOLDER
from consolidator.memory.solutions.operation_matching import OperationMatch
from consolidator.memory.solutions.resolution import (
    LaterCall,
    ResolutionGrade,
    grade_resolution,
    is_refused_commit,
    noise_reason,
    pick_maker,
    signature_of,
)

WINDOW = 40  # calls within which an error may be resolved
MAX_BETWEEN = 8
MAX_TRIED = 5
MAX_QUOTE = 500  # characters
MAX_FAILING = 300  # characters
MAX_ATTEMPTS = 5
MAX_ARGUMENT = 500  # characters of an argument that a record keeps
MAX_ARGUMENTS = 12
MAX_UNJUDGED = 8  # resolved errors whose fix the person may yet reject, the latest
_REJECTS = re.compile(
    r"\W*(?:no+\b(?! (?:problem|worries|need))|nope|stop\b|wrong\b|undo\b|revert\b|don'?t\b|do not\b|never do\b"
    r"|that(?:'s| is| was) (?:not|wrong)|this is (?:not|wrong)|(?:i|we) (?:did ?n[o']t|never) (?:ask|want|said)"
    r"|why (?:did|would|are) you|(?:please )?(?:undo|revert|roll back)\b)",
    re.IGNORECASE,
)
FAILED_CD = f"{SHELL_PREFIX}cd"  # the symbol of a call whose folder is not there
_UNRESOLVED: dict[str, Any] = {
    **dict.fromkeys(("resolver_index", "resolver_seq", "resolver_symbol", "resolver_directory", "resolving")),
    **dict.fromkeys(("resolver_place", "rule", "change", "outcome", "noise_reason")),
    "status": "open",
    "between": (),
    "edits": (),
    "resolver_arguments": {},
}
_MAX_REDACTED = 4096  # characters of a step's arguments that are redacted before they are shortened


@dataclass(slots=True)
class _OpenError(Plain):
    """An error whose window is still open."""

    record: ErrorRecord
    operation: Operation
    argument_texts: dict[str, str]
    line: str = ""  # of a shell's call, redacted
    grade: ResolutionGrade = ResolutionGrade.NONE
    failed_differently: bool = False  # it was run again with another error: only the steps before that helped

    def find_edits(self, line: str | None) -> tuple[CallEdit, ...]:
        """Return how another line was made of the failed one."""
        return find_edits(self.line, line or "", self.record.symbol, f"{self.record.headline}\n{self.record.quote}")


@dataclass(slots=True)
class _RecentCall:
    """One of the last calls, which may have come between an error and its resolver; described on demand."""

    index: int
    seq: int
    ok: bool
    tool: str = ""
    arguments: Any = None
    step: FixStep | None = None
    inspects: bool = False  # only read something; known once it is described
    switches_off: bool = False  # left a check switched off for the calls after it; likewise

    def describe(self, redact: Callable[[str], str]) -> FixStep:
        """Return the call as a step, redacted; its arguments are dropped."""
        if self.step is None:
            operation = parse_operations(self.tool, self.arguments)[0]
            self.inspects = operation.inspects
            self.switches_off = switches_off_check(self.tool, self.arguments)
            symbol = operation.key if operation.kind == "tool" else tool_symbol(self.tool, self.arguments)
            redact_named = argument_redactor(redact).redact_named
            summary = summarize_arguments(self.tool, self.arguments, _MAX_REDACTED, redact_named=redact_named)
            detail = describe_edit(self.arguments, redact)
            self.step = FixStep(symbol, shorten(redact(summary), MAX_SUMMARY), detail)
            self.arguments = None
        return self.step


@dataclass(slots=True)
class ErrorTracker:
    """Tracks a session's failed calls. Feed it completed calls; take the new and changed records after each night.

    The state that `to_json` returns holds the open errors, the last calls and the records that were not taken yet. The
    window bounds it, however long the session is.
    """

    redact: Callable[[str], str]
    _records: dict[int, ErrorRecord] = field(default_factory=dict)  # by seq
    _changed: set[int] = field(default_factory=set)  # seqs
    _open_errors: list[_OpenError] = field(default_factory=list)
    _recent_calls: deque[_RecentCall] = field(default_factory=lambda: deque(maxlen=WINDOW + 8))
    _unjudged: dict[int, ErrorRecord] = field(default_factory=dict)  # by seq: resolved since the person spoke

    @property
    def records(self) -> list[ErrorRecord]:
        """The records of all failed calls so far (after `from_json`: the open and the new ones), in order of seq."""
        return [self._records[seq] for seq in sorted(self._records)]

    def take_changed(self) -> list[ErrorRecord]:
        """Return the records that are new or changed since the last take, in order of seq."""
        changed = [self._records[seq] for seq in sorted(self._changed)]
        self._changed.clear()
        return changed

    def feed(self, call: CompletedCall) -> None:
        """Take the next completed call."""
        self._close_windows(call.index)
        worked = call.ok and not _lacks_program(call)
        if not worked:
            self._add_failure(call)
        elif self._open_errors:
            self._resolve_errors(LaterCall.of_call(call, call.arguments))
        self._recent_calls.append(_RecentCall(call.index, call.seq, worked, call.tool, call.arguments))

    def feed_user_message(self, text: str) -> None:
        """Take what the person said: it may reject what was done since they spoke."""
        if _REJECTS.match(text):
            for record in list(self._unjudged.values()):
                self._save(replace(record, outcome="rejected"))
        self._unjudged.clear()
        for error in self._open_errors:
            error.record = replace(error.record, person_spoke=True)

    def _add_failure(self, call: CompletedCall) -> None:
        arguments = redact_arguments(call.arguments)  # everything kept of an error comes from these
        text = self.redact(truncate_middle(call.result_text))
        line = find_error_line(text)
        later = LaterCall.of_call(call, arguments, text)
        record = self._build_record(later, arguments, text, line)
        if record.status != "noise":
            texts, shell_line = argument_texts(call.tool, arguments), shell_command(call.tool, arguments) or ""
            self._update_repeated_errors(later, record, shell_line)
            self._open_errors.append(_OpenError(record, later.operations[0], texts, shell_line[: MAX_LINE + 1]))
        self._save(record)

    def _build_record(self, later: LaterCall, arguments: Any, text: str, line: ErrorLine) -> ErrorRecord:
        call, operation = later.call, later.operations[0]
        headline = line.text[:MAX_HEADLINE]
        has_no_folder = operation.kind == "shell" and NO_FOLDER.match(headline) is not None
        # What came after did not run.
        symbol = FAILED_CD if has_no_folder else failed_symbol(call.tool, arguments, text)
        reason = None if call.ok else noise_reason(call, text)
        return ErrorRecord(
            seq=call.seq,
            index=call.index,
            result_seq=call.result_seq,
            occurred_at=call.occurred_at,
            tool=call.tool,
            symbol=symbol,
            operation=FAILED_CD if has_no_folder else operation.key,
            fingerprint=fingerprint_headline(symbol, headline),
            headline=headline,
            quote=text[line.start : line.start + MAX_QUOTE].strip(),
            failing=summarize_arguments(call.tool, arguments, MAX_FAILING),
            status="noise" if reason else "open",
            noise_reason=reason,
            arguments=_kept_arguments(argument_texts(call.tool, arguments)),
            directory=call_directory(call.tool, arguments),
            place=None if has_no_folder else self._find_place(call, arguments),
            variables=tuple(ErrorVariable(kind, value) for kind, value in masked_values(headline)),
        )

    def _find_place(self, call: CompletedCall, arguments: Any) -> str | None:
        cwd, root = (path and self.redact(path) for path in (call.cwd, call.root))
        return find_place(call.tool, arguments, cwd, root)

    def _save(self, record: ErrorRecord) -> None:
        self._records[record.seq] = record
        self._changed.add(record.seq)
        self._unjudged.pop(record.seq, None)
        if record.outcome == "worked":
            self._unjudged[record.seq] = record
            if len(self._unjudged) > MAX_UNJUDGED:
                del self._unjudged[next(iter(self._unjudged))]

    def _close_windows(self, index: int) -> None:
        """Close the windows that end before the call at `index`."""
        for error in [error for error in self._open_errors if index > error.record.index + WINDOW]:
            self._open_errors.remove(error)
            if error.record.status == "open":
                self._save(replace(error.record, status="unresolved"))

    def _errors_before(self, call: CompletedCall) -> list[_OpenError]:
        """Return the errors whose results were known when a call was made: parallel calls resolve nothing."""
        return [error for error in self._open_errors if error.record.result_seq < call.seq]

    def _resolve_errors(self, later: LaterCall) -> None:
        status_hidden = later.operations[0].hidden
        for error in self._errors_before(later.call):
            grade = grade_resolution(error.record, error.operation, error.argument_texts, later)
            if grade <= error.grade or (status_hidden and shows_failure(later.call.result_text)):
                continue
            if self._was_check_switched_off(error, later.call):
                continue
            if not is_refused_commit(error.record) or not self._resolve_by_check(error, later):
                self._resolve(error, later, grade)
            if grade is ResolutionGrade.SAME:  # nothing later can be a better resolver
                self._open_errors.remove(error)

    def _update_repeated_errors(self, later: LaterCall, record: ErrorRecord, shell_line: str) -> None:
        """Update the errors of the same operation: the same error again was a vain try, another one supersedes it."""
        for error in self._errors_before(later.call):
            if later.match(error.record, error.operation) is not OperationMatch.SAME:
                continue
            is_same_error = signature_of(error.record) == signature_of(record)
            steps = self._steps_between(error.record.last_try, record.index)
            attempt = FailedAttempt(
                record.index,
                record.seq,
                record.symbol,
                record.arguments,
                record.directory,
                record.headline,
                is_same_error,
                steps,
                record.place,
                error.find_edits(shell_line),
            )
            attempts = (*error.record.attempts, attempt)[-MAX_ATTEMPTS:]
            error.record = replace(error.record, attempts=attempts)
            self._save(error.record)
            if is_same_error:
                self._add_vain_try(error, record)
            elif error.grade < ResolutionGrade.SUPERSEDED:
                error.failed_differently = True
                self._resolve(error, later, ResolutionGrade.SUPERSEDED)

    def _was_check_switched_off(self, error: _OpenError, call: CompletedCall) -> bool:
        """Whether a call between an error and its resolver left a check switched off: then the cause is not mended."""
        between = [recent for recent in self._recent_calls if error.record.index < recent.index < call.index]
        for recent in between:
            recent.describe(self.redact)
        return any(recent.switches_off and recent.ok for recent in between)

    def _add_vain_try(self, error: _OpenError, record: ErrorRecord) -> None:
        attempt = shorten(f"{record.failing}: {record.headline}", 200)
        tried = (*error.record.tried, attempt)[-MAX_TRIED:]
        error.record = replace(error.record, tried=tried)
        if error.grade not in (ResolutionGrade.NONE, ResolutionGrade.SUBSTITUTION):  # the error is back: reopen it
            error.grade, error.failed_differently = ResolutionGrade.NONE, False
            error.record = replace(error.record, **_UNRESOLVED)
        self._save(error.record)

    def _resolve(self, error: _OpenError, later: LaterCall, grade: ResolutionGrade) -> None:
        call = later.call
        arguments = redact_arguments(call.arguments)
        texts = argument_texts(call.tool, arguments)
        place = self._find_place(call, arguments) if error.record.place is not None else None
        directory = call_directory(call.tool, arguments)
        # One that says no directory runs where the shell was left.
        is_meant = None in (error.record.directory, directory) and is_wrong_place(error.record.headline)
        if place is None and not is_meant and not is_other_directory(error.record.directory, directory):
            directory = error.record.directory
        is_there = directory == error.record.directory if place is None else place == error.record.place
        between = error.record.between
        if not error.failed_differently or grade is ResolutionGrade.SUPERSEDED:
            between = self._steps_between(error.record.last_try, call.index)
        error.grade = grade
        error.record = replace(
            error.record,
            status="resolved",
            resolver_index=call.index,
            resolver_seq=call.seq,
            resolver_symbol=call_symbol(call),
            noise_reason=None,
            rule=grade.rule,
            resolving=summarize_arguments(call.tool, arguments, MAX_FAILING),
            change=_compare(error.argument_texts, texts) if is_there else "other",
            between=between,
            resolver_arguments=_kept_arguments(texts),
            resolver_directory=error.record.directory if is_there else directory,
            resolver_place=place,
            edits=error.find_edits(shell_command(call.tool, arguments)) if is_there else (),
            outcome="another error" if grade is ResolutionGrade.SUPERSEDED else "worked",
        )
        self._save(error.record)

    def _resolve_by_check(self, error: _OpenError, later: LaterCall) -> bool:
        """Resolve a commit that a check refused by what made the check pass; return False where nothing is known to."""
        calls = self._successes_between(error.record.last_try, later.call.index)
        steps = [call.describe(self.redact) for call in calls]
        position = pick_maker(steps)
        if position is None:
            return False
        error.grade = ResolutionGrade.SAME
        error.record = replace(
            error.record,
            **_UNRESOLVED
            | {
                "status": "resolved",
                "resolver_index": calls[position].index,
                "resolver_seq": calls[position].seq,
                "resolver_symbol": steps[position].symbol,
                "rule": "check",
                "resolving": steps[position].argument,
                "between": tuple(steps[max(0, position - MAX_BETWEEN) : position]),
                "outcome": "worked",
            },
        )
        self._save(error.record)
        return True

    def _successes_between(self, start: int, end: int) -> list[_RecentCall]:
        return sorted((c for c in self._recent_calls if start < c.index < end and c.ok), key=lambda c: c.index)

    def _steps_between(self, start: int, end: int) -> tuple[FixStep, ...]:
        """Return the successful calls between two indexes; of many, those that changed something come first."""
        calls = self._successes_between(start, end)
        steps = [(call.describe(self.redact), call.inspects) for call in calls]
        if len(steps) > MAX_BETWEEN:
            steps = [(step, inspects) for step, inspects in steps if not inspects] or steps
        return tuple(step for step, _ in steps[-MAX_BETWEEN:])

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {
            "open": [error.to_json() for error in self._open_errors],
            "seen": [
                [c.index, c.seq, c.ok, c.describe(self.redact).to_json(), c.inspects, c.switches_off]
                for c in self._recent_calls
            ],
            "unjudged": [record.to_json() for record in self._unjudged.values()],
            "untaken": [self._records[seq].to_json() for seq in sorted(self._changed)],
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any], redact: Callable[[str], str]) -> ErrorTracker:
        """Continue from a state that `to_json` returned."""
        tracker = cls(redact)
        tracker._open_errors = [_OpenError.from_json(error) for error in state["open"]]
        for error in tracker._open_errors:
            error.record = renew_fingerprint(error.record)
            tracker._records[error.record.seq] = error.record
        for index, seq, ok, step, inspects, switches_off in state["seen"]:
            recent = _RecentCall(index, seq, ok, step=FixStep(**step), inspects=inspects, switches_off=switches_off)
            tracker._recent_calls.append(recent)
        for data in state["untaken"]:
            tracker._save(renew_fingerprint(ErrorRecord.from_json(data)))
        unjudged = (renew_fingerprint(ErrorRecord.from_json(data)) for data in state.get("unjudged", ()))
        tracker._unjudged = {record.seq: record for record in unjudged}
        return tracker


def _lacks_program(call: CompletedCall) -> bool:
    """Whether the shell says that it has not found a program of a line, whose exit status is that of another."""
    if "command not found" not in call.result_text:
        return False
    commands = parse_commands(shell_command(call.tool, call.arguments) or "")
    named = find_named(commands, call.result_text)
    if named is None or (named + 1 < len(commands) and commands[named + 1].link == "||"):  # another took its place
        return False
    return missing_command(headline(call.result_text)) == commands[named].program


def renew_fingerprint(record: ErrorRecord) -> ErrorRecord:
    """Return a record with the fingerprint that its headline has now: another version may have stored it."""
    if record.fingerprint.startswith(f"{VERSION}:"):
        return record
    return replace(record, fingerprint=fingerprint_headline(record.symbol, record.headline))


def _compare(failing: Mapping[str, str], resolving: Mapping[str, str]) -> str:
    """Return how two calls' `argument_texts` differ: not at all, in spacing alone, or otherwise."""
    if failing == resolving:
        return "none"
    plain = ({key: text.split() for key, text in texts.items()} for texts in (failing, resolving))
    return "spacing" if next(plain) == next(plain) else "other"


def _kept_arguments(texts: Mapping[str, str]) -> dict[str, str]:
    """Return a call's `argument_texts` as a record keeps them: of many the first, of long ones the beginning."""
    return {key: text[:MAX_ARGUMENT] for key, text in list(texts.items())[:MAX_ARGUMENTS]}
