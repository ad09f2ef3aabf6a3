"""Reads what resolved one failed call: the shape by which like fixes are told, and the words a person reads.

Pure: looks at one record. Counting is the business of `solutions`.
"""

from __future__ import annotations

import re

from consolidator.memory.calls import shell, tool_kinds
from consolidator.memory.calls.argument_diff import ArgumentChange
from consolidator.memory.calls.argument_summary import shorten
from consolidator.memory.calls.symbols import is_shell_symbol
from consolidator.memory.solutions.error_records import ErrorRecord, FixStep

MAX_STEPS = 4  # named in a description
MAX_DETAILED = 2  # edits whose text is told; more would hide the rest
MAX_COMMAND = 160
_TEXTS = re.compile(
    r"(?:old|new)_?(?:string|text|str|content)|search|replace\w*|content|file_text|patch|diff|input", re.I
)
_FOLDERS = re.compile(r"(?<![\w:/.])(?:~|/[\w@.+-]+|[A-Za-z]:)?(?:[/\\][\w@.+-]+){2,}(?=[/\\][\w@.+-]+[/\\][\w@.+-]+)")


def fix_shape(record: ErrorRecord) -> tuple[str, ...]:
    """Return what is alike in like fixes: options, programs and keys that changed, never paths or names."""
    if record.rule == "substitution":
        return ("instead", record.resolver_symbol or "")
    if _reread(record):
        return ("reread",)
    if _respaced(record):
        return ("spacing",)
    if is_shell_symbol(record.symbol):
        changed = _shell_shape(record) if record.fix else ()
    else:
        changed = tuple(sorted({_sign(change) for change in record.fix} - {""}))
    if changed and not is_shell_symbol(record.symbol):
        looked = {step.symbol for step in record.between if step.symbol.startswith(f"{record.tool} ")}
        return ("changed", *changed, *sorted(looked))
    if changed:
        return ("changed", *changed)
    acted = sorted({_class(step.symbol) for step in record.between if not is_inspection(step.symbol)})
    seen = sorted({_class(step.symbol) for step in record.between if not _thinks(step.symbol)})
    return ("again", *(acted or seen))


def _sign(change: ArgumentChange) -> str:
    if change.key == "replace_all" or (tool_kinds.SETTING_KEYS.fullmatch(change.key) and not _setting_counts(change)):
        return ""
    key = "text" if _TEXTS.fullmatch(change.key) else change.key
    return f"+{key}" if change.old is None else f"-{key}" if change.new is None else f"~{key}"


def _setting_counts(change: ArgumentChange) -> bool:
    """Whether a setting was part of the fix: a limit that was given at last, a time that was raised."""
    return change.key.lower() in ("limit", "offset", "head_limit") or change.key.lower().startswith("timeout")


def _shell_shape(record: ErrorRecord) -> tuple[str, ...]:
    before, after = (_parts(line or "") for line in (record.failing, record.resolving))
    parts = [*(f"+{part}" for part in sorted(after - before)), *(f"-{part}" for part in sorted(before - after))]
    return tuple(parts) or ("operands",)


def _parts(line: str) -> frozenset[str]:
    """Return the programs and options of a command line."""
    commands = shell.parse_commands(line)
    options = {option.split("=", 1)[0] for command in commands for option in command.options}
    return frozenset({command.name for command in commands} | {o for o in options if len(o) <= 40})


def _class(symbol: str) -> str:
    if is_shell_symbol(symbol):
        return symbol
    name = symbol.rsplit("__", 1)[-1].lower()
    return (
        "edit"
        if tool_kinds.EDITING_TOOLS.fullmatch(name)
        else "read"
        if tool_kinds.READING_TOOLS.fullmatch(name)
        else symbol
    )


def is_inspection(symbol: str) -> bool:
    """Whether a step only looked at something."""
    if is_shell_symbol(symbol):
        program, _, rest = symbol.removeprefix("sh:").partition(" ")
        return program in tool_kinds.INSPECTING_PROGRAMS or rest.split(" ")[0] in tool_kinds.INSPECTING_SUBCOMMANDS.get(
            program, ()
        )
    name = symbol.rsplit("__", 1)[-1].lower()
    return bool(tool_kinds.READING_TOOLS.fullmatch(name) or tool_kinds.INSPECTING_TOOLS.fullmatch(name)) or _thinks(
        symbol
    )


def _thinks(symbol: str) -> bool:
    """Whether a step was a note that an agent made to itself: no part of what fixed anything."""
    return tool_kinds.THINKING_TOOLS.fullmatch(symbol.rsplit("__", 1)[-1].lower()) is not None


def _reread(record: ErrorRecord) -> bool:
    """Whether an edit went through after its file had been read again."""
    if record.operation != "edit" or record.rule != "same-operation":
        return False
    name = _file(record.failing)
    return any(_class(step.symbol) == "read" and name in step.argument for step in record.between)


def _respaced(record: ErrorRecord) -> bool:
    """Whether the call that worked differed in indentation or line breaks alone."""
    return bool(record.fix) and all(change.is_whitespace_only for change in record.fix)


def operation_name(symbol: str) -> str:
    """Return what failed, as a person would call it."""
    return symbol.removeprefix("sh:")


def describe_fix(record: ErrorRecord) -> str:
    """Say what was done about a failed call, in the words of one example."""
    resolving = shorten_paths(record.resolving or "")
    if record.rule == "substitution":
        taken, given_up = (
            _call(record.resolver_symbol or "", resolving),
            _call(record.symbol, shorten_paths(record.failing)),
        )
        return f"used {taken} instead of {given_up}"
    if _reread(record):
        corrected = any(_TEXTS.fullmatch(change.key) for change in record.fix)
        return f"read {_file(record.failing)} again, then {'corrected the edit' if corrected else 'made the same edit'}"
    steps, done = _steps(record), _done(record, resolving)
    if record.rule == "superseded":
        done += " got past this error, to another"
    elif not record.fix or _respaced(record):
        done += " worked"
    return f"{steps}; then {done}" if steps else done


def _done(record: ErrorRecord, resolving: str) -> str:
    if not record.fix:
        return "the same call" if _steps(record) else "the same call, tried again,"
    if _respaced(record):
        return "the same call with other indentation or line breaks"
    if is_shell_symbol(record.symbol):
        return _ran(record, resolving)
    if record.operation in ("read", "edit") and _file(record.failing) != _file(resolving):
        return f"{'read' if record.operation == 'read' else 'edited'} {resolving}"
    texts = [change for change in record.fix if _TEXTS.fullmatch(change.key)]
    if record.operation == "edit" and texts:
        old, new = texts[0].old or "", texts[0].new or ""
        if "…" not in old[:1] + old[-1:]:
            return "made another edit of the file"
        return f"corrected the edit: `{shorten(old, 80)}` → `{shorten(new, 80)}`"
    return ", ".join(_changed(change) for change in _telling(record.fix))


def _ran(record: ErrorRecord, resolving: str) -> str:
    """Name the command that worked, or how it differs where it is a long one."""
    first = record.fix[0]
    old, new = shorten_paths(first.old or ""), shorten_paths(first.new or "")
    if len(resolving) <= MAX_COMMAND or len(record.fix) > 1 or len(old) + len(new) > MAX_COMMAND:
        return f"ran `{shorten(resolving, MAX_COMMAND)}`"
    if not new:
        return f"ran it without `{old}`"
    return f"ran it with `{new}` in place of `{old}`" if old else f"ran it with `{new}`"


def _telling(changes: tuple[ArgumentChange, ...]) -> list[ArgumentChange]:
    telling = [change for change in changes if _sign(change)] or list(changes)
    return telling[:3]


def _changed(change: ArgumentChange) -> str:
    old, new = (shorten_paths(shorten(side, 100)) if side is not None else None for side in (change.old, change.new))
    if old is None:
        return f"set {change.key} = {new}"
    if new is None:
        return f"left out {change.key} = {old}"
    return f"changed {change.key}: `{old}` → `{new}`"


def _steps(record: ErrorRecord) -> str:
    """Name what came between: what acted, else what was looked at; each once, and what few edits put where."""
    told = [step for step in record.between if not _thinks(step.symbol)]
    steps = [step for step in told if not is_inspection(step.symbol)] or told
    names = list(dict.fromkeys(_step(step, len(steps) <= MAX_DETAILED) for step in steps))
    left = len(names) - MAX_STEPS
    return ", ".join(names[:MAX_STEPS]) + (f" and {left} more" if left > 0 else "")


def _step(step: FixStep, detailed: bool) -> str:
    argument = shorten_paths(step.argument)
    kind = _class(step.symbol)
    if kind in ("edit", "read"):
        detail = f" ({shorten_paths(step.detail)})" if detailed and step.detail else ""
        return f"{'edited' if kind == 'edit' else 'read'} {_file(argument)}{detail}"
    return f"ran {_call(step.symbol, argument)}"


def _call(symbol: str, argument: str) -> str:
    if is_shell_symbol(symbol):
        return f"`{shorten(argument, 100)}`"
    tool = symbol.split(" ", 1)[0]
    return f"{tool} `{shorten(argument, 100)}`" if argument else tool


def _file(path: str) -> str:
    return "/".join(path.replace("\\", "/").rsplit("/", 2)[-2:])


def shorten_paths(text: str) -> str:
    """Return a text with its long paths cut to their last two parts."""
    return _FOLDERS.sub("…", text)
