"""Reads JSON lines as a stream with flat memory, whatever stands in the file, and JSON texts by the same rules.

No line may stop the ones after it: what cannot be read becomes a `Problem`, and a last line still being written is
`Skipped`. Nothing here knows a format.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Problem, Skipped

MAX_LINE = 64 * 1024 * 1024  # bytes; a longer line is a Problem and is never held
MAX_DEPTH = 200  # levels of nesting; beyond it other people's recursion, ours included, is not safe
_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_SPACE = " \t\r\n"
_PADDING = b" \t\r\n\x00"  # a crash can leave blocks of NUL between lines that are whole


def _finite(text: str) -> float | str:
    """Return a number that JSON can say again; 1e999 stays the text that it was."""
    value = float(text)
    return value if math.isfinite(value) else text


_DECODER = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=str)


def parse_json(raw: bytes | str) -> Any:
    """Parse one JSON text; raise ValueError with a reason that a person understands.

    Invalid UTF-8 becomes U+FFFD, control characters in strings (NUL too) are kept, and NaN and Infinity, which JSON
    does not have, are kept as strings.
    """
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    start = len(text) - len(text.lstrip(_SPACE))
    value, end = parse_prefix(text, start)
    if rest := text[end:].lstrip(_SPACE):
        raise ValueError(f"not JSON: more after the value, at character {len(text) - len(rest) + 1}")
    return value


def parse_prefix(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value that begins at `start`; return it and where it ends, by the rules of `parse_json`."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ValueError(f"not JSON that can be held: {error}") from None
    if text.count("[", start, end) + text.count("{", start, end) > MAX_DEPTH and _deep(value):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    return value, end


def _deep(value: Any) -> bool:
    """Tell whether a value is nested deeper than MAX_DEPTH, without recursion."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def number_of(value: Any) -> float | None:
    """Return a parsed number as a float; None for what is no number, or larger than any float."""
    try:
        return float(value) if isinstance(value, (int, float)) else None
    except OverflowError:
        return None


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | Skipped | Problem]]:
    """Yield every line of a JSONL file with its number, from 1: the object, or why there is none."""
    for number, value in read_values(path):
        if isinstance(value, (dict, Skipped, Problem)):
            yield number, value
        else:
            yield number, Problem(f"not an object but {type(value).__name__}", number)


def read_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield every line of a JSONL file with its number, from 1: any JSON value, or a Skipped or a Problem."""
    for number, raw in _raw_lines(path):
        yield number, Problem(f"longer than {MAX_LINE} bytes", number) if raw is None else _value(raw, number)


def _value(raw: bytes, number: int) -> Any:
    body = raw.strip(_PADDING)
    if not body:
        return Skipped("blank", number)
    try:
        return parse_json(body)
    except ValueError as error:
        # No newline yet: whoever writes the file is in the middle of this line, and the next import reads it.
        return Problem(str(error), number) if raw.endswith(b"\n") else Skipped("unfinished", number)


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its newline, or None for one that is too long, which is read past in pieces."""
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(MAX_LINE + 1):
            number += 1
            if len(raw) > MAX_LINE:
                last = raw[-1:]
                del raw  # or it would be held while the rest is read past
                while last != b"\n" and (piece := file.readline(_CHUNK)):
                    last = piece[-1:]
                yield number, None
            else:
                yield number, raw.removeprefix(_BOM) if number == 1 else raw


def head_objects(head: bytes) -> list[dict[str, Any]]:
    """Return the objects in the first lines of a file of which `head` is the beginning, for recognising a format."""
    found = []
    for raw in head.removeprefix(_BOM).splitlines():
        try:
            value = parse_json(raw.strip(_PADDING))
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def files_below(path: Path, *suffixes: str) -> Iterator[Path]:
    """Yield `path` itself if it is a file, else the files below it with one of the suffixes, sorted.

    What may not be looked at is yielded, too, and a directory that may not be listed: whoever reads it learns why.
    """
    found = [path] if _may_be_a_file(path) else []

    def unlisted(error: OSError) -> None:
        if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
            found.append(Path(error.filename or path))

    for folder, _, names in os.walk(path, onerror=unlisted):
        named = (Path(folder, name) for name in names if name.endswith(suffixes))
        found += [file for file in named if _may_be_a_file(file)]
    yield from sorted(set(found))


def _may_be_a_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):  # a link to nowhere, or gone meanwhile
        return False
    except OSError:
        return True
