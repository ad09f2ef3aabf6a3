"""Says how a call's arguments differ from another's, and what a call was given in a few words.

Pure, and for display: whatever comes in has been redacted, or `redacted` does it before anything else is done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.operation import scalar_leaves
from consolidator.memory.calls.symbols import shell_command

MAX_SIDE = 200  # characters shown of either side of a change
MAX_CHANGES = 8
MAX_SUMMARY = 120
_LOOKED_AT = 4096  # characters of a value that are redacted, before it is cut to what is kept
_KEPT = 2048
_TOTAL = 8192
_COMMAND = 16384  # characters of a command that are read
_DEPTH = 6
_WORDS = 300

_PREFIX = re.compile(r"^\s*(?:cd|pushd)\s+(?:\"[^\"]+\"|'[^']+'|[^\s;&|]+)\s*(?:&&|;)\s*")
_MESSAGE = re.compile(
    r"(?P<option>\s(?:-m|-am|--message|--body|--title|-F))[ =]"
    r"(?:\"\$\(cat <<-?\s*['\"]?(?P<end>\w+)['\"]?\n.*?\n[^\S\n]*(?P=end)\s*\)\"|\"(?:[^\"\\]|\\.)*\"|'[^']*')",
    re.DOTALL,
)
_SUFFIX = re.compile(  # begun at the first of its spaces alone: a run of them would be read again from each
    r"(?<!\s)\s*(?:2>&1|2>/dev/null|\|\s*(?:head|tail)(?:\s+-?\w+)*|\|\|\s*(?:true|echo\s+(?:\"[^\"]*\"|'[^']*'|\w+))"
    r"|;\s*echo\s+(?:\"[^\"]*\"|'[^']*'|\S+))\s*$"
)


_EDIT_KEYS = (
    ("old_string", "new_string"),
    ("oldText", "newText"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("search", "replace"),
)


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """One difference between two calls: `old` is None where something was added, `new` where it was taken away."""

    key: str  # the argument; of a shell "command"
    old: str | None
    new: str | None

    @property
    def spacing(self) -> bool:
        """Whether nothing but spaces and line breaks differed: both sides read alike on one line."""
        return self.old is not None and self.old == self.new


def redact_arguments(arguments: Any, redact: Callable[[str], str]) -> Any:
    """Return arguments with their secrets hidden and their long strings cut, at most some 8 KiB in all."""
    left = [_TOTAL]

    def clean(value: Any, key: str, depth: int) -> Any:
        if isinstance(value, Mapping):
            if depth >= _DEPTH or left[0] <= 0:
                return "…"
            named = value.get("name", value.get("key"))
            told = {"value": named} if isinstance(named, str) else {}
            return {redact(str(k))[:80]: clean(v, told.get(k, str(k)), depth + 1) for k, v in list(value.items())[:64]}
        if isinstance(value, list):
            return [clean(v, key, depth + 1) for v in value[:64]] if depth < _DEPTH and left[0] > 0 else "…"
        if isinstance(value, str):
            said = _hidden(value[:_LOOKED_AT], key, redact)[: min(_KEPT, max(left[0], 0))]
            left[0] -= len(said)
            return said
        return value

    return clean(arguments, "", 0)


def _hidden(value: str, key: str, redact: Callable[[str], str]) -> str:
    """Redact a value beside its name, which may be what tells that it is a secret."""
    if 0 < len(key) <= 40 and "\n" not in value:
        said = redact(f"{key}={value}")
        if said.startswith(f"{key}="):
            return said[len(key) + 1 :]
    return redact(value)


def strip_command(line: str) -> str:
    """Return a command line without what does not change what it does: the way there, messages, cut output."""
    line = _MESSAGE.sub(r"\g<option> …", _PREFIX.sub("", line[:_COMMAND])).strip()
    for _ in range(6):
        shorter = _SUFFIX.sub("", line)
        if shorter == line or not shorter:
            break
        line = shorter
    return line


def argument_texts(tool: str, arguments: Any) -> dict[str, str]:
    """Return what a call was given as named texts; a shell's is {"command": its core}."""
    line = shell_command(tool, arguments)
    if line is not None:
        return {"command": strip_command(line)}
    if isinstance(arguments, Mapping):
        return {str(key): _text(value) for key, value in arguments.items() if key != "description"}
    return {} if arguments in (None, "") else {"input": _text(arguments)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def diff_arguments(failing: Mapping[str, str], resolving: Mapping[str, str]) -> list[ArgumentChange]:
    """Return how the resolving call's texts (of `said`) differ from the failing one's; [] where they are equal."""
    found: list[ArgumentChange] = []
    for key in [*failing, *(key for key in resolving if key not in failing)]:
        old, new = failing.get(key), resolving.get(key)
        if old == new:
            continue
        if old is None or new is None:
            found.append(ArgumentChange(key, _cut(old), _cut(new)))
        elif (words := old.split()) == new.split():
            found.append(ArgumentChange(key, told := _cut(" ".join(words)), told))
        elif key == "command":
            found.extend(_words_changed(old, new))
        else:
            found.append(ArgumentChange(key, *_narrowed(" ".join(words), " ".join(new.split()))))
    return found[:MAX_CHANGES]


def _words_changed(old: str, new: str) -> list[ArgumentChange]:
    before, after = old.split()[:_WORDS], new.split()[:_WORDS]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < 0.35:
        return [ArgumentChange("command", _cut(old), _cut(new))]
    return [
        ArgumentChange("command", _cut(" ".join(before[i:j]) or None), _cut(" ".join(after[k:m]) or None))
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    ]


def _narrowed(old: str, new: str) -> tuple[str | None, str | None]:
    """Return the parts of two texts that differ, with a little of what stands around them."""
    start, end = _common(old, new)
    start = max(0, start - 24)
    end = max(0, end - 24)
    sides = [text[start : len(text) - end] for text in (old, new)]
    marks = [("…" if start else "") + side + ("…" if end else "") for side in sides]
    return _cut(marks[0]), _cut(marks[1])


def _common(old: str, new: str) -> tuple[int, int]:
    """Return how many characters two texts share at their beginning and at their end, whole words of them."""
    least = min(len(old), len(new))
    start = next((n for n in range(least) if old[n] != new[n]), least)
    while start > 0 and old[start - 1].isalnum():
        start -= 1
    least -= start
    end = next((n for n in range(least) if old[-1 - n] != new[-1 - n]), least)
    while end > 0 and old[len(old) - end].isalnum():
        end -= 1
    return start, end


def describe_edit(arguments: Any, redact: Callable[[str], str]) -> str:
    """Return what an edit put in place of what, in a few words; "" where the call is no such edit."""
    if not isinstance(arguments, Mapping):
        return ""
    for before, after in _EDIT_KEYS:
        old, new = arguments.get(before), arguments.get(after)
        if isinstance(old, str) and isinstance(new, str):
            return _replaced(redact(old[:_KEPT]), redact(new[:_KEPT]))
    return ""


def _replaced(old: str, new: str) -> str:
    """Tell two texts apart by their lines; where one line became another, by the words in it."""
    before, after = ([line.strip() for line in text.splitlines()] for text in (old, new))
    gone = [line for line in before if line not in after]
    put = [line for line in after if line not in before]
    if len(gone) == 1 and len(put) == 1:
        start, end = _common(gone[0], put[0])
        gone, put = ([line[start : len(line) - end]] for line in (gone[0], put[0]))
    was, now = shorten(" ".join(gone), 100), shorten(" ".join(put), 100)
    if was and now:
        return f"`{was}` → `{now}`"
    return f"added `{now}`" if now else f"removed `{was}`" if was else ""


def _cut(text: str | None) -> str | None:
    return text if text is None else shorten(text, MAX_SIDE)


def shorten(text: str, limit: int) -> str:
    """Return a text on one line, cut to `limit` with an ellipsis."""
    line = " ".join(text[: 8 * limit + 512].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def summarize_arguments(
    tool: str,
    arguments: Any,
    limit: int = MAX_SUMMARY,
    redact_named: Callable[[str, Any], Any] = lambda _, value: value,
) -> str:
    """Return what a call was given in a few words: its command, its file, or its most telling values.

    `beside` hides a value that a name beside it tells to be a secret: the names are not part of the words.
    """
    line = shell_command(tool, arguments)
    if line is not None:
        return shorten(strip_command(line), limit)
    if isinstance(arguments, Mapping):
        for key in tool_kinds.PATH_KEYS:
            if isinstance(arguments.get(key), str) and "pattern" not in arguments:
                path: str = arguments[key]
                return path if len(path) <= limit else "…" + path[1 - limit :]
    found = scalar_leaves(arguments, limit=12)
    texts = [
        str(redact_named(_name_of(found, place), value))
        for place, (key, value) in enumerate(found)
        if value not in (None, "") and not isinstance(value, bool) and not tool_kinds.SETTING_KEYS.fullmatch(key)
    ]
    return shorten(" ".join(texts), limit)


def _name_of(found: list[tuple[str, Any]], place: int) -> str:
    """Return a leaf's key; of a "value" the name that stands beside it, as in `{"name": "API_TOKEN", "value": ...}`."""
    key = found[place][0]
    if key.endswith("value"):
        before = key.removesuffix("value")
        for other, name in found[max(0, place - 1) : place + 2]:
            if other in (before + "name", before + "key") and isinstance(name, str):
                return name
    return key
