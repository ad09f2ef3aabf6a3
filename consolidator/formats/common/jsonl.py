"""Reads and writes JSONL, one line at a time, and keeps what a reader fails on to its one line.

A problem has the number of its line, and the lines after it are still read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from consolidator.formats.base import Item, Problem, Skipped
from consolidator.formats.common.json_parsing import find_whole, parse_json
from consolidator.formats.common.log_files import open_log


def guard_line(items: Iterator[Item], line: int | None) -> Iterator[Item]:
    """Yield the items of one line or record; a Problem instead of all of them if its reader fails on it.

    The values of an error stay out of the message: they may be anything that the line holds.
    """
    try:
        understood = list(items)
    except Exception as error:  # noqa: BLE001 - a line is whatever another program wrote
        understood = [Problem(f"a value of this line is of a kind that cannot be read ({type(error).__name__})", line)]
    yield from understood


MAX_LINE = 64 * 1024 * 1024  # bytes; a longer line is a Problem and is never loaded
_CHUNK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_PADDING = b" \t\r\n\x00"  # a crash can leave blocks of NUL between complete lines


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | Skipped | Problem]]:
    """Yield every line of a JSONL file with its number, from 1: an object, a Skipped or a Problem."""
    for number, value in read_values(path):
        if isinstance(value, (dict, Skipped, Problem)):
            yield number, value
        else:
            yield number, Problem(f"not an object but {type(value).__name__}", number)


def read_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield every line of a JSONL file with its number, from 1: any JSON value, a Skipped or a Problem."""
    for number, raw in _read_raw_lines(path):
        if raw is None:
            yield number, Problem(f"longer than {MAX_LINE} bytes", number)
            continue
        value = _parse_line(raw, number)
        yield number, value
        if isinstance(value, Problem):  # a line may be torn, and a whole one begin on it
            text = raw.decode("utf-8", "replace")
            start = find_whole(text.lstrip(" \t\x00"))
            if start is not None:
                yield number, _parse_line(text.lstrip(" \t\x00")[start:].encode("utf-8", "surrogatepass"), number)


def _parse_line(raw: bytes, number: int) -> Any:
    body = raw.strip(_PADDING)
    if not body:
        return Skipped("blank", number)
    try:
        return parse_json(body)
    except ValueError as error:
        # No newline yet: the line is still being written, and the next import reads it.
        return Problem(str(error), number) if raw.endswith(b"\n") else Skipped("unfinished", number)


def _read_raw_lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its newline; None for a line that is too long, which is skipped in chunks."""
    with open_log(path) as file:
        number = 0
        while raw := file.readline(MAX_LINE + 1):
            number += 1
            if len(raw) > MAX_LINE:
                last_byte = raw[-1:]
                del raw  # free it while the rest of the line is skipped
                while last_byte != b"\n" and (piece := file.readline(_CHUNK)):
                    last_byte = piece[-1:]
                yield number, None
            else:
                yield number, raw.removeprefix(_BOM) if number == 1 else raw


def parse_head(head: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects in the first lines of a file, to recognise its format; `head` is the file's beginning."""
    for raw in head.removeprefix(_BOM).splitlines():
        try:
            value = parse_json(raw.strip(_PADDING))
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


# A lone surrogate has no UTF-8 encoding, so it stays escaped; json itself escapes U+0000 and line ends.
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN, _CANONICAL = (
    json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=canonical)
    for canonical in (False, True)
)


def encode_line(value: Mapping[str, Any], *, canonical: bool = False) -> str:
    """Return an object as one line with its newline; `canonical` sorts the keys: equal objects give equal bytes.

    NaN and Infinity, which JSON does not have, are written as strings. Two adjacent lone surrogates that form a
    character are read back as that character: JSON cannot distinguish them.
    """
    encoder = _CANONICAL if canonical else _PLAIN
    try:
        text = encoder.encode(value)
    except ValueError:
        text = encoder.encode(_replace_non_finite(value))
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def join_surrogates(text: str) -> str:
    """Join surrogate pairs that were split between chunks of a text."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: _replace_non_finite(member) for name, member in value.items()}
    return [_replace_non_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
