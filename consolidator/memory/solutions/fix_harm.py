"""Tell why a fix is repeated to no agent: what it ran is hostile, or installs a package that its error does not name.

Pure. It stays known to people, who see it marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from consolidator.memory.calls.harm import find_harm, line_harm
from consolidator.memory.calls.installation import installs_unnamed
from consolidator.memory.calls.symbols import SHELL_PREFIX, is_shell_symbol
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.fix_description import mending_steps

UNNAMED_PACKAGE = "installs a package that the error does not name"


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
