"""Decide whether a later call is the same operation as a failing one, or a substitute for it.

Pure: compares two operations. Outcomes, distances and windows belong to `error_tracker`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.operation import Operation, name_words

_TASK_RUNNER = re.compile(r"^(?:npm|pnpm|yarn|bun) (?:run )?(?=\S)")


class OperationMatch(IntEnum):
    """How well a later call matches a failing one."""

    NONE = 0
    WEAK = 1  # the same on a part only: counts where nothing better follows
    SAME = 2


def match_operations(failing: Operation, later: Operation) -> OperationMatch:
    """Return how well a later operation matches a failing one."""
    names = task_name(failing.name), task_name(failing.name.partition(" -")[0])  # what a check finds, the program mends
    if failing.kind != later.kind or task_name(later.name) not in names:
        return OperationMatch.NONE
    if failing.kind in ("read", "edit"):
        return OperationMatch.SAME if operands_overlap(failing.operands, later.operands) else OperationMatch.NONE
    if failing.kind == "tool":
        return OperationMatch.SAME if _has_similar_arguments(failing, later) else OperationMatch.NONE
    if operands_overlap(failing.operands, later.operands):
        return OperationMatch.SAME
    if failing.words or later.words:
        return OperationMatch.SAME if _shares_words(failing, later) else OperationMatch.NONE
    return _match_by_scope(failing, later)


def task_name(name: str) -> str:
    """Return an operation's name without what only runs a package's task: of `npm run lint` and `bun lint` the same."""
    return _TASK_RUNNER.sub("task ", name)


def _match_by_scope(failing: Operation, later: Operation) -> OperationMatch:
    """Match two runs of one program whose operands do not overlap: at most one run may have operands."""
    if failing.operands and later.operands:
        return OperationMatch.NONE
    if not failing.operands and not later.operands:
        return OperationMatch.SAME
    if failing.inspects:
        return OperationMatch.NONE
    if failing.operands:  # the later run has none: a whole run includes the part that failed
        return OperationMatch.SAME if is_check(failing) else OperationMatch.WEAK
    return (
        OperationMatch.WEAK
        if is_check(failing) and any("/" in word or "." in word for word in later.operands)
        else OperationMatch.SAME
    )


def is_check(operation: Operation) -> bool:
    """Whether an operation of a shell checks its operands, or everything."""
    is_named = tool_kinds.CHECKING_SUBCOMMANDS.search(operation.name) is not None
    return operation.kind == "shell" and (is_named or operation.program in tool_kinds.CHECKING_PROGRAMS)


def _has_similar_arguments(failing: Operation, later: Operation) -> bool:
    if set(failing.operands) & set(later.operands) or operands_overlap(failing.operands, later.operands):
        return True
    if not failing.words and not later.words:
        return not failing.operands and not later.operands
    return _shares_words(failing, later)


def _shares_words(failing: Operation, later: Operation) -> bool:
    failing_words, later_words = (
        {*operation.words, *name_words(" ".join(_without_keys(operation.operands)))} for operation in (failing, later)
    )
    shared = len(failing_words & later_words)
    return shared >= 2 and shared >= 0.4 * min(len(failing_words), len(later_words))


def _without_keys(operands: Iterable[str]) -> list[str]:
    """Return operands such as "id=12" without their keys."""
    return [word.split("=", 1)[-1] for word in operands]


def is_substitute(failing: Operation, later: Operation) -> bool:
    """Whether another program of a shell was given the same operand, to do something alike with it."""
    is_another = later.kind == "shell" and failing.program != later.program and failing.inspects == later.inspects
    is_another = is_another and later.program not in tool_kinds.FILE_PROGRAMS | {"git", "gh", "hub"}
    return is_another and operands_overlap(_without_keys(failing.operands), _without_keys(later.operands))


def is_other_work(failing: Operation, later: Iterable[Operation]) -> bool:
    """Whether all commands of the failed one's program are given other things, and none all that it was given."""
    mine, given = {*failing.operands}, [{*each.operands} for each in later if match_operations(failing, each)]
    return (failing.kind == "shell" and bool(given)) and all(
        mine - others and others - mine and not operands_overlap(mine - others, others - mine) for others in given
    )


def operands_overlap(first: Iterable[str], second: Iterable[str]) -> bool:
    """Whether two calls act on one thing: the same word, or a path and its end."""
    second_list = list(second)
    return any(_is_same_operand(a, b) for a in first for b in second_list if a not in (".", "..", "-"))


def _is_same_operand(first: str, second: str) -> bool:
    if first == second:
        return True
    shorter, longer = sorted((first, second), key=len)
    return len(shorter) > 2 and longer.endswith("/" + shorter.lstrip("/"))
