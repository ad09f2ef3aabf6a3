"""Where a call runs is read from the `cd`s that start its line, and from its arguments."""

from __future__ import annotations

import pytest

from consolidator.memory.calls.directory import (
    call_directory,
    changes_folder,
    find_left_folder,
    find_place,
    goes_again,
    is_other_directory,
    place_below,
    plain_path,
    strip_cd,
)


@pytest.mark.parametrize(
    ("command", "directory"),
    [
        ("make", None),
        ("cd app && make", "app"),
        ("cd /srv/app/; make", "/srv/app"),
        ("cd '/srv/my app' && make", "/srv/my app"),
        ("cd /srv && cd app/../web && make", "/srv/web"),
        ("(cd app && make)", "app"),
        ("set -e; cd app\nmake", "app"),
        ("Set-Location app; make", "app"),
        ("Set-Location -Path 'C:\\srv\\app'; make", "C:/srv/app"),
        (r"Set-Location X:\shop\stack; docker-compose up", "X:/shop/stack"),
        ("make && cd app", None),
    ],
)
def test_the_directory_of_a_line(command: str, directory: str | None) -> None:
    assert call_directory("Bash", {"command": command}) == directory


def test_an_argument_names_the_directory_and_a_cd_starts_from_it() -> None:
    assert call_directory("shell", {"command": ["bash", "-lc", "make"], "workdir": "/srv/app"}) == "/srv/app"
    assert call_directory("shell", {"command": "cd web && make", "workdir": "/srv/app"}) == "/srv/app/web"
    assert call_directory("Read", {"path": "/srv", "cwd": "/srv/app"}) is None


@pytest.mark.parametrize(
    ("command", "left_in"),
    [
        ("make", "/srv/app"),
        ("cd web", "/srv/app/web"),
        ("cd web && make | tail", "/srv/app/web"),
        ("cd ../other; make", "/srv/other"),
        ("(cd web && make)", "/srv/app"),
        ("cd web && make && cd ..", None),
        ("cd $HOME/x && make", None),
        ("cd - && make", None),
        ("cd web && npm run dev >log 2>&1 &", "/srv/app"),
        ("{ cd web; make; }", None),
        ("if true; then cd web; fi", None),
        ("A=1 cd web", None),
        ("(make) && cd web", None),
        ("cd `pwd`/web", None),
        ("cd web*", None),
    ],
)
def test_where_a_line_leaves_its_shell(command: str, left_in: str | None) -> None:
    assert find_left_folder(command, "/srv/app") == left_in


@pytest.mark.parametrize(
    ("place", "error", "again"),
    [
        ("web/web", "bash: line 1: cd: web: No such file or directory", True),
        ("a/b/a/b", "(eval):cd:1: no such file or directory: a/b/", True),
        ("web/web", "sh: 1: cd: can't cd to ./web", True),
        ("web/api/web/api", "zoxide: a hint\nzoxide: you are already in the only match", True),
        ("web/docs", "zoxide: you are already in the only match", False),
        ("web/web", "cat: web: No such file or directory", False),
        ("mysite/mysite", "sh: 1: cd: foo: No such file or directory", False),  # a folder in one of its name
        ("x/y/y", "bash: line 1: cd: y/y: No such file or directory", False),
    ],
)
def test_a_cd_into_the_folder_that_the_shell_is_in(place: str, error: str, again: bool) -> None:
    assert goes_again(place, error) is again


def test_long_lines_and_places_take_no_long_time() -> None:
    assert not goes_again("a/" * 20_000 + "b", "cd:" * 20_000 + " no such file")
    assert find_left_folder("make" + "\n" * 20_000 + "x", "/srv") == "/srv"
    assert not changes_folder("make" + "\n" * 20_000 + "x")


def test_a_line_without_its_cds() -> None:
    assert strip_cd("cd a && cd b; make x") == " make x"
    assert strip_cd("(cd a && make)") == "(cd a && make)"


def test_directories_differ_only_where_that_is_certain() -> None:
    assert is_other_directory("/srv/app", "/srv/web")
    assert not is_other_directory("app", "/srv/app")
    assert not is_other_directory("~/app", "/home/a/app")
    assert not is_other_directory(None, "/srv/app")


@pytest.mark.parametrize(
    ("command", "cwd", "place"),
    [
        ("go build", r"D:\app\src", "src"),
        ("cd /d/app/src && go build", "D:\\app", "src"),
        ("cd D:/app/src && go build", "d:\\app\\web", "src"),
        (r"cd 'D:\app\src' && go build", r"D:\app", "src"),
        ("cd ../src && go build", r"D:\app\web", "src"),
        ("cd /mnt/d/app/src && go build", r"D:\app", "src"),
        ("cd /d/app && go build", r"D:\app\src", ""),
        ("cd /tmp && go build", r"D:\app", "/tmp"),
        ("cd /c/app && go build", r"D:\app", "C:/app"),
    ],
)
def test_a_path_on_a_drive_is_one_path_however_a_shell_writes_it(command: str, cwd: str, place: str) -> None:
    assert find_place("Bash", {"command": command}, cwd, "D:/app") == place


def test_a_folder_of_one_letter_is_a_drive_only_where_there_are_drives() -> None:
    assert find_place("Bash", {"command": "cd /d/app/src && make"}, "/d/app", "/d/app") == "src"
    assert plain_path("/d/app") == "/d/app"
    assert place_below("/d/app/src", "D:/app") == "src"


def test_a_worktree_beside_its_repository_is_the_repositorys_folder() -> None:
    for worktrees in ("-worktrees", ".worktrees", "__worktrees"):
        assert place_below(f"/home/ada/kiln{worktrees}/fix-1/api", "/home/ada/kiln") == "api"
        assert place_below(f"/home/ada/kiln{worktrees}/fix-1", "/home/ada/kiln") == ""
    assert place_below("/home/ada/kiln-tools/x", "/home/ada/kiln") == "/home/ada/kiln-tools/x"
