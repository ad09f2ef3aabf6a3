"""What memory reads of a call's arguments and result: what a reader sees, nobody marked as private; and of an approval.

Pure. It reads once, before anything is counted, fingerprinted or kept, so that no reader of calls has to. An approval
is described by its call ("Bash git push", or the tool alone where its name says enough); one whose call is unknown
describes nothing, since no standing preference can follow from it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from consolidator.memory.calls.symbols import SHELL_PREFIX, shell_command, tool_symbol
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.markers import PRIVATE, has_unclosed_passage, strip_private
from consolidator.models.event import Event
from consolidator.models.payload import EventType

_MAX_CACHED_CHARS = 4000  # of a text that is remembered
MAX_DEPTH = 64  # levels of lists and objects; what is deeper is not read
_TAG = re.compile(rf"(?:<|&(?:lt|#0*60|#x0*3c);?)\s{{0,9}}(?:/\s{{0,9}})?{PRIVATE}")


def read_tool_value(value: Any) -> Any:
    """Return arguments, a result or an error's text without invisible characters and private passages; JSON is parsed.

    A passage that nothing closes goes to the end of its text, and of the list that the text stands in; a closing tag
    that nothing opened ends one from the text's beginning.
    """
    if isinstance(value, str):
        text = _strip(value)
        value = parse_json_text(text)
        if value is text:
            return text
    return _strip_all(value, 0)


def parse_json_text(value: Any) -> Any:
    """Parse a string that holds a JSON object or list; return any other value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "[") and value[-1:] in ("}", "]"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _strip_all(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _strip(value)
    if depth == MAX_DEPTH:
        return None if isinstance(value, (Mapping, list)) else value
    if isinstance(value, (dict, Mapping)):  # `dict` first: a check of an abstract class is slow
        return {_strip(str(key)): _strip_all(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list):
        return _strip_list(value, depth + 1)
    return value


def _strip_list(members: list[Any], depth: int) -> list[Any]:
    """Strip the members of a list; a passage that one of them leaves open hides the rest of the list."""
    kept: list[Any] = []
    for member in members:
        kept.append(_strip_all(member, depth))
        if _leaves_open(member):
            break
    return kept


def _leaves_open(member: Any) -> bool:
    """Whether a text, or a text of a content block, has a private passage that it does not close."""
    texts = member.values() if isinstance(member, Mapping) else (member,)
    return any(
        isinstance(text, str) and _may_have_tag(strip_invisible(text)) and has_unclosed_passage(text) for text in texts
    )


def _strip(text: str) -> str:
    return _strip_cached(text) if len(text) <= _MAX_CACHED_CHARS else _strip_text(text)


def _strip_text(text: str) -> str:
    text = strip_invisible(text)
    return strip_private(text, is_excerpt=True) if _may_have_tag(text) else text


_strip_cached = lru_cache(maxsize=1024)(_strip_text)  # three folds read the same call, and names are repeated


def _may_have_tag(text: str) -> bool:
    """Whether a text without invisible characters may hold the tag, in any spelling: finding tags itself is slow."""
    is_ascii = text.isascii()
    if is_ascii and "<" not in text and "&" not in text:
        return False
    folded = (text if is_ascii else unicodedata.normalize("NFKD", text)).lower()
    return PRIVATE in folded and _TAG.search(folded) is not None


# An approval of these tools answers the text, plan or question that they show, not the use of the tool.
_CONTENT_TOOLS = frozenset(
    {"exitplanmode", "askuserquestion", "edit", "multiedit", "write", "notebookedit", "apply_patch", "todowrite"}
)
_UNKNOWN_COMMAND = SHELL_PREFIX + "-"


def describe_approval(event: Event, events: Sequence[Event]) -> str | None:
    """Return what a granted or denied call does; None where it is unknown or says nothing about the next call.

    `events` are those around the approval; the call is looked up among them where the approval does not repeat it.
    """
    if event.data.get("interrupted"):  # the call was already running: nobody was asked
        return None
    tool, arguments = _find_call(event, events)
    return None if tool.lower() in _CONTENT_TOOLS else describe_call(tool, arguments)


def read_choice(event: Event) -> tuple[str, str] | None:
    """Return the question that a person was asked and the answer that they chose; None for another event."""
    question, answer = event.data.get("question"), event.data.get("answer")
    return (question, answer) if isinstance(question, str) and isinstance(answer, str) and answer.strip() else None


def describe_decision(event: Event) -> str | None:
    """Return what a person decided, in one line: their choice, or what they denied; None where it tells nothing."""
    if (choice := read_choice(event)) is not None:
        return f"{choice[0]} -> {choice[1]}"
    operation = describe_approval(event, ()) if event.type is EventType.APPROVAL_DENIED else None
    return f"{operation} -> denied" if operation else None


def describe_call(tool: str, arguments: Any) -> str | None:
    """Return the tool, for a shell also the program that its command reports; None where that is unknown."""
    if not tool:
        return None
    symbol = tool_symbol(tool, arguments)
    if symbol.startswith(SHELL_PREFIX):
        return None if symbol == _UNKNOWN_COMMAND else f"{tool} {symbol.removeprefix(SHELL_PREFIX)}"
    if arguments is None and shell_command(tool, "") is not None:  # a shell whose command is unknown
        return None
    return tool


def _find_call(event: Event, events: Sequence[Event]) -> tuple[str, Any]:
    """Return the tool and arguments, from the approval itself or from the latest call of its id before it."""
    tool = str(event.data.get("tool") or "")
    if event.data.get("arguments") is not None:
        return tool, read_tool_value(event.data["arguments"])
    call_id = event.data.get("call_id")
    if call_id is not None:
        for other in reversed(events):
            if other.seq < event.seq and other.type is EventType.TOOL_CALL and other.data.get("call_id") == call_id:
                return str(other.data.get("tool") or tool), read_tool_value(other.data.get("arguments"))
    return tool, None
