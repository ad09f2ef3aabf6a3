"""What a night says on a terminal: a short table, and progress that names projects."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from consolidator.cli import output
from consolidator.cli.nights import runs
from consolidator.cli.output import progress_bar, progress_callbacks
from consolidator.jobs.ledger import session_title

NIGHT: dict[str, Any] = {
    "job": "consolidation", "seen": 40, "units": 2, "learned": 30, "nothing": 10, "deferred": 0, "dead": 0,
    "memory": {"claude-code": "procedures: 7 added; solutions: 14 added", "pi": "facts: 1 added, 2 reinforced"},
    "model": "none: rules only", "foreign": 412,
}  # fmt: skip


def print_on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> str:
    """Return what a night prints on a terminal of so many columns."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=columns, color_system=None, highlight=False)
    for module in (output, runs):
        monkeypatch.setattr(module, "OUT", console)
    runs.print_night(NIGHT)
    return file.getvalue()


def test_a_night_is_a_table_of_agents_and_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = print_on_terminal(monkeypatch, 120).splitlines()
    assert lines[0] == "The night read 40 events in 2 sessions: 30 learned from, 10 with nothing to learn."
    assert "412 messages in other languages were not read: set a model" in lines
    (header,) = (line for line in lines if "agent" in line and "facts" in line)
    rows = {line.split()[0]: line for line in lines if line.strip().startswith(("claude-code", "pi"))}
    assert header.split() == ["agent", "facts", "procedures", "solutions"]
    for agent, column, cell in (("claude-code", "solutions", "14 added"), ("pi", "facts", "1 added, 2 reinforced")):
        assert rows[agent][header.index(column) :].startswith(cell)


def test_a_night_is_lines_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = print_on_terminal(monkeypatch, 80)
    assert [line.strip() for line in text.replace("\u00a0", " ").splitlines()][2:4] == [
        "claude-code",
        "procedures 7 added · solutions 14 added",
    ]


def test_progress_names_projects_and_agents_and_no_id() -> None:
    assert [session_title("pi", project) for project in (None, "/src/shop/", "C:\\src\\shop")] == [
        "in pi", "in shop", "in shop"
    ]  # fmt: skip
    with progress_bar("consolidation") as bar:
        started, progress = progress_callbacks(bar)
        started(3)
        said = []
        for unit in ("in shop", "01M83NA787BWTCM1XG1XQ706D8", "merge claude-code"):
            progress(unit)
            said.append((bar.tasks[0].description, bar.tasks[0].completed))
    assert said == [("consolidation · shop", 1), ("consolidation", 2), ("consolidation · merging claude-code", 2)]
