"""Where commands run is learned, and told where the shell is elsewhere."""

from __future__ import annotations

import pytest

from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.telling import answer_failure
from consolidator.memory.lessons.trace import Trace
from tests.unit.lessons.traced import (
    HOME,
    CallLog,
    learn,
    of_kind,
)


def test_a_command_that_is_run_in_another_folder_is_answered_with_its_own() -> None:
    def write(log: CallLog) -> None:
        for _ in range(3):
            log.run("pnpm run lint", "ok")

    lessons = learn(2, write)
    told = answer_failure(lessons, "Bash", {"command": "pnpm run lint"}, 'error: Script not found "lint"', "web")
    assert told is not None
    assert told.text == "Run `pnpm run lint` in the project root."
    assert answer_failure(lessons, "Bash", {"command": "pnpm run lint"}, 'error: Script not found "lint"', "") is None


def modules(log: CallLog) -> None:
    """A session in which the tests work in two modules, and never in the root."""
    log.run("cd kiln && cargo test", "ok").run("cargo test", "ok", cwd=f"{HOME}/kiln")
    log.run(f"cd {HOME}/wheel && cargo test", "ok", cwd=f"{HOME}/kiln")
    log.fail("cargo test", "error: could not find `Cargo.toml` in `/home/ada/shop` or any parent directory")


def test_the_folders_in_which_a_program_works_are_told() -> None:
    tests = of_kind(learn(3, modules), "command")[0]
    assert tests.line == ("Tests: `cargo test` in `kiln/` or `wheel/` (worked 9 of 12).")
    told = answer_failure([tests], "Bash", {"command": "cargo test -q"}, "error: could not find `Cargo.toml`", "")
    assert told is not None
    assert (told.text, told.call) == ("Run `cargo test -q` in `kiln/` or `wheel/`.", None)
    assert answer_failure([tests], "Bash", {"command": "cargo test"}, "error: no such crate", "wheel") is None


@pytest.mark.parametrize(
    "command", [f"cd {HOME}/web && pytest", "pytest web/test_cart.py", "pytest ./web/test_cart.py", "cd web && pytest"]
)
def test_a_call_in_its_folder_or_with_paths_from_above_is_not_sent_there(command: str) -> None:
    lessons = learn(3, lambda log: log.run("cd web && pytest", "ok").run("pytest -q", "ok", cwd=f"{HOME}/web"))
    error = "ERROR: file or directory not found: test_cart.py"
    assert answer_failure(lessons, "Bash", {"command": command}, error, "", HOME) is None
    told = answer_failure(lessons, "Bash", {"command": "pytest test_cart.py"}, error, "", HOME)
    assert told is not None
    assert told.text == "Run `pytest test_cart.py` in `web/`."
    # In such a folder of another checkout it is where it is to be run.
    assert (
        answer_failure(lessons, "Bash", {"command": "pytest test_cart.py"}, error, "/home/ada/other/web", HOME) is None
    )


def test_what_ran_in_a_worktree_beside_the_project_ran_in_the_project() -> None:
    lessons = learn(3, lambda log: log.run("pnpm run lint", "ok", cwd=f"{HOME}__worktrees/fix-1"))
    assert [lesson.line for lesson in of_kind(lessons, "command")] == ["Lint: `pnpm run lint` (worked 3 of 3)."]


def test_a_folder_on_a_drive_is_learned_however_each_shell_writes_it() -> None:
    root, error = "D:\\kiln", "pattern ./...: directory prefix . does not contain main module"

    def write(name: str) -> Trace:
        log = CallLog(name, home=root).fail("go build ./...", error, cwd=root)
        log.run("go build ./...", cwd=f"{root}\\src").run("cd /d/kiln/src && go build ./...", cwd=root)
        return log.trace()

    build = of_kind(learn_lessons([write(str(n)) for n in range(3)]), "command")[0]
    assert build.line == "Build: `go build ./...` in `src/` (worked 6 of 9)."
    told = answer_failure([build], "Bash", {"command": "cd /d/kiln && go build ./..."}, error, "src", "D:/kiln")
    assert told is not None
    assert told.text == "Run `go build ./...` in `src/`."


def test_a_program_that_works_in_the_root_is_told_without_folders() -> None:
    def write(log: CallLog) -> None:
        log.run("cargo test", "ok").run("cd kiln && cargo test", "ok").run("cd wheel && cargo test", "ok")

    assert of_kind(learn(3, write), "command")[0].line == "Tests: `cargo test` (worked 9 of 9)."


def test_where_the_folder_does_not_matter_or_changes_no_home_is_lost() -> None:
    def write(log: CallLog) -> None:
        log.run("cd web && pytest", "ok").run(f"pytest {HOME}/web/test_cart.py", "ok")
        log.run("ls && cd web && pytest", "ok").run("pytest --rootdir web", "ok", cwd="/tmp")

    assert of_kind(learn(3, write), "command")[0].line == "Tests: `pytest` in `web/` (worked 12 of 12)."


def test_a_path_that_begins_with_its_home_is_given_as_seen_from_there() -> None:
    def write(log: CallLog) -> None:
        for name in "abc":
            log.run(f"cd {HOME}/api/core && go test ./{name}/...", "ok").run(f"cd {HOME}")

    lessons = learn(3, write)
    error = "FAIL\t./api/core/... [setup failed]\npattern ./api/core/...: main module does not contain main package"
    told = answer_failure(lessons, "Bash", {"command": "go test ./api/core/... -run A"}, error, "", HOME)
    assert told is not None
    assert (told.text, told.call) == ("Run `go test ./... -run A` in `api/core/`.", "go test ./... -run A")
    other = "FAIL\t./x/... [setup failed]\npattern ./x/...: main module does not contain main package"
    assert answer_failure(lessons, "Bash", {"command": "go test ./api/core/... -run A"}, other, "", HOME) is None
    assert (
        answer_failure(lessons, "Bash", {"command": "go test ./api/core/... -run A"}, error, "api/core", HOME) is None
    )


def test_a_call_runs_where_the_one_before_it_left_the_shell_until_the_log_says_otherwise() -> None:
    log = CallLog("s1").run("cd web && make a").run("make b").fail("cd x && make c", "1 problem").run("make d")
    log.run("(cd lib && make e)").run("make f").run("cd /tmp && make g", "\nShell cwd was reset to /home/ada/shop")
    log.run("make h").run("cd web", cwd=f"{HOME}/lib").run("make i", cwd=f"{HOME}/lib").run("make j", cwd=f"{HOME}/app")
    for cuts in ((), (2, 5, 8, 11), tuple(range(1, 22))):
        places = [str(call.directory).removeprefix(f"{HOME}/") for call in log.trace(*cuts).calls]
        assert places == [
            *("web", "web", "web/x", "web", "web/lib", "web", "/tmp", HOME, "lib", "lib/web", "app"),
        ]


def test_a_call_in_the_background_does_not_move_the_shell() -> None:
    log = CallLog("s1")
    started = log.start("cd web && npm run dev")
    log.run("make a").run("cd app && make b").end(started, exit_code=0)
    log.run("make c").run("cd web && npm run dev >log 2>&1 &").run("make d")
    places = {call.segments[-1].call: str(call.directory).removeprefix(f"{HOME}/") for call in log.trace().calls}
    assert [places[f"make {name}"] for name in "abcd"] == [HOME, "app", "app", "app"]


def write_kept_folder(log: CallLog) -> None:
    log.run("cd web && make").fail("cd web && make b", "bash: line 1: cd: web: No such file or directory").run("make b")
    log.fail("git add web/a.ts", "fatal: pathspec 'web/a.ts' did not match any files")
    log.run(f"cd {HOME} && git add web/a.ts")


def test_a_call_that_the_kept_folder_misled_is_answered_by_where_the_shell_is() -> None:
    lessons = learn(1, write_kept_folder)
    (lesson,) = of_kind(lessons, "harness")
    assert (lesson.failures, lesson.starts) == (2, False)
    assert of_kind(learn(3, write_kept_folder), "harness")[0].starts
    no_folder = "bash: line 1: cd: web: No such file or directory"
    told = answer_failure(lessons, "Bash", {"command": "cd web && make c"}, no_folder, "web", HOME)
    assert told is not None
    assert (told.text, told.call) == ("The shell is in `web/` already: leave out the `cd`.", "make c")
    looks = answer_failure(lessons, "Bash", {"command": "cd web && grep -c x y.ts"}, no_folder, "web", HOME)
    assert looks is not None
    assert looks.call == "grep -c x y.ts"
    no_file = "fatal: pathspec 'web/b.ts' did not match any files"
    told = answer_failure(lessons, "Bash", {"command": "git add web/b.ts"}, no_file, "web", HOME)
    assert told is not None
    assert told.call == f"cd {HOME} && git add web/b.ts"
    assert answer_failure(lessons, "Bash", {"command": "cd web && make c"}, no_folder, "", HOME) is None
    assert answer_failure(lessons, "Bash", {"command": "git add b.ts"}, no_file, "web", HOME) is None


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("grep -n total web/cart.ts", "grep: web/cart.ts: No such file or directory"),
        ("ls web/ | head", "ls: cannot access 'web/': No such file or directory"),
        (
            "git diff --stat web/cart.ts",
            "fatal: ambiguous argument 'web/cart.ts': unknown revision or path not in the working tree.",
        ),
    ],
)
def test_what_only_looks_is_told_where_the_shell_is(line: str, error: str) -> None:
    lessons = learn(1, lambda log: log.run("cd web && make").fail(line, error))
    (lesson,) = of_kind(lessons, "harness")
    told = answer_failure([lesson], "Bash", {"command": line}, f"Exit code 1\n{error}", "web", HOME)
    assert told is not None
    assert told.call == f"cd {HOME} && {line}"
    assert answer_failure([lesson], "Bash", {"command": line}, error.replace("web/", "app/"), "web", HOME) is None
    assert answer_failure([lesson], "Bash", {"command": line}, error, "", HOME) is None


@pytest.mark.parametrize("path", ["web", "web/cart.ts"])
def test_a_search_is_told_where_the_shell_is(path: str) -> None:
    error = f"<tool_use_error>Path does not exist: {path}. Note: you are in {HOME}/web.</tool_use_error>"
    search = {"pattern": "total", "path": path}
    lessons = learn(1, lambda log: log.run("cd web && make").call("Grep", search, error, ok=False))
    (lesson,) = of_kind(lessons, "harness")
    told = answer_failure([lesson], "Grep", search, error, "web", HOME)
    assert told is not None
    assert told.call == f"{HOME}/{path}"
    assert answer_failure([lesson], "Grep", {"pattern": "x", "path": f"{HOME}/x"}, error, "web", HOME) is None


def test_a_path_of_the_project_is_looked_for_from_its_root() -> None:
    def write(log: CallLog) -> None:
        log.read("deploy/steps.yml").read("web/app/view.ts")

    def answer(line: str, path: str) -> str | None:
        error = f"cp: cannot stat {path}: No such file or directory"
        told = answer_failure(learn(3, write), "Bash", {"command": line}, error, "web", HOME)
        return None if told is None else told.call

    assert answer("cp -r /tmp/x deploy/steps.yml", "deploy/steps.yml") == f"cd {HOME} && cp -r /tmp/x deploy/steps.yml"
    assert answer("cp -r /tmp/x app/view.ts", "app/view.ts") == "web/app/view.ts"  # it is gone: not from another folder
    assert answer("cp -r /tmp/x deploy/steps.yml", "deploy/other.yml") is None
    assert answer("cp deploy/other.yml deploy/", "deploy/other.yml") is None  # of the folder nothing is said
    assert answer("cp steps.yml deploy/", f"'{HOME}/web/deploy'") == f"cd {HOME} && cp steps.yml deploy/"


def test_a_shell_of_another_client_starts_anew_for_each_call() -> None:
    log = CallLog("s1").call("shell", {"command": "cd web && make"}).call("shell", {"command": "make"})
    assert [call.directory for call in log.trace().calls] == [f"{HOME}/web", HOME]


def test_a_worktree_within_the_project_is_the_project() -> None:
    def write(log: CallLog) -> None:
        log.edit(".worktrees/3/api/types/order.ts").edit("web/types/order.ts").run("git commit -m a", "[main 1] a")

    assert of_kind(learn(3, write), "together")[0].match["folders"] == ["api/types", "web/types"]


def test_a_command_that_never_ran_in_the_projects_own_folder_is_told_with_its_folders_or_not_at_all() -> None:
    folders = iter(["web", "web", "web", "api", *(f"m{n}" for n in range(8))])

    def write(log: CallLog) -> None:
        log.run("npm run build", "ok", cwd=f"{HOME}/{next(folders)}")

    (lesson,) = of_kind(learn(4, write), "command")
    assert lesson.line == "Build: `npm run build` in `api/` or `web/` (worked 4 of 4)."
    assert of_kind(learn(8, write), "command") == []


def test_a_folder_that_a_piped_cd_did_not_reach_is_not_where_the_next_call_runs() -> None:
    def write(log: CallLog) -> None:
        log.run("cd api", "", cwd=HOME)
        log.run("cd api && npm test 2>&1 | tail -3", "(eval):cd:1: no such file or directory: api", cwd=f"{HOME}/api")
        log.run("npm run build", "ok", cwd=f"{HOME}/api")

    (build,) = (each for each in learn(3, write) if each.purpose == "build")
    assert build.line == "Build: `npm run build` in `api/` (worked 3 of 3)."
