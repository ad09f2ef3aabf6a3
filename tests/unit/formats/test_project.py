"""Projects of working directories, times of foreign logs, and coerced payloads."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from consolidator.formats.common.fields import fit_payload, occurred_at_field, to_utc_iso
from consolidator.formats.common.project import derive_project
from consolidator.formats.common.remotes import (
    asks_remote,
    find_repository,
    find_worktree,
    normalise_remote,
    read_printed,
)
from consolidator.hooks.warn import _find_repository
from consolidator.models.payload import EventType, check_payload


@pytest.mark.parametrize(
    ("cwd", "project"),
    [
        ("/home/ann/shop", "/home/ann/shop"),
        ("/home/ann/shop/", "/home/ann/shop"),
        ("/home/ann//shop/./src/..", "/home/ann/shop"),
        ("/home/ann/shop-worktrees/fix-12", "/home/ann/shop"),
        ("/home/ann/shop__worktrees/fix-12/api", "/home/ann/shop"),
        ("/home/ann/shop.worktrees/fix-12/src", "/home/ann/shop"),
        ("/home/ann/shop/.claude/worktrees/fix-12", "/home/ann/shop"),
        ("/home/ann/shop/.git/worktrees/fix-12", "/home/ann/shop"),
        ("/home/ann/shop/.worktrees/fix-12/src", "/home/ann/shop"),
        ("/home/ann/worktrees/fix-12", "/home/ann/worktrees/fix-12"),
        ("/home/ann/worktrees/shop/fix-12/shop", "/home/ann/worktrees/shop"),
        ("/home/ann/worktrees/shop/fix-12/shop/src", "/home/ann/worktrees/shop"),
        ("/home/ann/worktrees/shop/fix-12/docs", "/home/ann/worktrees/shop/fix-12/docs"),
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


@pytest.mark.parametrize(
    ("address", "repository"),
    [
        ("git@github.com:ann/shop.git", "github.com/ann/shop"),
        ("https://ann:secret@GitHub.com/ann/shop", "github.com/ann/shop"),
        ("ssh://git@git.example.org:2222/team/web/shop.git/", "git.example.org/team/web/shop"),
        ("/srv/git/shop.git", None),
        ("../shop", None),
        ("file:///srv/git/shop", None),
        ("localhost:ann/shop", None),
    ],
)
def test_a_remote_has_one_name_however_it_is_reached(address: str, repository: str | None) -> None:
    assert normalise_remote(address) == repository


def test_a_directory_of_this_machine_speaks_for_itself_whatever_a_log_claims(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    claim = "git@github.com:ann/shop.git"
    assert find_repository(str(shop), claim) is None
    (shop / ".git").mkdir()
    (shop / ".git" / "config").write_text(
        '[remote "fork"]\n\turl = git@github.com:eve/shop\n[core]\n\tbare = false\n'
        '[remote "origin"]\n\turl = https://git.example.org/ann/till.git\n'
    )
    assert find_repository(str(shop), claim) == "git.example.org/ann/till"
    with mock.patch("os.geteuid", return_value=-1):
        assert find_repository(str(shop), claim) is None  # as git does not trust another user's


def test_of_a_directory_elsewhere_a_log_is_believed_where_the_folder_has_the_repositorys_name() -> None:
    assert find_repository("/elsewhere/Shop", "git@github.com:ann/shop.git") == "github.com/ann/shop"
    assert find_repository("C:/elsewhere/shop", "git@github.com:ann/shop.git") == "github.com/ann/shop"
    for project, claim in (("/elsewhere/shop2", "git@github.com:ann/shop"), ("/elsewhere/shop", None), (None, "x")):
        assert find_repository(project, claim) is None


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("git push -u origin main 2>&1 | tail -3", True),
        ("cd /elsewhere/shop && git remote -v", True),
        ("git -C /elsewhere/shop pull", True),
        ("git push fork main", False),
        ("cd /elsewhere/till && git push", False),
        ("git push; echo 'To git@github.com:ann/till'", False),
    ],
)
def test_only_what_git_prints_of_this_checkouts_origin_counts(line: str, asks: bool) -> None:
    assert asks_remote(line, "/elsewhere/shop") is asks


@pytest.mark.parametrize(
    ("printed", "address"),
    [
        ("To github.com:ann/shop.git\n   1f2..3e4  main -> main", "github.com:ann/shop.git"),
        ("origin\tgit@github.com:ann/shop.git (fetch)\norigin\t...", "git@github.com:ann/shop.git"),
        ("From https://github.com/ann/shop\n * branch  main -> FETCH_HEAD", "https://github.com/ann/shop"),
        ("Everything up-to-date", None),
    ],
)
def test_the_address_stands_where_git_prints_it(printed: str, address: str | None) -> None:
    assert read_printed(printed) == address


@pytest.mark.parametrize(
    ("line", "folder"),
    [
        ("git worktree add -b fix ../fix main", "/home/ada/fix"),
        ("cd /home/ada/shop && git worktree add --detach -f '../fix' && cd ../fix".replace("'", '"'), "/home/ada/fix"),
        ("git worktree add ../fix -b fix 2>&1", "/home/ada/fix"),
        ("git worktree add" + " -b" * 5000 + " !", None),  # read in no time
    ],
)
def test_a_worktree_is_where_the_call_of_git_made_it(line: str, folder: str | None) -> None:
    assert find_worktree(line, "/home/ada/shop") == folder
