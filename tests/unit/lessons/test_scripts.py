"""Scripts and what runs in a container are told as they are called, and none of another folder."""

from __future__ import annotations

import pytest

from consolidator.memory.lessons.segments import purpose_of, split_line
from tests.unit.lessons.traced import (
    HOME,
    CallLog,
    learn,
    of_kind,
)


def test_a_script_behind_an_interpreter_is_told_as_the_script() -> None:
    def write(log: CallLog) -> None:
        log.run(f"JOBS={log.name} bash {HOME}/tools/flash_board.sh", "ok", cwd=f"{HOME}/web")
        log.run("python3 /tmp/probe.py", "ok").run("python3 -c 'print(1)'", "1").run("bash -n tools/other.sh")
        log.run("expect -f /opt/lab/board.exp reset", "ok", cwd="/opt/lab")

    (lesson,) = of_kind(learn(4, write), "command")
    assert lesson.line == (
        "Often run here, too: `bash -n tools/other.sh` (4 sessions), `bash tools/flash_board.sh` (4 sessions)."
    )


@pytest.mark.parametrize("script", ["/dev/shm/load.py", "/opt/x/load.py", "../other/load.py", "a/../../other/load.py"])
def test_no_script_of_another_folder_is_told_in_place_of_the_projects_own(script: str) -> None:
    def write(log: CallLog) -> None:
        log.fail("python tools/load.py --fast", "error: unrecognized arguments: --fast", cwd=HOME)
        log.run(f"python {script}", "ok", cwd=HOME)

    assert "then worked" not in " ".join(lesson.line for lesson in learn(4, write))


def test_calls_here_are_not_counted_with_those_in_a_container_or_with_another_script() -> None:
    def write(log: CallLog) -> None:
        log.fail("pnpm run test", "1 failed", cwd=HOME).run("docker exec -it web pnpm run test", "12 passed", cwd=HOME)
        log.fail("ssh build pnpm run lint", "1 failed", cwd=HOME).run("pnpm run lint", "ok", cwd=HOME)
        log.run(f"docker exec web-{log.name} ./seed", "ok", cwd=HOME)
        log.run(f"python {'ab'[int(log.name[1:]) % 2]}/load.py", "ok", cwd=HOME)

    lines = {lesson.key: lesson.line for lesson in of_kind(learn(4, write), "command")}
    assert lines == {
        "test": "Tests: `docker exec -it web pnpm run test` (worked 4 of 4).",
        "lint": "Lint: `pnpm run lint` (worked 4 of 4).",
    }


@pytest.mark.parametrize(
    ("call", "is_told"),
    [
        ("pwsh -File ..\\other\\load.ps1", False),
        ("pwsh -NoProfile -ExecutionPolicy Bypass -File C:\\other\\load.ps1", False),
        ("bash ../other/load.sh", False),
        ("bash tools/../../other/load.sh", False),
        ("../other/load.sh now", False),
        ("python /srv/other/load.py", False),
        ("pwsh -ExecutionPolicy Bypass -File tools\\load.ps1", True),
        ("cd web && bash ../tools/load.sh", True),
        (f"bash {HOME}/tools/load.sh", True),
    ],
)
def test_a_script_of_another_folder_is_not_told(call: str, is_told: bool) -> None:
    lessons = of_kind(learn(4, lambda log: log.run(call, "ok", cwd=HOME)), "command")
    assert (lessons != []) == is_told


@pytest.mark.parametrize(
    ("folder", "where"),
    [
        ("X:/shops/Stack", " in `X:/shops/Stack/`"),
        (f"{HOME}-stack", " in `../shop-stack/`"),
        ("/home/bob/stack", None),  # another's home
        ("/tmp/stack", None),
        (f"{HOME}/stack", " in `stack/`"),
    ],
)
def test_a_command_keeps_its_folder_outside_the_project_or_is_not_told(folder: str, where: str | None) -> None:
    def write(log: CallLog) -> None:
        log.run("shopctl sync now", "ok", cwd=HOME)
        for line in ("docker-compose restart web", "make build"):
            log.run(f"cd {folder} && {line}", "ok", cwd=HOME)

    lines = [lesson.line for lesson in of_kind(learn(4, write), "command")]
    assert len(lines) == (1 if where is None else 2)
    assert (f"`make build`{where} (worked" in lines[0]) == (where is not None)
    assert (f"`docker-compose restart web`{where} (4 sessions)" in lines[-1]) == (where is not None)
    assert "`shopctl sync now` (4 sessions)" in lines[-1]


def test_what_runs_in_a_container_is_counted_apart_from_what_runs_here() -> None:
    def write(log: CallLog) -> None:
        log.run("npm test", "ok").run("docker exec web npm test", "1 failed", ok=False)
        log.run("ssh prod npm test", "1 failed", ok=False).run(f"docker exec app{log.name[-1]} ./seed", "ok")

    (lesson,) = of_kind(learn(4, write), "command")
    assert lesson.line == "Tests: `npm test` (worked 4 of 4)."


def test_scripts_of_one_name_in_two_folders_are_two() -> None:
    names = iter("aabb")
    (lesson,) = of_kind(learn(4, lambda log: log.run(f"python tests/{next(names)}/test.py", "ok")), "command") or (
        None,
    )
    assert lesson is None or "4" not in lesson.line


@pytest.mark.parametrize(
    ("script", "purpose"),
    [("run_e2e.sh", "test"), ("test-all.sh", "test"), ("update-test-drive-pdf.js", None), ("migrate-users.py", None)],
)
def test_what_a_script_is_for_stands_last_in_its_name(script: str, purpose: str | None) -> None:
    assert purpose_of(f"node {script}") == purpose


def test_what_the_tests_of_a_runtime_are_given_is_no_script() -> None:
    def write(log: CallLog) -> None:
        log.run("bun test", "12 pass").run("bun test", "12 pass")
        log.run(f"bun test src/{log.name}.test.ts", "2 pass")

    (lesson,) = of_kind(learn(3, write), "command")
    assert lesson.line == "Tests: `bun test` (worked 9 of 9); a part: `bun test …`."
    scripts = [split_line(f"{call} tools/sum.ts", None)[0][0].script for call in ("bun", "deno run -A", "deno test")]
    assert scripts == ["bun tools/sum.ts", "deno run -A tools/sum.ts", ""]
