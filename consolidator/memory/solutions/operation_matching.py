"""Tells whether a later call is the same operation as a failing one, or takes its place.

Pure: compares two operations. Outcomes, distances and windows are the business of `failures`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.operation import Operation, name_words


class OperationMatch(IntEnum):
    """How well a later call fits a failing one."""

    NONE = 0
    WEAK = 1  # the same, but for a part of it only: counts where nothing better follows
    SAME = 2


def match_operations(failing: Operation, later: Operation) -> OperationMatch:
    """Tell whether a later call is the same operation as a failing one."""
    if failing.kind != later.kind or failing.name != later.name:
        return OperationMatch.NONE
    if failing.kind in ("read", "edit"):
        return OperationMatch.SAME if operands_overlap(failing.operands, later.operands) else OperationMatch.NONE
    if failing.kind == "tool":
        return OperationMatch.SAME if _like(failing, later) else OperationMatch.NONE
    if operands_overlap(failing.operands, later.operands):
        return OperationMatch.SAME
    if failing.words or later.words:
        return OperationMatch.SAME if _shares_words(failing, later) else OperationMatch.NONE
    if not _same_place(failing.directory, later.directory):
        return OperationMatch.NONE
    return _by_scope(failing, later)


def _by_scope(failing: Operation, later: Operation) -> OperationMatch:
    """Judge two runs of one program where the operands do not overlap: one of them must have none."""
    if failing.operands and later.operands:
        return OperationMatch.NONE
    if not failing.operands and not later.operands:
        return OperationMatch.SAME
    if failing.inspects:
        return OperationMatch.NONE
    scoped = (
        failing.program in tool_kinds.CHECKING_PROGRAMS
        or tool_kinds.CHECKING_SUBCOMMANDS.search(failing.name) is not None
    )
    if failing.operands:  # later without: a whole run includes the part that failed
        return OperationMatch.SAME if scoped else OperationMatch.WEAK
    return (
        OperationMatch.WEAK
        if scoped and any("/" in word or "." in word for word in later.operands)
        else OperationMatch.SAME
    )


def _like(failing: Operation, later: Operation) -> bool:
    if set(failing.operands) & set(later.operands) or operands_overlap(failing.operands, later.operands):
        return True
    if not failing.words and not later.words:
        return not failing.operands and not later.operands
    return _shares_words(failing, later)


def _shares_words(failing: Operation, later: Operation) -> bool:
    mine, other = ({*one.words, *name_words(" ".join(_values(one.operands)))} for one in (failing, later))
    shared = len(mine & other)
    return shared >= 2 and shared >= 0.4 * min(len(mine), len(other))


def _values(operands: Iterable[str]) -> list[str]:
    return [word.split("=", 1)[-1] for word in operands]


def is_moved_file(failing: Operation, later: Operation) -> bool:
    """Whether a later read is of a file of the same telling name elsewhere: what a file that was not there became."""
    if failing.kind != "read" or later.kind != "read":
        return False
    names = {word.rsplit("/", 1)[-1] for word in failing.operands}
    names = {name for name in names if name.split(".")[0].lower() not in tool_kinds.COMMON_FILE_NAMES}
    return any(word.rsplit("/", 1)[-1] in names for word in later.operands)


def is_substitute(failing: Operation, later: Operation, unusable: bool) -> bool:
    """Tell whether another program takes the place of a failing one on the same operand.

    Only one of its own kind does: looking at a script, formatting or adding it does not do what running it should
    have done. Where the program was unusable (not installed), whatever was run instead is its substitute.
    """
    if failing.program == later.program:
        return False
    if not (unusable and later.kind == "shell") and (
        operation_family(failing) != operation_family(later) or operation_family(later) == "check"
    ):
        return False
    mine, other = ([word for word in _values(one.operands) if _own(word)] for one in (failing, later))
    return operands_overlap(mine, other)


def operation_family(operation: Operation) -> str:
    """Return what kind of thing is done: look, write, file, version, check or run; tools are each their own kind."""
    if operation.inspects:
        return "look"
    if operation.kind == "edit":
        return "write"
    if operation.kind == "tool":
        return operation.name
    program, _, subcommand = operation.name.partition(" ")
    if subcommand in tool_kinds.FILE_SUBCOMMANDS.get(program, ()) or program in tool_kinds.FILE_PROGRAMS:
        return "file"
    if program in tool_kinds.VERSION_CONTROL_PROGRAMS:
        return "version"
    if program in tool_kinds.CHECKING_PROGRAMS or tool_kinds.CHECKING_SUBCOMMANDS.search(subcommand):
        return "check"
    return "write" if program in tool_kinds.WRITING_PROGRAMS else "run"


def _own(word: str) -> bool:
    return len(word) >= 3 and not tool_kinds.COMMON_OPERANDS.fullmatch(word)


def operands_overlap(mine: Iterable[str], other: Iterable[str]) -> bool:
    """Tell whether two calls act on one thing: the same word, a path and its end, or the same host."""
    others = list(other)
    return any(_meet(a, b) for a in mine for b in others if a not in (".", "..", "-"))


def _meet(one: str, two: str) -> bool:
    if one == two:
        return True
    if "://" in one and "://" in two:
        return _host(one) == _host(two)
    shorter, longer = sorted((one, two), key=len)
    return len(shorter) > 2 and longer.endswith("/" + shorter.lstrip("/"))


def _host(url: str) -> str:
    return url.split("://", 1)[1].split("/", 1)[0].split("?", 1)[0]


def _same_place(one: str | None, two: str | None) -> bool:
    """Whether two directories can be the same; where none is told, they can."""
    if not one or not two or one == two:
        return True
    shorter, longer = sorted((one, two), key=len)
    return longer.endswith("/" + shorter) or longer.startswith(shorter + "/")
