"""Decide whether a failed call is an error, and whether a later success resolves it, how certainly and by which rule.

Pure: looks at one failed call and one later call. `error_tracker` keeps the order of calls and the windows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from consolidator.memory.calls import guards, shell, tool_kinds
from consolidator.memory.calls.call_pairing import CompletedCall
from consolidator.memory.calls.operation import Operation, parse_operations
from consolidator.memory.calls.symbols import is_edit, is_inspection, is_shell_symbol, shell_command
from consolidator.memory.solutions.call_edit import find_edits
from consolidator.memory.solutions.error_records import ErrorRecord, FixStep
from consolidator.memory.solutions.fingerprint import missing_command
from consolidator.memory.solutions.operation_matching import (
    OperationMatch,
    is_other_work,
    is_substitute,
    match_operations,
)

SUBSTITUTE_WINDOW = 2  # calls within which another program may replace the failed one
RENAME_WINDOW = 5  # calls within which another word may replace the one that the error names
_GIT_SAYS = re.compile(
    r"^(?:fatal|error: (?:pathspec|unable|cannot|switch|your local))|nothing (?:added )?to commit|no changes added"
    r"|your branch is|untracked files|please tell me who you are|index\.lock|empty commit message|unmerged",
    re.IGNORECASE | re.MULTILINE,
)
_NOT_PERMITTED = re.compile(r"\bE(?:PERM|ACCES)\b|not permitted|permission denied|read-only file", re.IGNORECASE)
_FIXING = re.compile(r"(?:^|[\s:-])(?:fix|format|fmt|write)\b", re.IGNORECASE)
_EDGE = 300  # characters at the start, or the end, in which a reason or a status stands
_REASONS = (
    ("cascade", re.compile(r"sibling tool call errored|cancelled: parallel tool call", re.IGNORECASE)),
    (
        "rejected",
        re.compile(
            r"user (?:doesn't|does not) want to|(?:rejected|denied|declined) by (?:the )?user|user"
            r" (?:has )?(?:rejected|denied|declined)|permission to use .{1,80} (?:has been )?denied"
            r"|tool use was rejected",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    (
        "aborted",
        re.compile(
            r"^\W*(?:command|operation|request|tool(?: call| execution)?|execution)?\s*(?:was |has been )?"
            r"(?:aborted|interrupted|cancell?ed)(?: by (?:the )?user| for tool use)?\W*$|interrupted by (?:the )?user"
            r"|aborted by (?:the )?user",
            re.IGNORECASE | re.MULTILINE,
        ),
    ),
)
_REPORT = re.compile(r"(?:Exit code \d+\n)?[^\t\n]{1,200}\t(?:pass|fail|pending|skipping)\t")  # of `gh pr checks`
_GONE = re.compile(  # of what runs in the background
    r"(?:unknown|no such|no) (?:process|session|task|shell)\b|(?:process|session|task|shell)\b.{0,40}"
    r"(?:not found|not running|no longer)",
    re.IGNORECASE,
)
_EXIT_STATUS = re.compile(
    r"\bexit(?:ed with)?(?: code| status)?:?\s*(\d+)|\bcode (\d+)\s*$|\"exit_code\":\s*(\d+)", re.IGNORECASE
)


class ResolutionGrade(IntEnum):
    """How certain a resolver is. While the window is open, a more certain one replaces a less certain one."""

    NONE = 0
    SUPERSEDED = 1  # the same operation failed with another error
    SUBSTITUTION = 2  # another program on the same operand, in place of one that is not there
    PART = 3  # the same operation on a part
    SAME = 4

    @property
    def rule(self) -> str:
        """The rule, as a record stores it."""
        is_named = self in (ResolutionGrade.SUPERSEDED, ResolutionGrade.SUBSTITUTION)
        return self.name.lower() if is_named else "same-operation"


@dataclass(frozen=True, slots=True)
class LaterCall:
    """A call that may resolve open errors."""

    call: CompletedCall
    operations: list[Operation]

    @classmethod
    def of_call(cls, call: CompletedCall, arguments: Any, error: str | None = None) -> LaterCall:
        """Return a call with what it does, by its arguments as far as they may be kept."""
        return cls(call, parse_operations(call.tool, arguments, error))

    def match(self, record: ErrorRecord, failing: Operation) -> OperationMatch:
        """Return how well it is the same operation as the failed one."""
        missing = missing_command(record.headline) if failing.kind == "shell" else None
        if missing is not None and any(operation.program == missing for operation in self.operations):
            return OperationMatch.SAME  # whatever it was asked for: it is there
        return max(match_operations(failing, operation) for operation in self.operations)


def grade_resolution(
    record: ErrorRecord, failing: Operation, arguments: Mapping[str, str], later: LaterCall
) -> ResolutionGrade:
    """Return how certain it is that a successful call resolves an error; `arguments` are those of the failed call."""
    if guards.adds_bypass(later.call.tool, arguments.get("command", ""), later.call.arguments):
        return ResolutionGrade.NONE
    if guards.leaves_sandbox(later.call.arguments) and _NOT_PERMITTED.search(record.headline):
        return ResolutionGrade.NONE  # that is the cure, whatever else the call does otherwise
    match = later.match(record, failing)
    distance, missing = later.call.index - record.index, missing_command(record.headline)
    if missing is None and distance > RENAME_WINDOW and is_other_work(failing, later.operations):
        return ResolutionGrade.NONE
    if match is OperationMatch.SAME:
        return ResolutionGrade.SAME
    if match is OperationMatch.WEAK:
        return ResolutionGrade.PART
    if distance <= RENAME_WINDOW and _is_renamed(record, failing, arguments.get("command", ""), later):
        return ResolutionGrade.PART
    is_near = distance <= SUBSTITUTE_WINDOW and missing == failing.program
    if is_near and is_substitute(failing, later.operations[0]):
        return ResolutionGrade.SUBSTITUTION
    return ResolutionGrade.NONE


def _is_renamed(record: ErrorRecord, failing: Operation, line: str, later: LaterCall) -> bool:
    """Whether a later call is the failed one with another word for one that its error names."""
    if failing.inspects or not any(operation.name == failing.name for operation in later.operations):
        return False
    later_line = shell_command(later.call.tool, later.call.arguments) or ""
    return any(edit.is_replacement for edit in find_edits(line, later_line, record.symbol, record.headline))


def is_refused_commit(record: ErrorRecord) -> bool:
    """Whether a commit failed by what a check of it found, not by what git itself says."""
    return record.operation == "sh:git commit" and not _GIT_SAYS.search(f"{record.headline}\n{record.quote}")


def pick_maker(steps: Sequence[FixStep]) -> int | None:
    """Return the position of the command that made the check of a refused commit pass; None where edits did.

    A command that fixes comes first, then the last one.
    """
    acting = [n for n, step in enumerate(steps) if not is_inspection(step.symbol)]
    if any(is_edit(steps[n].symbol) for n in acting):
        return None
    acting = [n for n in acting if is_shell_symbol(steps[n].symbol) and not steps[n].symbol.startswith("sh:git ")]
    fixing = [n for n in acting if _FIXING.search(steps[n].argument)]
    return next((group[-1] for group in (fixing, acting) if group), None)


def signature_of(record: ErrorRecord) -> str:
    """Return the part of a record's fingerprint that does not depend on the tool."""
    return record.fingerprint.split("|", 1)[-1]


def noise_reason(call: CompletedCall, text: str) -> str | None:
    """Return why a failed call with the result `text` teaches nothing; None where it is an error."""
    if call.reason in ("rejected", "aborted", "cascade"):
        return call.reason
    start = text[:_EDGE]
    for reason, pattern in _REASONS:  # few formats say why a call did not run
        if pattern.search(start):
            return reason
    if _REPORT.match(text):
        return "report"
    if tool_kinds.POLLING_TOOLS.fullmatch(tool_kinds.tool_base_name(call.tool)) and _GONE.search(start):
        return "gone"
    return "found nothing" if _is_empty_search(call, text) else None


def _is_empty_search(call: CompletedCall, text: str) -> bool:
    line = shell_command(call.tool, call.arguments)
    if line is None or call.reason == "timeout" or not _ends_with_search(line):
        return False
    status = _EXIT_STATUS.search(text[-_EDGE:]) or _EXIT_STATUS.search(text[:_EDGE])
    code = next((group for group in status.groups() if group), "1") if status else "1"
    return code == "1"


def _ends_with_search(line: str) -> bool:
    """Whether a search decides a line's exit status: the last command, or the reported one."""
    commands = shell.parse_commands(line)
    reported = shell.reported_command(commands)
    return any(
        command.program in tool_kinds.SEARCHING_PROGRAMS
        or (command.subcommand or "").split(" ")[0] in tool_kinds.SEARCHING_SUBCOMMANDS.get(command.program, ())
        for command in (commands[-1:] + ([reported] if reported else []))
    )
