"""What a tool's result tells a reader of the session beyond that its call worked: often nothing."""

from __future__ import annotations

import re
from typing import Any

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.call_pairing import CompletedCall
from consolidator.memory.calls.operation import parse_operations, scalar_leaves
from consolidator.memory.text.words import split_words

MAX_EDIT_WORDS = 10  # new words of an edit's result up to which it is a notice; beyond it, there is advice or a problem
MAX_NOTICE_CHARS = 2000  # a longer result is no notice
_MAX_ARGUMENT_CHARS = 20_000  # of a call that are compared with its result
_ECHOED_LINE = re.compile(r"^[ \t]*\d+(?:[→|:]|\t| {2}).*$", re.MULTILINE)  # a numbered line of a file
_COUNT = re.compile(
    r"\b\d[\d,.]*\s*(?:bytes?|chars?|characters?|lines?|blocks?|files?|occurrences?|replacements?|edits?|changes?"
    r"|insertions?|deletions?|ms|s|seconds?|[kmg]i?b)\b(?:\(s\))?",
    re.IGNORECASE,
)
_SUCCESS_WORDS = frozenset(
    split_words(
        """
        a an the and at by for from has have been in into is it no not null none of on ok okay to true was were with
        done success successful successfully succeeded complete completed finished applied saved stored wrote written
        write create created update updated edit edited replace replaced insert inserted add added delete deleted
        remove removed move moved rename renamed change changed set modified make made switched new file files path
        directory folder text content contents string line lines block blocks output result results exit code command
        tool operation all nothing empty
        """
    )
)


def is_notice(call: CompletedCall | None, text: str) -> bool:
    """Tell whether a result only says that its call worked.

    Beyond the words of the call itself it has words of success, counts, and the lines of the file that was changed. A
    result without a known call is a notice only where it has words of success alone.
    """
    if len(text) > MAX_NOTICE_CHARS or (call is not None and not call.ok):
        return False
    is_edit = call is not None and _is_edit(call)
    body = _COUNT.sub(" ", _ECHOED_LINE.sub("", text) if is_edit else text)
    new_words = set(split_words(body)) - _SUCCESS_WORDS - (_words_of(call) if call is not None else set())
    return len(new_words) <= (MAX_EDIT_WORDS if is_edit else 0)


def is_file_text(call: CompletedCall | None) -> bool:
    """Tell whether a result shows what files hold: it can be read again when it is needed."""
    return call is not None and parse_operations(call.tool, call.arguments)[0].inspects


def _is_edit(call: CompletedCall) -> bool:
    operation = parse_operations(call.tool, call.arguments)[0]
    return (
        operation.kind == "edit"
        or tool_kinds.THINKING_TOOLS.fullmatch(tool_kinds.tool_base_name(call.tool)) is not None
    )


def _words_of(call: CompletedCall) -> set[str]:
    """Return the words of a call: its tool and whatever it was given."""
    values: list[tuple[str, Any]] = [("", call.tool), *scalar_leaves(call.arguments)]
    return set(split_words("\n".join(f"{key} {value}" for key, value in values)[:_MAX_ARGUMENT_CHARS]))
