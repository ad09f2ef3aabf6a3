"""Reading JSON lines: whatever is in one line, the next one is read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from consolidator.formats.base import Problem, Skipped
from consolidator.formats.common import jsonl
from consolidator.formats.common.json_parsing import MAX_DEPTH, parse_json
from consolidator.formats.common.jsonl import parse_head, read_objects
from consolidator.formats.common.log_files import find_files


def read(tmp_path: Path, content: bytes) -> list[Any]:
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    return [line for _, line in read_objects(path)]


def test_every_line_is_accounted_for_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n\nnonsense\n[1]\n{"b":2}\n')
    lines = list(read_objects(path))
    assert [number for number, _ in lines] == [1, 2, 3, 4, 5]
    assert lines[0][1] == {"a": 1}
    assert lines[1][1] == Skipped("blank", 2)
    assert isinstance(lines[2][1], Problem)
    assert lines[3][1] == Problem("not an object but list", 4)
    assert lines[4][1] == {"b": 2}


def test_a_torn_last_line_is_unfinished_and_no_problem(tmp_path: Path) -> None:
    assert read(tmp_path, b'{"a":1}\n{"b":"caf\xc3') == [{"a": 1}, Skipped("unfinished", 2)]


def test_a_whole_last_line_without_newline_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, b'{"a":1}\n{"b":2}') == [{"a": 1}, {"b": 2}]


def test_invalid_utf8_is_replaced(tmp_path: Path) -> None:
    assert read(tmp_path, b'{"a":"x\xffy"}\n') == [{"a": "x�y"}]


def test_nul_bytes_in_strings_are_kept_and_between_lines_dropped(tmp_path: Path) -> None:
    assert read(tmp_path, b'\0\0\0{"a":"x\0y"}\0\n\0\0\n') == [{"a": "x\0y"}, Skipped("blank", 2)]


def test_a_byte_order_mark_and_windows_newlines_do_not_matter(tmp_path: Path) -> None:
    assert read(tmp_path, b'\xef\xbb\xbf{"a":1}\r\n{"b":2}\r\n') == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("depth", [MAX_DEPTH, 1_000, 100_000])
def test_deep_nesting_is_a_problem_and_the_next_line_is_read(tmp_path: Path, depth: int) -> None:
    deep = b'{"a":' + b"[" * depth + b"]" * depth + b"}\n"
    problem, after = read(tmp_path, deep + b'{"b":2}\n')
    assert problem == Problem(f"nested deeper than {MAX_DEPTH} levels", 1)
    assert after == {"b": 2}


def test_many_brackets_are_not_deep_nesting() -> None:
    assert parse_json("[" + ",".join(["[[{}]]"] * 500) + "]") == [[[{}]]] * 500


def test_numbers_that_json_does_not_have_stay_text() -> None:
    assert parse_json('{"a": NaN, "b": -Infinity, "c": 1e999, "d": 1.5}') == {
        "a": "NaN",
        "b": "-Infinity",
        "c": "1e999",
        "d": 1.5,
    }


def test_an_endless_integer_is_a_problem(tmp_path: Path) -> None:
    problem, after = read(tmp_path, b'{"a":' + b"1" * 10_000 + b'}\n{"b":2}\n')
    assert isinstance(problem, Problem)
    assert after == {"b": 2}


def test_a_line_beyond_the_bound_is_a_problem_and_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE", 1_000_000)
    monkeypatch.setattr(jsonl, "_CHUNK", 100_000)
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":"' + b"x" * 20_000_000 + b'"}\n{"b":2}\n')
    tracemalloc.start()
    lines = [line for _, line in read_objects(path)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines == [Problem("longer than 1000000 bytes", 1), {"b": 2}]
    assert peak < 5_000_000


def test_a_line_of_fifty_megabytes_is_read(tmp_path: Path) -> None:
    large, after = read(tmp_path, b'{"a":"' + b"x" * 50_000_000 + b'"}\n{"b":2}\n')
    assert len(large["a"]) == 50_000_000
    assert after == {"b": 2}


def test_the_head_of_a_file_gives_its_whole_objects() -> None:
    assert list(parse_head(b'\xef\xbb\xbf{"a":1}\n[1]\nnonsense\n{"b":2}\n{"c":')) == [{"a": 1}, {"b": 2}]


def test_files_below_a_directory_are_sorted_and_a_file_is_itself(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/2.jsonl", "a.jsonl", "b/1.jsonl", "c.txt"):
        (tmp_path / name).touch()
    assert list(find_files(tmp_path, ".jsonl")) == [tmp_path / name for name in ("a.jsonl", "b/1.jsonl", "b/2.jsonl")]
    assert list(find_files(tmp_path / "c.txt", ".jsonl")) == [tmp_path / "c.txt"]
