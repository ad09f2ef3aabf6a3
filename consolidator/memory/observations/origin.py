"""Finds which results of a session hold the words of others: such words are told to the agent, not found by it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from consolidator.memory.calls.call_pairing import CallPairer
from consolidator.memory.calls.symbols import shell_command
from consolidator.memory.calls.tool_kinds import PATH_KEYS, tool_base_name
from consolidator.models.event import Event

_TELLING_TOOL = re.compile(
    r"mcp__|(?:.*_)?(?:web|browser|fetch|search_web|mail|ticket|issue|task|agent)(?:_|\b)|web\w+|task\w*"
)
_TELLING_COMMAND = re.compile(
    r"(?<![\w./-])(?:curl|wget|ssh|gh|glab|hub|http|xh|lynx|w3m|himalaya|git\s+(?:log|show|blame|notes)"
    r"|(?:npm|pip|cargo|gem)\s+(?:view|info|show|search))(?![\w-])"
)
_DOCUMENT = re.compile(
    r"\.(?:md|mdx|txt|rst|adoc|org|html?|pdf|eml|mbox|docx?|diff|patch)\b|(?:node_modules|vendor|site-packages|docs?)/"
    r"|/tmp/|\b(?:readme|changelog|contributing|license)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[\w@][\w@./:+#-]*")
_RUN = 5  # words in a row that are no accident


def told_texts(events: Sequence[Event]) -> tuple[str, ...]:
    """Return the results that came by web, MCP, a sub-agent, an issue, another host or a document, folded."""
    pairer = CallPairer()
    calls = [call for event in events if (call := pairer.feed(event)) is not None]
    return tuple(_fold(call.result_text) for call in calls if _tells(call.tool, call.arguments))


def is_told(quote: str, names: Sequence[str], told: Sequence[str]) -> bool:
    """Tell whether half of a quote's runs of five words, or a name that it is about, stands in what was told."""
    words = _fold(quote).split()
    runs = {" ".join(words[start : start + _RUN]) for start in range(max(1, len(words) - _RUN + 1))}
    in_told = sum(any(run in text for text in told) for run in runs)
    return 2 * in_told >= len(runs) or any(_fold(name) in text for name in names for text in told)


def _tells(tool: str, arguments: object) -> bool:
    line = shell_command(tool, arguments)
    if line is not None:
        return bool(_TELLING_COMMAND.search(line) or _DOCUMENT.search(line))
    if tool.lower().startswith("mcp__") or _TELLING_TOOL.fullmatch(tool_base_name(tool)):
        return True
    paths = [arguments.get(key) for key in PATH_KEYS] if isinstance(arguments, dict) else []
    return any(isinstance(path, str) and _DOCUMENT.search(path) for path in paths)


def _fold(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
