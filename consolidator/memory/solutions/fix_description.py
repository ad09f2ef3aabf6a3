"""Describe what was done about one failed call, in the words of this example, and why that is repeated to no agent.

Pure: looks at one record. A fix that is not repeated stays known to people, who see it marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from consolidator.memory.calls.argument_summary import shorten
from consolidator.memory.calls.directory import is_absolute, name_folder
from consolidator.memory.calls.harm import find_harm, line_harm
from consolidator.memory.calls.installation import installs_unnamed
from consolidator.memory.calls.symbols import SHELL_PREFIX, is_edit, is_inspection, is_shell_symbol
from consolidator.memory.calls.tool_kinds import READING_TOOLS, tool_base_name
from consolidator.memory.solutions.error_records import ErrorRecord, FixStep
from consolidator.memory.solutions.operation_matching import operands_overlap

MAX_STEPS = 4  # named in a description
MAX_DETAILED = 2  # with up to so many steps, edits show their text; more text would hide the rest
MAX_COMMAND = 160
MAX_CHANGES = 3  # of arguments
UNNAMED_PACKAGE = "installs a package that the error does not name"
_OTHER_TEXT = "the same call with another text"  # which is its case's
_PARENT_FOLDERS = re.compile(
    r"(?<![\w:/.])(?:~|/[\w@.+-]+|[A-Za-z]:)?(?:[/\\][\w@.+-]+){2,}(?=[/\\][\w@.+-]+[/\\][\w@.+-]+)"
)


def describe_fix(record: ErrorRecord) -> str:
    """Return what was done; "" where the same call was only tried again, or an edit with another text."""
    resolving = shorten_paths(record.resolving or "")
    if record.rule == "substitution":
        return f"used {_describe_call(record.resolver_symbol or '', resolving)} instead of " + _describe_call(
            record.symbol, shorten_paths(record.failing)
        )
    if record.rule == "check":
        return _describe_step(FixStep(record.resolver_symbol or "", resolving), detailed=False)
    steps, action = _describe_steps(record), _describe_action(record, resolving)
    if not steps and (record.change == "none" or action == _OTHER_TEXT):
        return ""
    if record.rule == "superseded":
        action += " got past this error, to another"
    elif record.change in ("none", "spacing") or action == _OTHER_TEXT:
        action += " worked"
    return f"{steps}; then {action}" if steps else action


def mending_steps(record: ErrorRecord) -> tuple[FixStep, ...]:
    """Return the steps that are a part of a fix: of an edit whose file was read first, none of another file."""
    if record.operation != "edit":
        return record.between
    of_file = tuple(step for step in record.between if operands_overlap((step.argument,), (record.failing,)))
    return of_file if any(not is_edit(step.symbol) for step in of_file) else record.between


def _describe_action(record: ErrorRecord, resolving: str) -> str:
    if record.change in ("none", "spacing"):
        return "the same call" + " with other indentation or line breaks" * (record.change == "spacing")
    if is_shell_symbol(record.symbol):
        directory, place = record.resolver_directory, record.moved_to
        if place is not None and not is_absolute(place):
            return f"ran `{shorten(resolving, MAX_COMMAND)}` in {name_folder(place)}"
        directory = place or directory
        is_elsewhere = directory is not None and directory != record.directory
        prefix = f"cd {shorten_paths(directory)} && " if directory is not None and is_elsewhere else ""
        return f"ran `{shorten(prefix + resolving, MAX_COMMAND)}`"
    if record.operation == "edit":
        return _OTHER_TEXT
    changed = {key: text for key, text in record.resolver_arguments.items() if record.arguments.get(key) != text}
    changes = [f"set {key} = {shorten_paths(shorten(text, 100))}" for key, text in changed.items()]
    changes += [f"left out {key}" for key in record.arguments if key not in record.resolver_arguments]
    return ", ".join(changes[:MAX_CHANGES])


def _describe_steps(record: ErrorRecord) -> str:
    """Return the steps in between that acted, or read the file again, each once; of few edits also the text."""
    name = _short_path(record.failing)
    mending = mending_steps(record)
    steps = [step for step in mending if not is_inspection(step.symbol)] or [
        step for step in mending if record.operation == "edit" and name in step.argument
    ]
    descriptions = list(dict.fromkeys(_describe_step(step, len(steps) <= MAX_DETAILED) for step in steps))
    more = len(descriptions) - MAX_STEPS
    return ", ".join(descriptions[:MAX_STEPS]) + (f" and {more} more" if more > 0 else "")


def _describe_step(step: FixStep, detailed: bool) -> str:
    argument = shorten_paths(step.argument)
    if is_edit(step.symbol) or READING_TOOLS.fullmatch(tool_base_name(step.symbol)):
        detail = f" ({shorten_paths(step.detail)})" if detailed and step.detail else ""
        return f"{'edited' if is_edit(step.symbol) else 'read'} {_short_path(argument)}{detail}"
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


def fix_harm(record: ErrorRecord, project: str | None) -> str | None:
    """Return why the fix of a record is repeated to no agent; None for a harmless one."""
    calls = list(_calls_of(record))
    words = f"{record.headline} {record.quote} {record.failing}"
    return next(_harms(calls, words, project), None)


def quote_harm(quote: str) -> str | None:
    """Return why a quoted call, perhaps with its error after it, is repeated to no agent."""
    lines = dict.fromkeys((quote, quote.partition(": ")[0]))
    return next(_harms([(SHELL_PREFIX, {"": line}) for line in lines], "", None), None)


def _calls_of(record: ErrorRecord) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the calls of a fix, each by its symbol and texts; an argument that has no name is a command or a path.

    Of an edit that worked as it was once something else was done, only that is the fix.
    """
    resolver = record.resolver_symbol or record.symbol
    if record.operation != "edit" or record.change != "none":
        yield resolver, dict(record.resolver_arguments)
        yield resolver, {"": record.resolving or ""}
    for step in mending_steps(record):
        yield step.symbol, {"": step.argument}
        if step.detail:
            yield step.symbol, {"text": step.detail}


def _harms(calls: Sequence[tuple[str, dict[str, str]]], words: str, project: str | None) -> Iterator[str]:
    for symbol, texts in calls:
        if not is_shell_symbol(symbol):
            tool = symbol.split(" ", 1)[0]
            unnamed = {key: texts[""] for key in ("file_path", "text") if texts.keys() == {""}}
            if harm := find_harm(tool, unnamed or texts, project):
                yield harm
            continue
        for line in texts.values():
            if harm := line_harm(line, project):
                yield harm
            if installs_unnamed(line, words):
                yield UNNAMED_PACKAGE
