"""Changes of other programs' files: what mode a file gets, and what is remembered of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from consolidator.errors import UsageError
from consolidator.service.clients.changes import load_record
from consolidator.service.clients.rules_file import RECORD, list_rule_files, plan_rules, write_rules
from consolidator.settings import Settings
from tests.conftest import NOON


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_file_gets_the_usual_mode_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    new, old = tmp_path / "AGENTS.md", tmp_path / "CLAUDE.md"
    old.write_text("# Mine\n")
    old.chmod(0o604)
    for path in (new, old):
        made = write_rules(plan_rules(path, ["Use tabs."]), settings, NOON)
    assert (mode(new), mode(old)) == (0o640, 0o604)
    assert mode(Path(made[0].backup or "")) == mode(settings.home / RECORD) == 0o600  # a private file's copy is private
    assert sorted(path.name for path in tmp_path.iterdir()) == ["AGENTS.md", "CLAUDE.md", "home"]


def test_files_with_rules_are_known_until_the_rules_are_out(tmp_path: Path) -> None:
    settings, path = Settings(home=tmp_path / "home"), tmp_path / "AGENTS.md"
    assert list_rule_files(settings) == []
    for rules in (["Use tabs."], ["Use tabs.", "No emoji."]):
        write_rules(plan_rules(path, rules), settings, NOON)
    assert list_rule_files(settings) == [path]
    assert len(load_record(settings.home / RECORD)) == 1
    write_rules(plan_rules(path, []), settings, NOON)
    assert list_rule_files(settings) == []


def test_a_link_to_what_is_no_document_gets_no_rules(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("alias l=ls\n")
    (tmp_path / "AGENTS.md").symlink_to(tmp_path / ".bashrc")
    with pytest.raises(UsageError, match="is a link"):
        plan_rules(tmp_path / "AGENTS.md", ["Use tabs."])
    (tmp_path / "CLAUDE.md").symlink_to("guide.md")
    assert plan_rules(tmp_path / "CLAUDE.md", ["Use tabs."]).is_change
