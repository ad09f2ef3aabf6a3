"""Projects of working directories, times of foreign logs, and coerced payloads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consolidator.formats.common.fields import fit_payload, occurred_at_field, to_utc_iso
from consolidator.formats.common.project import derive_project
from consolidator.hooks.warn import _find_repository
from consolidator.models.payload import EventType, check_payload


@pytest.mark.parametrize(
    ("cwd", "project"),
    [
        ("/home/ann/shop", "/home/ann/shop"),
        ("/home/ann/shop/", "/home/ann/shop"),
        ("/home/ann//shop/./src/..", "/home/ann/shop"),
        ("/home/ann/shop-worktrees/fix-12", "/home/ann/shop"),
        ("/home/ann/shop.worktrees/fix-12/src", "/home/ann/shop"),
        ("/home/ann/shop/.claude/worktrees/fix-12", "/home/ann/shop"),
        ("/home/ann/shop/.git/worktrees/fix-12", "/home/ann/shop"),
        ("/home/ann/shop/.worktrees/fix-12/src", "/home/ann/shop"),
        ("/home/ann/worktrees/fix-12", "/home/ann/worktrees/fix-12"),
        ("/home/ann/shop-worktrees", "/home/ann/shop-worktrees"),
        ("c:\\Users\\Ann\\shop\\", "C:/Users/Ann/shop"),
        ("C:\\Users\\Ann\\shop-worktrees\\fix-12", "C:/Users/Ann/shop"),
        ("\\\\server\\share\\shop\\.worktrees\\x", "//server/share/shop"),
        ("/home/ann/.codex/worktrees/1a4b/shop", "/home/ann/shop"),
        ("/home/ann/.codex/worktrees/99ff/shop/src/api", "/home/ann/shop"),
        ("/home/ann/.cursor/worktrees/shop/fix-12", "/home/ann/shop"),
        ("/home/ann/.cursor/worktrees/shop/fix-12/src", "/home/ann/shop"),
        ("C:\\Users\\Ann\\.codex\\worktrees\\1a4b\\shop", "C:/Users/Ann/shop"),
        ("c:/Users/Ann/.cursor/worktrees/shop/fix-12", "C:/Users/Ann/shop"),
        ("/home/ann/.codex/worktrees/1a4b", "/home/ann/.codex/worktrees/1a4b"),
        ("/home/ann/.codex/skills/shop", "/home/ann/.codex/skills/shop"),
        ("/", "/"),
        ("relative/shop", "relative/shop"),
        ("", None),
        (None, None),
    ],
)
def test_worktrees_of_one_repository_are_one_project(cwd: str | None, project: str | None) -> None:
    assert derive_project(cwd) == project


def test_a_worktree_that_exists_says_which_repository_it_is_of(tmp_path: Path) -> None:
    for number, worktree in enumerate(("codex/worktrees/1a4b/shop", "cursor/worktrees/shop/x")):
        folder = tmp_path / f".{worktree}" / "src"
        folder.mkdir(parents=True)
        assert derive_project(str(folder)) == str(tmp_path / "shop")
        (folder.parent / ".git").write_text(f"gitdir: /src/work/shop/.git/worktrees/shop{number}\n")
        assert derive_project(str(folder)) == "/src/work/shop"
        (folder.parent / ".git").write_text("gitdir: ../elsewhere\n")
        assert derive_project(str(folder)) == str(tmp_path / "shop")


def make_worktree(place: Path) -> tuple[Path, Path, Path]:
    """Make a repository, a worktree of it as git does, and a folder that only says so; return their places."""
    shop, fix, sent = place / "shop", place / "away" / "fix-12", place / "sent"
    for folder in (shop / ".git" / "worktrees" / "fix-12", fix, sent):
        folder.mkdir(parents=True)
    (shop / ".git" / "worktrees" / "fix-12" / "gitdir").write_text(f"{fix}/.git\n")
    for folder in (fix, sent):
        (folder / ".git").write_text(f"gitdir: {shop}/.git/worktrees/fix-12\n")
    return shop, fix, sent


def test_a_worktree_anywhere_is_its_repositorys_where_both_say_so(tmp_path: Path) -> None:
    """A folder that somebody sent may say that it is of any repository."""
    shop, fix, sent = make_worktree(tmp_path)
    assert [derive_project(str(folder)) for folder in (shop, fix, sent)] == [str(shop), str(shop), str(sent)]
    payloads = [json.dumps({"tool_name": "Bash", "cwd": str(folder)}).encode() for folder in (shop, fix, sent)]
    assert [_find_repository(payload) for payload in payloads] == ["", str(shop), ""]


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-02-10T21:11:56.906Z", "2026-02-10T21:11:56.906000+00:00"),
        ("2026-02-10T23:11:56+02:00", "2026-02-10T21:11:56+00:00"),
        ("2026-02-10 21:11:56", "2026-02-10T21:11:56+00:00"),
        (1765233665292, "2025-12-08T22:41:05.292000+00:00"),
        (1765233665, "2025-12-08T22:41:05+00:00"),
        (0, "1970-01-01T00:00:00+00:00"),
        ("2100-01-01T00:00:00Z", "2100-01-01T00:00:00+00:00"),
        ("yesterday", None),
        ("0001-01-01T00:00:00+14:00", None),
        (1e300, None),
        (True, None),
        (None, None),
    ],
)
def test_a_time_becomes_utc_or_is_left_out(value: object, moment: str | None) -> None:
    assert to_utc_iso(value) == moment
    assert occurred_at_field(value) == ({} if moment is None else {"occurred_at": moment})


def test_a_payload_is_made_to_fit_and_loses_nothing() -> None:
    data = {"text": {"a": 1}, "message_id": 7, "model": None, "extra": 3}
    fitted = fit_payload(EventType.ASSISTANT_RESPONSE, data)
    assert fitted == {"text": '{"a": 1}', "message_id": "7", "extra": 3}
    check_payload(EventType.ASSISTANT_RESPONSE, fitted)
