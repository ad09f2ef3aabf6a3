"""Describe what resolved one failed call: the shape that groups like fixes, and the description for people.

Pure: looks at one record. `grouping` counts.
"""

from __future__ import annotations

import re
from dataclasses import replace

from consolidator.memory.calls import shell, tool_kinds
from consolidator.memory.calls.argument_diff import ArgumentChange, diff_arguments
from consolidator.memory.calls.argument_summary import shorten
from consolidator.memory.calls.symbols import display_name, is_shell_symbol
from consolidator.memory.calls.tool_kinds import tool_base_name
from consolidator.memory.solutions.error_records import ErrorRecord, FailedAttempt, FixStep

MAX_STEPS = 4  # named in a description
MAX_DETAILED = 2  # with up to so many steps, edits show their text; more text would hide the rest
MAX_COMMAND = 160
_TEXT_KEY = re.compile(
    r"(?:old|new)_?(?:string|text|str|content)|search|replace\w*|content|file_text|patch|diff|input", re.I
)
_PARENT_FOLDERS = re.compile(
    r"(?<![\w:/.])(?:~|/[\w@.+-]+|[A-Za-z]:)?(?:[/\\][\w@.+-]+){2,}(?=[/\\][\w@.+-]+[/\\][\w@.+-]+)"
)


def fix_shape(record: ErrorRecord) -> tuple[str, ...]:
    """Return what like fixes have in common: the options, programs and keys that changed, never paths or names."""
    if record.rule == "substitution":
        return ("instead", record.resolver_symbol or "")
    if record.rule == "installation":
        return ("installed", record.resolver_symbol or "")
    if _is_reread(record):
        return ("reread",)
    if _is_respaced(record):
        return ("spacing",)
    if is_shell_symbol(record.symbol):
        changed = _shell_shape(record) if record.fix else ()
    else:
        changed = tuple(sorted({_change_sign(change) for change in record.fix} - {""}))
    if changed and not is_shell_symbol(record.symbol):
        same_tool = {step.symbol for step in record.between if step.symbol.startswith(f"{record.tool} ")}
        return ("changed", *changed, *sorted(same_tool))
    if changed:
        return ("changed", *changed)
    acting = sorted({_tool_class(step.symbol) for step in record.between if not is_inspection(step.symbol)})
    steps = sorted({_tool_class(step.symbol) for step in record.between if not _is_note(step.symbol)})
    return ("again", *(acting or steps))


def attempt_shapes(record: ErrorRecord) -> list[tuple[str, ...]]:
    """Return the shapes of what was tried in vain, each once: it failed alike, or led only to another error."""
    shapes = [_attempt_shape(record, attempt) for attempt in record.attempts]
    if record.rule == "superseded" and not record.attempts:
        shapes.append(fix_shape(record))
    return list(dict.fromkeys(shapes))


def own_attempt_shape(record: ErrorRecord, steps: tuple[FixStep, ...]) -> tuple[str, ...]:
    """Return the shape of what was done about a failure that came again: its first attempt, after some steps."""
    return _attempt_shape(record, record.attempts[0], steps)


def _attempt_shape(record: ErrorRecord, attempt: FailedAttempt, steps: tuple[FixStep, ...] = ()) -> tuple[str, ...]:
    changes = tuple(diff_arguments(record.arguments, attempt.arguments))
    command = attempt.arguments.get("command")
    tried = replace(
        record,
        rule="same-operation",
        resolver_symbol=attempt.symbol,
        resolving=command or record.failing,
        fix=changes,
        between=steps,
    )
    return fix_shape(tried)


def is_transferable(shape: tuple[str, ...]) -> bool:
    """Whether a kind of fix says what to do in another case, too: not only that some value or text was another one."""
    kind, *parts = shape
    if kind == "again":
        return "edit" not in parts
    return kind != "changed" or any(part.startswith(("+", "-")) or part == "directory" for part in parts)


def _change_sign(change: ArgumentChange) -> str:
    """Return "+key", "-key" or "~key"; "" for a setting that does not matter."""
    if change.key == "replace_all" or (
        tool_kinds.SETTING_KEYS.fullmatch(change.key) and not _is_relevant_setting(change)
    ):
        return ""
    key = "text" if _TEXT_KEY.fullmatch(change.key) else change.key
    return f"+{key}" if change.old is None else f"-{key}" if change.new is None else f"~{key}"


def _is_relevant_setting(change: ArgumentChange) -> bool:
    """Whether a setting can be part of a fix: a limit that was added, a timeout that was raised."""
    return change.key.lower() in ("limit", "offset", "head_limit") or change.key.lower().startswith("timeout")


def _shell_shape(record: ErrorRecord) -> tuple[str, ...]:
    before, after = (_programs_and_options(line or "") for line in (record.failing, record.resolving))
    parts = [*(f"+{part}" for part in sorted(after - before)), *(f"-{part}" for part in sorted(before - after))]
    if any(change.key == "directory" for change in record.fix):
        parts.append("directory")
    return tuple(parts) or ("operands",)


def _programs_and_options(line: str) -> frozenset[str]:
    """Return the programs and options of a command line."""
    commands = shell.parse_commands(line)
    options = {option.split("=", 1)[0] for command in commands for option in command.options}
    return frozenset({command.name for command in commands} | {o for o in options if len(o) <= 40})


def _tool_class(symbol: str) -> str:
    """Return "edit" or "read" for a file tool, else the symbol."""
    if is_shell_symbol(symbol):
        return symbol
    name = tool_base_name(symbol)
    if tool_kinds.EDITING_TOOLS.fullmatch(name):
        return "edit"
    return "read" if tool_kinds.READING_TOOLS.fullmatch(name) else symbol


def is_inspection(symbol: str) -> bool:
    """Whether a step only read something."""
    if is_shell_symbol(symbol):
        program, _, rest = display_name(symbol).partition(" ")
        subcommands = tool_kinds.INSPECTING_SUBCOMMANDS.get(program, frozenset())
        return program in tool_kinds.INSPECTING_PROGRAMS or rest.split(" ")[0] in subcommands
    name = tool_base_name(symbol)
    inspects = tool_kinds.READING_TOOLS.fullmatch(name) or tool_kinds.INSPECTING_TOOLS.fullmatch(name)
    return bool(inspects) or _is_note(symbol)


def _is_note(symbol: str) -> bool:
    """Whether a step was a note of the agent to itself: it fixes nothing."""
    return tool_kinds.THINKING_TOOLS.fullmatch(tool_base_name(symbol)) is not None


def _is_reread(record: ErrorRecord) -> bool:
    """Whether an edit worked after its file was read again."""
    if record.operation != "edit" or record.rule != "same-operation":
        return False
    name = _short_path(record.failing)
    return any(_tool_class(step.symbol) == "read" and name in step.argument for step in record.between)


def _is_respaced(record: ErrorRecord) -> bool:
    """Whether the call that worked differed only in indentation or line breaks."""
    return bool(record.fix) and all(change.is_whitespace_only for change in record.fix)


def describe_fix(record: ErrorRecord) -> str:
    """Describe what was done about a failed call, in the words of this example."""
    resolving = shorten_paths(record.resolving or "")
    if record.rule == "substitution":
        return _describe_substitute(record, resolving)
    if _is_reread(record):
        corrected = any(_TEXT_KEY.fullmatch(change.key) for change in record.fix)
        edit = "corrected the edit" if corrected else "made the same edit"
        return f"read {_short_path(record.failing)} again, then {edit}"
    if record.rule == "installation":
        return f"ran {_describe_call(record.resolver_symbol or '', resolving)}"
    steps, action = _describe_steps(record), _describe_action(record, resolving)
    if record.rule == "superseded":
        action += " got past this error, to another"
    elif not record.fix or _is_respaced(record):
        action += " worked"
    return f"{steps}; then {action}" if steps else action


def _describe_substitute(record: ErrorRecord, resolving: str) -> str:
    """Return the other call that worked; of a tool's, values that neither error nor failed call give stay open."""
    symbol = record.resolver_symbol or ""
    known = "\n".join((record.quote, record.failing, *record.arguments.values()))
    open_keys = [key.replace("_", " ") for key, text in record.resolver_arguments.items() if text not in known]
    if is_shell_symbol(symbol) or is_shell_symbol(record.symbol) or not open_keys:
        failing = _describe_call(record.symbol, shorten_paths(record.failing))
        return f"used {_describe_call(symbol, resolving)} instead of {failing}"
    *first, last = open_keys
    keys = f"{', '.join(first)} and {last}" if first else last
    return f"used {symbol.split(' ', 1)[0]}, with {keys}, instead of {record.symbol.split(' ', 1)[0]}"


def _describe_action(record: ErrorRecord, resolving: str) -> str:
    if not record.fix:
        return "the same call" if _describe_steps(record) else "the same call, tried again,"
    if _is_respaced(record):
        return "the same call with other indentation or line breaks"
    if is_shell_symbol(record.symbol):
        return _describe_command(record, resolving)
    if record.operation in ("read", "edit") and _short_path(record.failing) != _short_path(resolving):
        return f"{'read' if record.operation == 'read' else 'edited'} {resolving}"
    texts = [change for change in record.fix if _TEXT_KEY.fullmatch(change.key)]
    if record.operation == "edit" and texts:
        old, new = texts[0].old or "", texts[0].new or ""
        if "…" not in old[:1] + old[-1:]:
            return "made another edit of the file"
        return f"corrected the edit: `{shorten(old, 80)}` → `{shorten(new, 80)}`"
    return ", ".join(_describe_change(change) for change in _relevant_changes(record.fix))


def _describe_command(record: ErrorRecord, resolving: str) -> str:
    """Return the command that worked, or how it differs where it is long; with the `cd` where that differs."""
    directory = next((change.new for change in record.fix if change.key == "directory"), None)
    if directory is not None:
        return f"ran `{shorten(f'cd {shorten_paths(directory)} && {resolving}', MAX_COMMAND)}`"
    first = record.fix[0]
    old, new = shorten_paths(first.old or ""), shorten_paths(first.new or "")
    if len(resolving) <= MAX_COMMAND or len(record.fix) > 1 or len(old) + len(new) > MAX_COMMAND:
        return f"ran `{shorten(resolving, MAX_COMMAND)}`"
    if not new:
        return f"ran it without `{old}`"
    return f"ran it with `{new}` in place of `{old}`" if old else f"ran it with `{new}`"


def _relevant_changes(changes: tuple[ArgumentChange, ...]) -> list[ArgumentChange]:
    relevant = [change for change in changes if _change_sign(change)] or list(changes)
    return relevant[:3]


def _describe_change(change: ArgumentChange) -> str:
    old, new = (shorten_paths(shorten(side, 100)) if side is not None else None for side in (change.old, change.new))
    if old is None:
        return f"set {change.key} = {new}"
    if new is None:
        return f"left out {change.key} = {old}"
    return f"changed {change.key}: `{old}` → `{new}`"


def _describe_steps(record: ErrorRecord) -> str:
    """Return the steps in between, each once: those that acted, else all; the text of edits only where they are few."""
    without_notes = [step for step in record.between if not _is_note(step.symbol)]
    steps = [step for step in without_notes if not is_inspection(step.symbol)] or without_notes
    descriptions = list(dict.fromkeys(_describe_step(step, len(steps) <= MAX_DETAILED) for step in steps))
    more = len(descriptions) - MAX_STEPS
    return ", ".join(descriptions[:MAX_STEPS]) + (f" and {more} more" if more > 0 else "")


def _describe_step(step: FixStep, detailed: bool) -> str:
    argument = shorten_paths(step.argument)
    tool_class = _tool_class(step.symbol)
    if tool_class in ("edit", "read"):
        detail = f" ({shorten_paths(step.detail)})" if detailed and step.detail else ""
        return f"{'edited' if tool_class == 'edit' else 'read'} {_short_path(argument)}{detail}"
    return f"ran {_describe_call(step.symbol, argument)}"


def _describe_call(symbol: str, argument: str) -> str:
    if is_shell_symbol(symbol):
        return f"`{shorten(argument, 100)}`"
    tool = symbol.split(" ", 1)[0]
    return f"{tool} `{shorten(argument, 100)}`" if argument else tool


def _short_path(path: str) -> str:
    return "/".join(path.replace("\\", "/").rsplit("/", 2)[-2:])


def shorten_paths(text: str) -> str:
    """Return a text with its long paths cut to their last two parts."""
    return _PARENT_FOLDERS.sub("…", text)
