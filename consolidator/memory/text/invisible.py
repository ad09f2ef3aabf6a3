"""Takes out of a text what nobody sees: characters that hide words, turn their direction, or command a terminal.

The log keeps them; memory, and what leaves it, does not. Removed are controls other than line break and tab, terminal
sequences, bidirectional controls, Unicode tags, invisible operators and fillers, interlinear annotation, soft hyphens,
variation selectors other than an emoji's own, and lone surrogates. A joiner stays where it shapes what is seen: between
letters of a script that joins (Persian, Indic scripts), and within an emoji.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_ESCAPE_SEQUENCE = re.compile(  # of a terminal: with ESC, or with the C1 control that stands for it
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-Z\\^-~]?"
)
_COLOUR = re.compile(
    r"\x1b\[(?!(?:\d*[;:])*0*8[;:m])[\d;:]*m|(?m:^)(?:\x1b\[(?:\d*[GK]|0?J))+|\r(?=\n|\Z)"
)  # 8 conceals
_ALWAYS = (
    "\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f"  # controls; NEL (U+0085) is a line break
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff"
    "\ufdd0-\ufdef\ufffe\uffff"
)
_MAYBE = "\u200c\u200d\ufe00-\ufe0f"
_SEEN_ONLY = re.compile(rf"[^{_ALWAYS}{_MAYBE}\x85\u2028\u2029]*")
_HIDDEN_ASCII = bytes([*range(9), *range(0x0B, 0x20), 0x7F])
_UNSHOWN = re.compile(f"[{_ALWAYS}\u2028\u2029\x85]")
_HIDDEN = re.compile(f"[{_ALWAYS}]")
_JOINER_OR_SELECTOR = re.compile(f"[{_MAYBE}]+")
_LINE_BREAKS = str.maketrans({"\x85": "\n", "\u2028": "\n", "\u2029": "\n\n"})
# Scripts whose letters change their form beside a joiner.
_JOINING = re.compile(
    "[\u0600-\u07ff\u0840-\u085f\u08a0-\u08ff\u0900-\u0dff\u0f00-\u0fff\u1000-\u109f\u1780-\u18af\ufb50-\ufdcf"
    "\ufdf0-\ufdff\ufe70-\ufefc\U00010a00-\U00010aff\U00011000-\U00011fff]"
)
_EMOJI = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d"
    "\u3297\u3299\U0001f000-\U0001faff\u200d\ufe0f\U0001f3fb-\U0001f3ff]"
)
_KEYCAP = re.compile("[0-9#*]")


def _is_seen(text: str) -> bool:
    """Whether a text has nothing that nobody sees, and no separator of lines but the usual one."""
    if text.isascii():  # most texts: deleting from bytes is several times faster than the expression
        return len(text.encode().translate(None, _HIDDEN_ASCII)) == len(text)
    return _SEEN_ONLY.fullmatch(text) is not None


def strip_colours(text: str) -> str:
    """Return a text without what only colours, clears ahead or ends a line otherwise; what hides letters stays."""
    return _COLOUR.sub("", text) if "\x1b" in text or "\r" in text else text


def strip_invisible(text: str) -> str:
    """Return a text without the characters that nobody sees, and without terminal sequences."""
    if _is_seen(text):
        return text
    text = text.translate(_LINE_BREAKS).replace("\r\n", "\n").replace("\r", "\n")
    text = _HIDDEN.sub("", _ESCAPE_SEQUENCE.sub("", text))
    return _JOINER_OR_SELECTOR.sub(_keep_shaping, text)


def strip_invisible_in(value: Any) -> Any:
    """Return a JSON value, or a row, in every text of which nothing is that nobody sees; keys are texts, too."""
    if isinstance(value, str):
        return strip_invisible(value)
    if isinstance(value, Mapping):
        return {strip_invisible_in(key): strip_invisible_in(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [strip_invisible_in(member) for member in value]
    return value


def mark_invisible(text: str) -> str:
    """Return a text with a mark in place of each character that nobody sees, to show that there was one."""
    return text if _SEEN_ONLY.fullmatch(text) else _UNSHOWN.sub("\ufffd", text)


def escape_invisible(text: str) -> str:
    """Return JSON in which characters that nobody sees are escaped: it parses to the same value."""
    return text if _SEEN_ONLY.fullmatch(text) else _UNSHOWN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def _keep_shaping(match: re.Match[str]) -> str:
    """Return the joiner or selector of a run that shapes what stands beside it; a run of others hides something."""
    run, text = match[0], match.string
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    if run in ("\u200c", "\u200d") and _JOINING.match(before) and (_JOINING.match(after) or run == "\u200d"):
        return run
    if run in ("\u200d", "\ufe0f\u200d") and _EMOJI.match(before) and _EMOJI.match(after):
        return run
    if run in ("\ufe0f", "\ufe0e") and (_EMOJI.match(before) or (_KEYCAP.match(before) and after == "\u20e3")):
        return run
    return ""


@lru_cache(maxsize=8192)
def is_invisible(char: str) -> bool:
    """Tell whether a character is one that quotes are compared without: unseen, or a joiner or selector."""
    return (unicodedata.category(char) in ("Cf", "Cc", "Cs") and not char.isspace()) or bool(
        _HIDDEN.match(char) or _JOINER_OR_SELECTOR.match(char)
    )
