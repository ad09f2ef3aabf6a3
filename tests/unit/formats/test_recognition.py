"""A file's format is recognised by what tells, wherever it stands in a JSON object."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from consolidator.formats.common import json_members
from consolidator.formats.common.json_members import read_member_starts
from consolidator.formats.registry import HEAD_BYTES, recognise_format


def results_file(info_bytes: int) -> dict[str, Any]:
    """Return results of a simulation: what was run, its tasks, and only then the conversations."""
    calls = [{"id": "c1", "name": "get_user", "arguments": {"user_id": "u_1"}}]
    return {
        "timestamp": "2026-01-05T10:00:00",
        "info": {"policy": 'Say "yes" only to [them] {x} \\ ' + "é" * info_bytes, "messages": None},
        "tasks": [{"id": str(n), "instructions": "be brief " * 20, "actions": [{"name": "x"}]} for n in range(500)],
        "simulations": [
            {
                "id": "s1",
                "task_id": "1",
                "messages": [
                    {"role": "user", "content": "Hello"},
                    {"role": "assistant", "content": None, "tool_calls": calls},
                    {"role": "tool", "id": "c1", "content": "{}"},
                ],
                "reward_info": {"reward": 1.0},
            }
        ],
    }


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("info_bytes", [10, HEAD_BYTES, 3 * 1024 * 1024])
def test_conversations_after_long_tasks_are_recognised(tmp_path: Path, info_bytes: int, indent: int | None) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results_file(info_bytes), indent=indent, ensure_ascii=False), encoding="utf-8")
    assert path.stat().st_size > HEAD_BYTES
    found = recognise_format(path)
    assert found is not None
    assert found.NAME == "openai-messages"


@pytest.mark.parametrize("name", ["array.json", "lines.jsonl", "lines.json"])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("first_key", "first_value"),
    [("info", "z" * 100_000), ("info", {"messages": None, "rows": [{"a": "b"}] * 10_000}), ("info", ["["] * 50_000)],
)
def test_records_with_a_long_first_member_are_recognised(
    tmp_path: Path, name: str, indent: int | None, first_key: str, first_value: Any
) -> None:
    record = {first_key: first_value, "traj": [{"role": "user", "content": "Hello"}]}
    path = tmp_path / name
    if name == "array.json":
        path.write_text(json.dumps([record, record], indent=indent))
    else:
        path.write_text(f"{json.dumps(record)}\n" * 2)
    found = recognise_format(path)
    assert found is not None
    assert found.NAME == "openai-messages"


@pytest.mark.parametrize("arrays", [0, 1, 2])
def test_messages_with_a_long_first_member_are_recognised(tmp_path: Path, arrays: int) -> None:
    path = tmp_path / "messages.json"
    message = json.dumps({"content": "z" * 100_000, "role": "user"})
    path.write_text("[" * arrays + message + "]" * arrays)
    found = recognise_format(path)
    assert found is not None
    assert found.NAME == "openai-messages"


def test_other_large_files_are_not_recognised(tmp_path: Path) -> None:
    rows = [{"name": "simulations", "value": n} for n in range(5000)]
    for number, text in enumerate(
        (
            json.dumps({"rows": rows}),
            json.dumps(rows),
            json.dumps([1, *rows]),
            json.dumps([["simulations"] * 9999]),
            '{"a": "' + "x" * HEAD_BYTES,
            "{" * 99_999,
            "[" * 99_999,
        )
    ):
        path = tmp_path / f"data{number}.json"
        path.write_text(text)
        assert recognise_format(path) is None


@pytest.mark.parametrize("opening", ["{", "[{", "[[{"])
def test_members_are_named_wherever_a_chunk_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opening: str) -> None:
    value = {"a": 'x"y\\', "b": {"c": [1, {"d": "e: {"}]}, "f": None, "g\\": ["}"], "h": "i"}
    path = tmp_path / "small.json"
    closing = ', {"z": 1}]' * (len(opening) - 1)
    path.write_text(opening[:-1] + json.dumps(value) + closing)
    for size in range(1, 40):
        monkeypatch.setattr(json_members, "_CHUNK", size)
        monkeypatch.setattr(json_members, "MAX_MEMBER_START", 9)
        names = [json.JSONDecoder().raw_decode(start.decode(), len(opening))[0] for start in read_member_starts(path)]
        assert names == list(value)


def test_a_large_file_is_read_as_far_as_the_limit_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.json"
    path.write_text('{"rows": [' + '{"a": "bcd"},' * 500_000 + '{}], "simulations": []}')
    tracemalloc.start()
    assert recognise_format(path) is not None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000 < path.stat().st_size
    monkeypatch.setattr(json_members, "MAX_SCANNED", 5_000_000)
    assert recognise_format(path) is None
