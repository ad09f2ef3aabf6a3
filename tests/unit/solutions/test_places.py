"""Where the shell was is a part of what is learned: a call that fails in one folder and works in another."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.directory import find_place
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.error_tracker import ErrorTracker
from consolidator.memory.solutions.fix_description import describe_fix
from consolidator.memory.solutions.fix_suggestion import FailedCall, Suggestion, suggest_fix
from consolidator.memory.solutions.grouping import SessionRef
from tests.unit.solutions.grouped import SourcedRecord, build_solutions

ROOT = "/home/ada/kiln"
STAGED = "Exit code 128\nfatal: pathspec '{}' did not match any files"


class Run(NamedTuple):
    """A shell call, where the shell was before it, and the error where it failed."""

    command: str
    cwd: str
    error: str = ""


def track(*runs: Run, name: str = "s", root: str = ROOT, is_cut: bool = False) -> list[SourcedRecord]:
    tracker = ErrorTracker(lambda text: text)
    for n, run in enumerate(runs):
        at = f"2025-01-01T00:{n:02}:00+00:00"
        given, result, ok = {"command": run.command}, run.error or "done", not run.error
        tracker.feed(CompletedCall(n, 2 * n + 1, 2 * n + 2, "Bash", given, ok, None, result, at, "", run.cwd, root))
        if is_cut:
            tracker = ErrorTracker.from_json(json.loads(json.dumps(tracker.to_json())), lambda text: text)
    return [(SessionRef(name, name, "coder", ROOT), record) for record in tracker.records]


def staged(path: str, name: str, root: str = ROOT) -> list[SourcedRecord]:
    """Return the records of a session in which a path was staged from a subfolder, then from the root."""
    return track(
        Run(f"git add {path}", f"{root}/glaze", STAGED.format(path)),
        Run(f"cd {root} && git add {path}", f"{root}/glaze"),
        name=name,
        root=root,
    )


def solution_of(*sessions: list[SourcedRecord]) -> dict[str, Any]:
    return build_solutions([record for session in sessions for record in session])[0].to_json()


def suggest(solution: dict[str, Any], command: str, directory: str | None, root: str = ROOT) -> Suggestion:
    suggestion = suggest_fix(
        solution, STAGED.format("x/y.md"), FailedCall("Bash", {"command": command}, directory, root)
    )
    assert suggestion is not None
    return suggestion


def test_a_call_that_worked_in_the_root_of_two_sessions_is_bound_there() -> None:
    solution = solution_of(staged("glaze/matt.md", "one"), staged("glaze/a.md glaze/b.md", "two"))
    assert solution["status"] == "confirmed"
    assert solution["fixes"][0]["description"] == "run it in the project root"
    suggestion = suggest(solution, "git add x/y.md", "x")
    assert suggestion.arguments == {"command": f"cd {ROOT} && git add x/y.md"}
    assert suggestion.text == f"run it in the project root: `cd {ROOT} && git add x/y.md`"


def test_the_folder_is_that_of_the_checkout_in_hand() -> None:
    solution = solution_of(staged("glaze/a.md", "one"), staged("glaze/b.md", "two", root="/home/ada/kiln-worktrees/x"))
    assert solution["status"] == "confirmed"
    other = suggest(solution, "cd ../x && git add x/y.md", "x", root="/home/eve/my kiln")
    assert other.arguments == {"command": "cd '/home/eve/my kiln' && git add x/y.md"}


@pytest.mark.parametrize(
    ("command", "directory"),
    [
        ("git add x/y.md", ""),
        (f"cd {ROOT} && git add x/y.md", "x"),
        ("cd .. && git add x/y.md", "x"),
        ("git add x/y.md", None),
        ("git add x/z.md && cd .. && git add x/y.md", "x"),
        ("git add y.md", "x"),
    ],
)
def test_a_call_that_failed_there_or_nobody_knows_where_is_not_told_to_move(
    command: str, directory: str | None
) -> None:
    solution = solution_of(staged("glaze/a.md", "one"), staged("glaze/b.md", "two"))
    assert suggest(solution, command, directory).tool is None


def test_one_session_or_two_folders_confirm_nothing() -> None:
    error = "Exit code 1\npattern ./...: directory prefix . does not contain main module"
    first = track(Run("go vet ./...", ROOT, error), Run("cd oven && go vet ./...", ROOT), name="one")
    second = track(Run("go vet ./...", ROOT, error), Run("cd wheel && go vet ./...", ROOT), name="two")
    assert solution_of(staged("glaze/a.md", "one"))["status"] == "unconfirmed"
    assert solution_of(first, second)["status"] == "unconfirmed"


def test_a_path_from_above_a_folder_is_no_path_in_it() -> None:
    error = "Exit code 1\npattern ./...: directory prefix . does not contain main module"
    solution = solution_of(
        *(track(Run("go vet ./...", ROOT, error), Run("cd oven && go vet ./...", ROOT), name=name) for name in "ab")
    )
    assert suggest(solution, "go vet ./...", "").arguments == {"command": f"cd {ROOT}/oven && go vet ./..."}
    assert suggest(solution, "go vet ./oven/...", "").tool is None


def test_the_text_of_a_fix_names_the_folder_where_that_is_the_difference() -> None:
    ((_, record),) = track(
        Run("go test ./...", ROOT, "Exit code 1\nno packages to test"), Run("cd oven && go test ./...", ROOT)
    )
    assert describe_fix(record) == "ran `go test ./...` in `oven/`"
    ((_, silent),) = track(  # both without a word of a folder
        Run("make bake", f"{ROOT}/oven", "Exit code 2\nmake: *** No rule to make target 'bake'.  Stop."),
        Run("make bake", ROOT),
    )
    assert (silent.place, silent.resolver_place, silent.change) == ("oven", "", "other")
    assert describe_fix(silent) == "ran `make bake` in the project root"


def test_a_cd_to_where_the_shell_was_is_no_difference() -> None:
    ((_, record),) = track(
        Run("make bake", f"{ROOT}/oven", "Exit code 2\nmake: *** No rule to make target 'bake'.  Stop."),
        Run(f"cd {ROOT}/oven && make bake", ROOT),
    )
    assert (record.change, describe_fix(record)) == ("none", "")


def test_places_are_the_same_however_a_session_is_cut() -> None:
    runs = [
        Run("git add glaze/a.md", f"{ROOT}/glaze", STAGED.format("glaze/a.md")),
        Run("git add -v glaze/a.md", f"{ROOT}/glaze", STAGED.format("glaze/a.md")),
        Run("git add glaze/a.md", ROOT),
    ]
    assert track(*runs) == track(*runs, is_cut=True)
    assert track(*runs)[0][1].attempts[0].place == "glaze"


def test_records_of_an_older_version_have_no_place() -> None:
    ((_, record),) = staged("glaze/a.md", "one")
    older = {key: value for key, value in record.to_json().items() if not key.endswith("place")}
    assert ErrorRecord.from_json(older).moved_to is None
    assert CallPairer.from_json({"count": 0, "open": []}).root is None


@pytest.mark.parametrize(
    ("command", "cwd", "place"),
    [
        ("make", ROOT, ""),
        ("make", f"{ROOT}/oven/", "oven"),
        ("cd ../wheel && make", f"{ROOT}/oven", "wheel"),
        (f"(cd {ROOT}/oven && make)", "/tmp", "oven"),
        ("cd /srv/x && make", ROOT, "/srv/x"),
        ("make", "/home/ada/kiln-old", "/home/ada/kiln-old"),
        ("cd $WORK && make", ROOT, None),
        ("cd - && make", ROOT, None),
        ("make && cd oven && make", ROOT, None),
        ("cat > x.sh <<'E'\ncd oven\nE", ROOT, ""),
        ("make", None, None),
    ],
)
def test_the_place_of_a_call(command: str, cwd: str | None, place: str | None) -> None:
    assert find_place("Bash", {"command": command}, cwd, ROOT) == place
