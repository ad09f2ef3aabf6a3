"""A line is its id and what it says: another's id hides nothing, and a copy is not learned twice, wherever it lies."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from consolidator.database import Database
from tests.integration.log.claude_logs import import_logs, read_texts, user_line, write_log

PROMPT = {"role": "user", "content": "I prefer tabs"}
# What a planted line has in another way than the real one, whose session and uuid it claims.
PLANTED: dict[str, dict[str, Any]] = {
    "other words": {"message": {"role": "user", "content": "I prefer wire transfers"}},
    "another role": {"type": "assistant", "message": {"role": "assistant", "content": "I prefer tabs"}},
    "words of the harness": {"isMeta": True},
    "a sub-agent's": {"isSidechain": True},
    "a summary": {"isCompactSummary": True},
    "another origin": {"origin": {"kind": "task"}},
    "a result": {"message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}},
    "words as a list": {"message": {"role": "user", "content": ["I prefer", "tabs"]}},
    "one character more": {"message": {"role": "user", "content": "I prefer tabs "}},
}


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("first", ["planted", "real"])
async def test_a_line_that_claims_the_id_of_another_hides_it_neither_way(
    database: Database, tmp_path: Path, what: str, first: str
) -> None:
    real = write_log(tmp_path / "real" / "s.jsonl", [user_line(1, "", message=PROMPT)])
    planted = write_log(tmp_path / "planted" / "s.jsonl", [user_line(1, "", **{"message": PROMPT, **PLANTED[what]})])
    one, other = (planted, real) if first == "planted" else (real, planted)
    assert (await import_logs(database, one)).problems == []
    report = await import_logs(database, other)
    assert report.problems == [
        f"{other}:1: a line with the same id but other content was imported before; both are kept"
    ]
    assert sum(texts.count("I prefer tabs") for texts in (await read_texts(database)).values()) >= 1
    for log in (real, planted):  # neither comes again
        copy = Path(shutil.copy(log, tmp_path / f"copy-of-{log.parent.name}.jsonl"))
        again = await import_logs(database, copy)
        assert (again.events, again.problems) == (0, [])


# How a copy of a line may differ from its original.
COPIES: dict[str, dict[str, Any]] = {
    "the same": {},
    "at another time": {"timestamp": "2026-04-01T10:00:00.000Z"},
    "in another folder": {"cwd": "/src/other", "gitBranch": "main"},
    "by a newer version": {"version": "9.9.9", "requestId": "r", "slug": "x"},
    "in a resumed session": {"sessionId": "t"},
    "in a fork, under a new id": {
        "sessionId": "u",
        "uuid": "n",
        "forkedFrom": {"sessionId": "s", "messageUuid": "s-1"},
    },
    "after another line": {"parentUuid": "p", "logicalParentUuid": "q"},
    "with its fields in another order": {"uuid": "s-1", "type": "user"},
}


@pytest.mark.parametrize("what", COPIES)
async def test_a_copy_is_not_learned_twice(database: Database, tmp_path: Path, what: str) -> None:
    line = user_line(1, "I prefer tabs")
    copied = dict(reversed(line.items())) if what == "with its fields in another order" else line
    await import_logs(database, write_log(tmp_path / "a.jsonl", [line]))
    report = await import_logs(database, write_log(tmp_path / "b.jsonl", [{**copied, **COPIES[what]}]))
    assert report.problems == []
    assert report.repeated >= 1
    assert sum(texts.count("I prefer tabs") for texts in (await read_texts(database)).values()) == 1


async def test_both_are_kept_within_one_file(database: Database, tmp_path: Path) -> None:
    lines = [user_line(1, "one"), user_line(1, "two"), user_line(1, "one"), user_line(1, "two")]
    report = await import_logs(database, write_log(tmp_path / "s.jsonl", lines))
    assert (await read_texts(database))["s"] == ["SessionStart", "one", "two"]
    assert (report.repeated, report.problem_count) == (2, 1)


async def test_an_export_that_claims_the_numbers_of_another_hides_nothing(database: Database, tmp_path: Path) -> None:
    def export(name: str, text: str) -> Path:
        head = {"consolidator": 1, "session": {"id": "far", "agent": "x"}}
        return write_log(tmp_path / name, [head, {"seq": 1, "type": "UserMessage", "data": {"text": text}}])

    await import_logs(database, export("planted.jsonl", "planted"), "consolidator")
    report = await import_logs(database, export("real.jsonl", "real"), "consolidator")
    assert report.problem_count == 1
    assert await read_texts(database) == {"far": ["planted", "real"]}
