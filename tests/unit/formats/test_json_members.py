"""Reading one JSON text of many records, one record at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from consolidator.formats.base import Problem
from consolidator.formats.common import json_members
from consolidator.formats.common.json_members import read_members


def read(tmp_path: Path, text: str) -> list[tuple[int, str, Any]]:
    path = tmp_path / "all.json"
    path.write_text(text, encoding="utf-8")
    return list(read_members(path))


def test_members_come_with_line_and_key(tmp_path: Path) -> None:
    assert read(tmp_path, '{\n"a": {"x": 1},\n\n"b": [2]\n}\n') == [(2, "a", {"x": 1}), (4, "b", [2])]


def test_an_array_is_keyed_by_index(tmp_path: Path) -> None:
    assert read(tmp_path, "[1, 22, 333]") == [(1, "0", 1), (1, "1", 22), (1, "2", 333)]


@pytest.mark.parametrize("text", ["{}", " [] ", "\ufeff{}"])
def test_nothing_in_it_is_nothing(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == []


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64])
def test_where_the_window_ends_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(json_members, "_CHUNK", chunk)
    whole = {"a": 123456, "b": {"c": 'é\n\\"}{', "d": [1.5, True, None]}, "": -1e10}
    assert [(key, value) for _, key, value in read(tmp_path, json.dumps(whole, indent=1))] == list(whole.items())


@pytest.mark.parametrize("text", ['{"a": 1', '{"a": 1, "b": tru}', "[1 2]", "", "nonsense", "[1] [2]", '{"a": 1,,}'])
def test_damage_is_a_last_problem_after_what_was_whole(tmp_path: Path, text: str) -> None:
    *whole, (_, _, last) = read(tmp_path, text)
    assert isinstance(last, Problem)
    assert all(value == 1 for _, _, value in whole)
