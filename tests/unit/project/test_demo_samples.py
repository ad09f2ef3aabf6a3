"""The demo's sample sessions: every line of them means something, and the files they become grow as real ones do."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from consolidator import demo as logs
from consolidator.demo import story_start
from consolidator.formats.base import ForeignEvent, ForeignSession, Problem, Skipped
from consolidator.formats.registry import get_format, recognise_format
from release.demo_logs import writer
from release.demo_logs.script import AGENTS, load_samples, parse_script

START = datetime(2026, 2, 2, tzinfo=UTC)
ALL = timedelta(days=28)
SECRET = "fl_stg_T9x2LmQ8vR4nKc7WbZ1yHd63"  # typed by a person and used in commands of the samples


def write_and_read_logs(folder: Path, until: timedelta = ALL) -> dict[str, str]:
    """Write the logs, and return the text of each by its path in the folder."""
    logs.write_logs(folder, START, until)
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.jsonl"))}


def test_four_weeks_of_three_agents_are_written_down() -> None:
    samples = load_samples()
    assert Counter(sample.agent for sample in samples).keys() == set(AGENTS)
    assert 45 <= len(samples) <= 60
    assert max(sample.items[-1].at for sample in samples) < ALL
    assert {sample.starts_at // timedelta(weeks=1) for sample in samples} == {0, 1, 2, 3}


def test_the_logs_are_what_their_scripts_say(tmp_path: Path) -> None:
    writer.write_logs(load_samples(), tmp_path / "scripts", START, ALL)
    expected = {
        str(path.relative_to(tmp_path / "scripts")): path.read_text()
        for path in (tmp_path / "scripts").rglob("*.jsonl")
    }
    assert write_and_read_logs(tmp_path / "logs") == expected


def test_every_log_is_recognised_and_every_line_of_it_is_explained(tmp_path: Path) -> None:
    write_and_read_logs(tmp_path)
    counts: Counter[str] = Counter()
    for source in logs.list_sources(tmp_path):
        name, _, path_text = source.partition(":")
        log_format = get_format(name)
        for path in log_format.files(Path(path_text)):
            assert recognise_format(path) is log_format
            for item in log_format.read(path, Path(path_text)):
                assert not isinstance(item, (Problem, Skipped)), item
                if isinstance(item, ForeignEvent):
                    counts[item.type] += 1
                    assert "occurred_at" in item.data or item.type in ("SessionStart", "TaskStart", "TaskEnd")
                elif isinstance(item, ForeignSession):
                    counts[item.agent] += 1
    assert counts["ToolCall"] == counts["ToolResult"] > 300
    assert counts["ApprovalDenied"] >= 3
    assert {"SubAgentSpawn", "TaskEnd", *AGENTS} <= counts.keys()


def test_files_grow_and_never_change_what_they_said(tmp_path: Path) -> None:
    before: dict[str, str] = {}
    for day in range(1, 29):
        now = write_and_read_logs(tmp_path, timedelta(days=day, hours=2, minutes=45))
        for name, text in before.items():
            assert now[name].startswith(text), name
        before = now


def test_the_story_ends_with_the_latest_night_that_has_passed() -> None:
    before = story_start(datetime(2026, 3, 2, 3, 29, tzinfo=UTC))
    after = story_start(datetime(2026, 3, 2, 3, 31, tzinfo=UTC))
    assert before == datetime(2026, 2, 1, tzinfo=UTC)
    assert after == datetime(2026, 2, 2, tzinfo=UTC)


def test_the_secret_is_in_the_samples(tmp_path: Path) -> None:
    assert sum(text.count(SECRET) for text in write_and_read_logs(tmp_path).values()) >= 3


@pytest.mark.parametrize("script", ["> hello", "=== one | today\n> hello", "=== one | day 1 09:00\nhello"])
def test_a_script_that_cannot_be_read_is_refused(script: str) -> None:
    with pytest.raises(ValueError, match=r"agent|unknown mark"):
        list(parse_script("agent", script))
