"""Read JSON lines as a stream with constant memory, whatever the file contains. Independent of any log format.

A bad line never stops the ones after it: a line that cannot be read becomes a `Problem`, and a last line that is still
being written is `Skipped`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consolidator.formats.base import Problem, Skipped
from consolidator.formats.common.json_parsing import parse_json
from consolidator.formats.common.log_files import open_log

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
        yield number, Problem(f"longer than {MAX_LINE} bytes", number) if raw is None else _parse_line(raw, number)


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
