"""Follows the failed calls of a session until something resolves them: a left fold over calls, with bounded state.

Pure. However a session is cut into nights, the records are the same; the state holds redacted text only.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from typing import Any

from consolidator.memory.calls.argument_diff import ArgumentChange, argument_texts, describe_edit, diff_arguments
from consolidator.memory.calls.argument_redaction import argument_redactor, redact_arguments
from consolidator.memory.calls.argument_summary import MAX_SUMMARY, shorten, summarize_arguments
from consolidator.memory.calls.call_pairing import CompletedCall
from consolidator.memory.calls.operation import Operation, parse_operations
from consolidator.memory.calls.symbols import call_symbol, tool_symbol
from consolidator.memory.solutions import fingerprint as naming
from consolidator.memory.solutions import operation_matching
from consolidator.memory.solutions.noise import noise_reason
from consolidator.memory.solutions.operation_matching import OperationMatch

WINDOW = 40  # calls within which an error may be resolved
NEAR = 2  # calls within which another program may take a failed one's place
MOVED = 10  # calls within which a file that was not there may be found elsewhere
MAX_BETWEEN = 8
MAX_TRIED = 5
MAX_QUOTE = 500
MAX_FAILING = 300
_LOOKED_AT = 4096
_MISSING = re.compile(r"not exist|no such file|not found|cannot find|enoent", re.IGNORECASE)
_UNUSABLE = re.compile(
    r"command not found|no module named|not installed|unknown command|is not recognized", re.IGNORECASE
)


class ResolutionGrade(IntEnum):
    """How sure a resolver is; a surer one takes the place of a less sure one while the window is open."""

    NONE = 0
    SUPERSEDED = 1
    SUBSTITUTION = 2
    PART = 3
    SAME = 4


@dataclass(frozen=True, slots=True)
class FixStep:
    """A successful call between an error and its resolver."""

    symbol: str
    argument: str
    detail: str = ""  # of an edit: what it put in place of what


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """A failed call and what became of it."""

    seq: int  # of the ToolCall event
    index: int  # of the call in its session
    result_seq: int  # of the ToolResult event
    occurred_at: str  # of the call, ISO 8601
    tool: str
    symbol: str  # "sh:git push"; else the tool's name
    operation: str  # what "the same operation" goes by
    fingerprint: str
    headline: str  # the telling line, redacted
    quote: str  # an excerpt of the redacted result, verbatim
    failing: str  # what the call was given, redacted
    status: str = "open"  # open | resolved | unresolved | noise
    noise_reason: str | None = None  # rejected | aborted | cascade | found nothing | polling
    resolver_index: int | None = None
    resolver_seq: int | None = None
    resolver_symbol: str | None = None
    rule: str | None = None  # same-operation | substitution | superseded
    resolving: str | None = None  # what the resolver was given
    fix: tuple[ArgumentChange, ...] = ()  # failing -> resolving
    between: tuple[FixStep, ...] = ()  # what succeeded in between, up to the first run that failed otherwise
    tried: tuple[str, ...] = ()  # what failed in between

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            **asdict(self),
            "fix": [asdict(change) for change in self.fix],
            "between": [asdict(step) for step in self.between],
            "tried": list(self.tried),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ErrorRecord:
        """Return the record that `to_json` described."""
        lists = {
            "fix": tuple(ArgumentChange(**change) for change in data["fix"]),
            "between": tuple(FixStep(**step) for step in data["between"]),
            "tried": tuple(data["tried"]),
        }
        return cls(**{**data, **lists})


@dataclass(slots=True)
class _Open:
    """An error whose window is still open."""

    record: ErrorRecord
    operation: Operation
    said: dict[str, str]
    grade: ResolutionGrade = ResolutionGrade.NONE
    otherwise: bool = False  # it was run again and failed otherwise: what came before that is what helped

    def to_json(self) -> dict[str, Any]:
        return {
            "record": self.record.to_json(),
            "operation": self.operation.to_json(),
            "said": self.said,
            "grade": int(self.grade),
            "otherwise": self.otherwise,
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> _Open:
        return cls(
            ErrorRecord.from_json(state["record"]),
            Operation.from_json(state["operation"]),
            dict(state["said"]),
            ResolutionGrade(state["grade"]),
            state["otherwise"],
        )


@dataclass(slots=True)
class _Seen:
    """A call of the last few, for telling what came between; it is put in words when they are needed."""

    index: int
    ok: bool
    tool: str = ""
    arguments: Any = None
    step: FixStep | None = None
    inspects: bool = False

    def told(self, redact: Callable[[str], str]) -> FixStep:
        """Return the call as a step, redacted; its arguments are let go."""
        if self.step is None:
            operation = parse_operations(self.tool, self.arguments)[0]
            self.inspects = operation.inspects
            name = operation.key if operation.kind == "tool" else tool_symbol(self.tool, self.arguments)
            argument = redact(
                summarize_arguments(
                    self.tool, self.arguments, _LOOKED_AT, redact_named=argument_redactor(redact).redact_named
                )
            )
            self.step = FixStep(name, shorten(argument, MAX_SUMMARY), describe_edit(self.arguments, redact))
            self.arguments = None
        return self.step


@dataclass(frozen=True, slots=True)
class _Later:
    """A call that may resolve what is open."""

    call: CompletedCall
    operations: list[Operation]

    def match(self, error: _Open) -> OperationMatch:
        """Tell how well it is the same operation as the failed one."""
        found = max(operation_matching.match_operations(error.operation, operation) for operation in self.operations)
        if found is OperationMatch.NONE and self.call.index <= error.record.index + MOVED:
            gone = _MISSING.search(error.record.headline) is not None
            found = (
                OperationMatch.SAME
                if gone and operation_matching.is_moved_file(error.operation, self.operations[0])
                else found
            )
        return found


@dataclass(slots=True)
class ErrorTracker:
    """Feed it a session's completed calls; take what is new or changed after each night.

    The state that `to_json` returns holds the open errors, the last calls and what was not taken yet: bounded by the
    window, however long the session is.
    """

    redact: Callable[[str], str]
    _records: dict[int, ErrorRecord] = field(default_factory=dict)
    _changed: set[int] = field(default_factory=set)
    _open: list[_Open] = field(default_factory=list)
    _seen: deque[_Seen] = field(default_factory=lambda: deque(maxlen=WINDOW + 8))

    @property
    def records(self) -> list[ErrorRecord]:
        """Every failed call fed so far (after `from_json`: those still open, and new ones), in order of seq."""
        return [self._records[seq] for seq in sorted(self._records)]

    def take_changed(self) -> list[ErrorRecord]:
        """Return the records that are new or changed since the last take, in order of seq."""
        taken = [self._records[seq] for seq in sorted(self._changed)]
        self._changed.clear()
        return taken

    def feed(self, call: CompletedCall) -> None:
        """Take the next completed call."""
        self._expire(call.index)
        if self._open or not call.ok:
            self._judge(call)
        self._seen.append(_Seen(call.index, call.ok, call.tool, call.arguments))

    def _judge(self, call: CompletedCall) -> None:
        if call.ok:
            self._succeeded(_Later(call, parse_operations(call.tool, call.arguments)))
            return
        arguments = redact_arguments(
            call.arguments, self.redact
        )  # what is kept of an error is redacted before all else
        later = _Later(call, parse_operations(call.tool, arguments))
        record = self._record(later, arguments)
        if record.status != "noise":
            self._failed(later, record)
            self._open.append(_Open(record, later.operations[0], argument_texts(call.tool, arguments)))
        self._put(record)

    def _record(self, later: _Later, arguments: Any) -> ErrorRecord:
        call = later.call
        text = self.redact(naming.truncate_middle(call.result_text))
        line = naming.find_error_line(naming.extract_error_text(text))
        said_there = line.text[: naming.MAX_HEADLINE]
        name = call_symbol(call)
        reason = noise_reason(call, text)
        return ErrorRecord(
            seq=call.seq,
            index=call.index,
            result_seq=call.result_seq,
            occurred_at=call.occurred_at,
            tool=call.tool,
            symbol=name,
            operation=later.operations[0].key,
            fingerprint=naming.fingerprint_headline(name, said_there),
            headline=said_there,
            quote=_quote(text, line),
            failing=summarize_arguments(call.tool, arguments, MAX_FAILING),
            status="noise" if reason else "open",
            noise_reason=reason,
        )

    def _put(self, record: ErrorRecord) -> None:
        self._records[record.seq] = record
        self._changed.add(record.seq)

    def _expire(self, index: int) -> None:
        """Close the windows that end before this call."""
        for error in [error for error in self._open if index > error.record.index + WINDOW]:
            self._open.remove(error)
            if error.record.status == "open":
                self._put(replace(error.record, status="unresolved"))

    def _reachable(self, call: CompletedCall) -> list[_Open]:
        """Return the errors that were known when this call was made: parallel calls resolve nothing."""
        return [error for error in self._open if error.record.result_seq < call.seq]

    def _succeeded(self, later: _Later) -> None:
        hidden = later.operations[0].hidden
        for error in self._reachable(later.call):
            found = later.match(error)
            near = later.call.index <= error.record.index + NEAR
            if found is OperationMatch.SAME:
                grade = ResolutionGrade.SAME
            elif found is OperationMatch.WEAK:
                grade = ResolutionGrade.PART
            elif near and self._replaces(error, later.operations[0]):
                grade = ResolutionGrade.SUBSTITUTION
            else:
                continue
            if grade <= error.grade or (hidden and naming.reports_failure(later.call.result_text)):
                continue
            self._resolve(error, later, grade)
            if grade is ResolutionGrade.SAME:
                self._open.remove(error)

    def _replaces(self, error: _Open, operation: Operation) -> bool:
        unusable = _UNUSABLE.search(error.record.headline) is not None
        return operation_matching.is_substitute(error.operation, operation, unusable)

    def _failed(self, later: _Later, record: ErrorRecord) -> None:
        """The same operation failed again: with the same error it was tried in vain, with another the first is gone."""
        for error in self._reachable(later.call):
            if later.match(error) is not OperationMatch.SAME:
                continue
            if _masked(record) == _masked(error.record):
                self._tried(error, record)
            elif error.grade < ResolutionGrade.SUPERSEDED:
                error.otherwise = True
                self._resolve(error, later, ResolutionGrade.SUPERSEDED)

    def _tried(self, error: _Open, record: ErrorRecord) -> None:
        attempt = shorten(f"{record.failing}: {record.headline}", 200)
        tried = (*error.record.tried, attempt)[-MAX_TRIED:]
        error.record = replace(error.record, tried=tried)
        if error.grade in (ResolutionGrade.SUPERSEDED, ResolutionGrade.PART):  # it was not gone after all
            error.grade, error.otherwise = ResolutionGrade.NONE, False
            error.record = replace(
                error.record,
                status="open",
                resolver_index=None,
                resolver_seq=None,
                resolver_symbol=None,
                rule=None,
                resolving=None,
                fix=(),
                between=(),
            )
        self._put(error.record)

    def _resolve(self, error: _Open, later: _Later, grade: ResolutionGrade) -> None:
        call = later.call
        rules = {ResolutionGrade.SUPERSEDED: "superseded", ResolutionGrade.SUBSTITUTION: "substitution"}
        arguments = redact_arguments(call.arguments, self.redact)
        told = argument_texts(call.tool, arguments)
        between = error.record.between
        if not error.otherwise or grade is ResolutionGrade.SUPERSEDED:
            between = self._between(error.record.index, call.index)
        error.grade = grade
        error.record = replace(
            error.record,
            status="resolved",
            resolver_index=call.index,
            resolver_seq=call.seq,
            resolver_symbol=call_symbol(call),
            rule=rules.get(grade, "same-operation"),
            resolving=summarize_arguments(call.tool, arguments, MAX_FAILING),
            fix=tuple(diff_arguments(error.said, told)),
            between=between,
        )
        self._put(error.record)

    def _between(self, start: int, end: int) -> tuple[FixStep, ...]:
        """Return what succeeded between two calls; where that is much, what changed something counts most."""
        seen = sorted((c for c in self._seen if start < c.index < end and c.ok), key=lambda c: c.index)
        steps = [(call.told(self.redact), call.inspects) for call in seen]
        if len(steps) > MAX_BETWEEN:
            steps = [(step, looks) for step, looks in steps if not looks] or steps
        return tuple(step for step, _ in steps[-MAX_BETWEEN:])

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON: the open errors, the last calls, and records that were not taken."""
        return {
            "open": [error.to_json() for error in self._open],
            "seen": [[c.index, c.ok, asdict(c.told(self.redact)), c.inspects] for c in self._seen],
            "untaken": [self._records[seq].to_json() for seq in sorted(self._changed)],
        }

    @classmethod
    def from_json(cls, state: Mapping[str, Any], redact: Callable[[str], str]) -> ErrorTracker:
        """Go on from a state that `to_json` returned."""
        fold = cls(redact)
        fold._open = [_Open.from_json(error) for error in state["open"]]
        for index, ok, step, inspects in state["seen"]:
            fold._seen.append(_Seen(index, ok, step=FixStep(**step), inspects=inspects))
        for error in fold._open:
            fold._records[error.record.seq] = error.record
        for data in state["untaken"]:
            fold._put(ErrorRecord.from_json(data))
        return fold


def _masked(record: ErrorRecord) -> str:
    return record.fingerprint.split("|", 1)[-1]


def _quote(text: str, line: naming.ErrorLine) -> str:
    """Return an excerpt of a result from its telling line on, character by character as it stands there."""
    if text[line.start : line.start + 1] and naming.extract_error_text(text) == text:
        return text[line.start : line.start + MAX_QUOTE].strip()
    place = text.find(line.text[:40]) if line.text else 0
    return text[max(place, 0) : max(place, 0) + MAX_QUOTE].strip()
