"""Fix cases: a failed call, what its session did about it, and the call that worked, as templates are learned from.

Pure: looks at one record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

from consolidator.memory.calls.argument_diff import argument_texts
from consolidator.memory.calls.directory import call_directory, is_other_directory
from consolidator.memory.calls.symbols import is_shell_symbol, shell_command
from consolidator.memory.calls.tool_kinds import EDITING_TOOLS, READING_TOOLS, tool_base_name
from consolidator.memory.solutions.error_records import ErrorRecord, FixStep
from consolidator.memory.solutions.error_tracker import MAX_ARGUMENT, MAX_QUOTE
from consolidator.memory.solutions.fix_description import is_inspection

DIRECTORY = "directory"  # the key under which a shell call's directory stands beside its command
CUT = "…"
Step = TypeVar("Step")
CallTexts = Mapping[str, str]  # a call's arguments, by key


@dataclass(frozen=True, slots=True)
class StepCall:
    """A call between a failure and its resolver; `tool` is None for the tool that failed."""

    tool: str | None
    arguments: CallTexts


@dataclass(frozen=True, slots=True)
class FixCase:
    """One failure that was resolved."""

    root: str  # the lineage root of its session
    resolver: tuple[str, int]  # session and seq of the call that worked
    error: str  # from the error's line on
    failed: CallTexts
    tool: str | None  # that worked; None for the tool that failed
    worked: CallTexts | None  # None: it was not kept whole
    steps: tuple[StepCall, ...]
    acted: bool  # whether something was changed in between
    attempts: tuple[CallTexts, ...]  # that failed, too
    names: tuple[str, ...] = ()  # in the error's headline, where a family's templates are learned
    seq: int = 0  # of the failed call
    failed_again: bool = False  # the operation met the same error again before something resolved it


def case_of_record(root: str, session: str, record: ErrorRecord) -> FixCase | None:
    """Return the case of a record; None where nothing is known to have resolved it."""
    if record.status != "resolved" or record.rule == "superseded" or record.resolver_seq is None:
        return None
    failed = _failed_texts(record)
    keys = {change.key for change in record.fix}
    worked = _worked_texts(record, failed, keys)
    steps = tuple(call for step in record.between if (call := _step_call(step, failed)) is not None)
    if record.rule == "installation":  # what was missing is there now: the failed call comes again
        steps = (*steps, StepCall(_resolver_tool(record), worked)) if worked is not None else steps
        worked = None
    return FixCase(
        root=root,
        resolver=(session, record.resolver_seq),
        error=record.quote[:MAX_QUOTE],
        failed=failed,
        tool=_resolver_tool(record),
        worked=worked,
        steps=steps,
        acted=any(not is_inspection(step.symbol) for step in record.between),
        attempts=tuple(_with_directory(a.arguments, a.directory) for a in record.attempts),
        seq=record.seq,
        failed_again=any(attempt.same_error for attempt in record.attempts),
    )


def split_streaks(cases: Iterable[FixCase]) -> tuple[list[FixCase], list[FixCase]]:
    """Return the cases that ended well, one for each resolver, and those whose own attempt failed.

    One call may end a streak of failures: it is what was done about the last one. What was done about an earlier one,
    its first attempt and the steps before it, was in vain.
    """
    streaks: dict[tuple[str, int], dict[int, FixCase]] = {}
    for case in cases:
        streaks.setdefault(case.resolver, {})[case.seq] = case
    ended: list[FixCase] = []
    in_vain: list[FixCase] = []
    for _, streak in sorted(streaks.items()):
        later = [streak[seq] for seq in sorted(streak)]
        ended.append(later[-1])
        for case, following in pairwise(later):
            if case.failed_again:
                in_vain.append(
                    replace(case, steps=steps_before(case.steps, following.steps), attempts=case.attempts[:1])
                )
    return ended, in_vain


def steps_before(steps: tuple[Step, ...], following: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps of a failure that came before the next one's."""
    count = len(following)
    return steps[: len(steps) - count] if count and steps[-count:] == following else () if count else steps


def call_texts(tool: str, arguments: Any) -> dict[str, str]:
    """Return a call's arguments as cases have them: a command stripped, its directory beside it."""
    return _with_directory(argument_texts(tool, arguments), call_directory(tool, arguments))


def same_texts(first: CallTexts, second: CallTexts) -> bool:
    """Whether two calls are given the same, but for spacing."""
    return {key: text.split() for key, text in first.items()} == {key: text.split() for key, text in second.items()}


def write_call(texts: CallTexts) -> dict[str, str]:
    """Return the arguments of a call to make: a shell's directory becomes a `cd` of its command."""
    if DIRECTORY in texts and "command" in texts:
        return {"command": f"cd {texts[DIRECTORY]} && {texts['command']}"}
    return dict(texts)


def _failed_texts(record: ErrorRecord) -> dict[str, str]:
    """Return what the failed call was given; of a record of before only a command is known."""
    if record.arguments:
        return _with_directory(record.arguments, record.directory)
    if is_shell_symbol(record.symbol) and not record.failing.endswith(CUT):
        return {"command": record.failing}
    return {}


def _with_directory(texts: CallTexts, directory: str | None) -> dict[str, str]:
    return {**texts, DIRECTORY: directory} if directory and "command" in texts else dict(texts)


def _resolver_tool(record: ErrorRecord) -> str | None:
    symbol = record.resolver_symbol or ""
    same = is_shell_symbol(symbol) if is_shell_symbol(record.symbol) else symbol == record.symbol
    return None if same else symbol


def _worked_texts(record: ErrorRecord, failed: CallTexts, changed: set[str]) -> CallTexts | None:
    texts = dict(record.resolver_arguments)
    if not texts and is_shell_symbol(record.resolver_symbol or "") and not (record.resolving or CUT).endswith(CUT):
        texts = {"command": record.resolving or ""}
    if any(change.is_whitespace_only for change in record.fix):  # texts are compared without their spacing
        return None
    if not texts or any(len(text) >= MAX_ARGUMENT and key in changed for key, text in texts.items()):
        return None
    directory = failed.get(DIRECTORY)
    if "directory" in changed or is_other_directory(directory, record.resolver_directory):
        directory = record.resolver_directory
    return _with_directory(texts, directory)


def _step_call(step: FixStep, failed: CallTexts) -> StepCall | None:
    """Return a step that could be made again; an edit or a reading belongs to its case."""
    if step.argument.endswith(CUT) or not step.argument:
        return None
    if is_shell_symbol(step.symbol):
        if is_inspection(step.symbol) or "command" not in failed:
            return None
        return StepCall(None, {"command": step.argument})
    tool = step.symbol.split(" ", 1)[0]
    name = tool_base_name(tool)
    if EDITING_TOOLS.fullmatch(name) or READING_TOOLS.fullmatch(name) or is_inspection(step.symbol):
        return None
    return StepCall(tool, {"": step.argument})


def is_shell_call(tool: str, arguments: Any) -> bool:
    """Whether a call runs a command line."""
    return shell_command(tool, arguments) is not None
