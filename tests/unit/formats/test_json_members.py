"""Reading one JSON text of many records, one record at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from consolidator.formats.base import Problem
from consolidator.formats.common import json_members
from consolidator.formats.common.json_members import read_elements


def read(tmp_path: Path, text: str) -> list[tuple[int, Any]]:
    path = tmp_path / "all.json"
    path.write_text(text, encoding="utf-8")
    return list(read_elements(path))


def test_elements_come_with_their_line(tmp_path: Path) -> None:
    assert read(tmp_path, '[\n{"x": 1},\n\n[2], 333]\n') == [(2, {"x": 1}), (4, [2]), (4, 333)]


@pytest.mark.parametrize("text", ["[]", " [ ] ", "\ufeff[]"])
def test_nothing_in_it_is_nothing(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == []


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_where_the_window_ends_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(json_members, "_CHUNK", chunk)
    whole = [123456, {"c": 'é\n\\"}{', "d": [1.5, True, None]}, -1e10]
    assert [value for _, value in read(tmp_path, json.dumps(whole, indent=1))] == whole


@pytest.mark.parametrize("text", ["[1", "[1, tru]", "[1 2]", "", "nonsense", "[1] [2]", "[1,,2]", '{"a": 1}'])
def test_damage_is_a_last_problem_after_what_was_whole(tmp_path: Path, text: str) -> None:
    *whole, (_, last) = read(tmp_path, text)
    assert isinstance(last, Problem)
    assert all(value == 1 for _, value in whole)
