"""The demo's sample sessions: every line of them means something, and the files they become grow as real ones do."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from consolidator.demo import logs
from consolidator.demo.script import AGENTS, parse, samples
from consolidator.demo.story import SECRET, begins
from consolidator.formats import format_named, recognise
from consolidator.formats.base import ForeignEvent, ForeignSession, Problem, Skipped

START = datetime(2026, 1, 5, tzinfo=UTC)
ALL = timedelta(days=28)


def written(folder: Path, until: timedelta = ALL) -> dict[str, str]:
    """Write the logs, and return the text of each by its path in the folder."""
    logs.write(samples(), folder, START, until)
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.jsonl"))}


def test_four_weeks_of_three_agents_are_written_down() -> None:
    found = samples()
    assert Counter(one.agent for one in found).keys() == set(AGENTS)
    assert 45 <= len(found) <= 60
    assert max(one.items[-1].at for one in found) < ALL
    assert {one.begins // timedelta(weeks=1) for one in found} == {0, 1, 2, 3}


def test_every_log_is_recognised_and_every_line_of_it_is_explained(tmp_path: Path) -> None:
    written(tmp_path)
    counts: Counter[str] = Counter()
    for source in logs.sources(tmp_path):
        name, _, place = source.partition(":")
        form = format_named(name)
        for path in form.files(Path(place)):
            assert recognise(path) is form
            for item in form.read(path, Path(place)):
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
        now = written(tmp_path, timedelta(days=day, hours=2, minutes=45))
        for name, text in before.items():
            assert now[name].startswith(text), name
        before = now


def test_the_story_ends_with_the_latest_night_that_has_passed() -> None:
    before = begins(datetime(2026, 3, 2, 3, 29, tzinfo=UTC))
    after = begins(datetime(2026, 3, 2, 3, 31, tzinfo=UTC))
    assert before == datetime(2026, 2, 1, tzinfo=UTC)
    assert after == datetime(2026, 2, 2, tzinfo=UTC)


def test_the_secret_is_in_the_samples(tmp_path: Path) -> None:
    assert sum(text.count(SECRET) for text in written(tmp_path).values()) >= 3


@pytest.mark.parametrize("script", ["> hello", "=== one | today\n> hello", "=== one | day 1 09:00\nhello"])
def test_a_script_that_cannot_be_read_is_refused(script: str) -> None:
    with pytest.raises(ValueError, match=r"agent|means nothing"):
        list(parse("agent", script))
