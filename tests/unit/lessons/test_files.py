"""Files are told that are changed together, and where tests and looked-for files lie."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from consolidator.memory.lessons.files import MAX_ALIKE, MAX_KEPT
from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.telling import answer_failure
from tests.unit.lessons.traced import (
    HOME,
    CallLog,
    learn,
    of_kind,
)


def test_files_that_often_change_alone_are_not_told() -> None:
    def write(count: int) -> Callable[[CallLog], object]:
        def changes(log: CallLog) -> None:
            log.edit("api/user.c").edit("web/user_form.html").run("git commit -m x")
            log.edit("z/other.c").run("git commit").edit("y/more.c").run("git commit").edit("x/a.c").run("git commit")
            if int(log.name[1:]) < count:
                log.edit("api/user.c").run("git commit -m u").edit("web/user_form.html").run("git commit -m f")

        return changes

    assert len(of_kind(learn(6, write(0)), "together")) == 1
    assert of_kind(learn(6, write(3)), "together") == []


def change_apart(log: CallLog, *files: str, units: str = "abcdef") -> None:
    """Edit files for one commit, and others for a commit each."""
    for file in files:
        log.edit(file)
    log.run("git commit -m x")
    for other in units:
        log.edit(f"{other}/x{log.name[1:]}.c").run("git commit -m y")


@pytest.mark.parametrize("files", [("cmd/copy.go", "cmd/flags.go"), ("api/Dockerfile", "api/Makefile")])
def test_code_of_one_folder_is_told_where_each_file_goes_with_the_other(files: tuple[str, str]) -> None:
    lessons = learn(4, lambda log: change_apart(log, *files))
    assert [lesson.key for lesson in of_kind(lessons, "together")] == [" ".join(files)]


def test_files_that_change_together_are_told_where_they_come_up_and_not_at_a_start() -> None:
    lessons = learn(4, lambda log: change_apart(log, "cmd/copy.go", "cmd/flags.go"))
    assert [lesson.starts for lesson in of_kind(lessons, "together")] == [False]


def test_a_file_that_changes_with_everything_is_told_with_none_of_its_kind() -> None:
    def write(log: CallLog) -> None:
        change_apart(log, "core/engine.go", "cmd/copy.go")
        for name in "pq":
            log.edit("core/engine.go").edit(f"{name}/{log.name}.go").run("git commit -m z")

    assert of_kind(learn(6, write), "together") == []


def test_a_folder_in_which_one_file_changes_is_told_by_that_file() -> None:
    lessons = learn(5, lambda log: change_apart(log, "api/schema.sql", "web/form.ts"))
    assert [lesson.key for lesson in of_kind(lessons, "together")] == ["api/schema.sql web/form.ts"]


def test_a_file_of_a_folder_above_is_told_with_the_files_that_need_it() -> None:
    lessons = learn(5, lambda log: change_apart(log, "db/migrate.go", f"db/steps/{log.name}.up.sql"))
    assert [lesson.key for lesson in of_kind(lessons, "together")] == ["db/migrate.go db/steps/*.sql"]


def test_a_file_is_told_with_the_documents_of_a_folder() -> None:
    lessons = learn(5, lambda log: change_apart(log, "web/form.ts", f"prompts/mail{log.name}.md"))
    assert [lesson.key for lesson in of_kind(lessons, "together")] == ["prompts/*.md web/form.ts"]


def test_a_file_beside_one_of_its_name_is_no_news() -> None:
    lessons = learn(5, lambda log: change_apart(log, "src/queue.h", "src/queue.cpp"))
    assert of_kind(lessons, "together") == []


def test_a_document_that_most_sessions_change_is_told() -> None:
    lessons = learn(4, lambda log: log.edit(f"src/{log.name}.ts").run("git commit -m a").edit("plan/STATUS.yaml"))
    assert [lesson.line for lesson in of_kind(lessons, "together")] == [
        "`plan/STATUS.yaml` is kept up: changed beside other files (4 of 4 sessions)."
    ]
    assert of_kind(learn(4, lambda log: log.edit("plan/STATUS.yaml")), "together") == []  # it is the work

    def write(log: CallLog) -> None:
        for number in range(MAX_KEPT + 1):
            log.edit(f"docs/p{number}.md").run("git commit -m 'Say it'", "done")

    assert len(of_kind(learn(4, write), "together")) == MAX_KEPT


@pytest.mark.parametrize(
    ("source", "test", "shown"),
    [
        ("src/shop/part{}.ts", "src/test/shop/part{}.test.ts", "`src/shop/part2.ts` has `src/test/shop/part2.test.ts`"),
        ("api/part{}.py", "tests/test_part{}.py", "`api/part2.py` has `tests/test_part2.py`"),
        ("web/part{}.tsx", "web/__tests__/part{}.spec.tsx", "`web/part2.tsx` has `web/__tests__/part2.spec.tsx`"),
        ("web/part{}.tsx", "web/part{}.test.tsx", "`web/part2.tsx` has `part2.test.tsx` beside it"),
        ("pkg/part{}.go", "pkg/part{}_test.go", None),  # as the language has it
        ("docs/part{}.md", "tests/test_part{}.py", None),  # it tests something else
    ],
)
def test_it_is_told_where_tests_lie(source: str, test: str, shown: str | None) -> None:
    def write(log: CallLog) -> None:
        log.read(source.format(log.name[1:])).edit(test.format(log.name[1:]))

    lines = [lesson.line for lesson in of_kind(learn(3, write), "together")]
    assert lines == ([f"Tests lie like this: {shown} (3 files, 3 sessions)."] if shown else [])
    assert of_kind(learn(2, write), "together") == []


def test_a_test_of_a_name_that_a_hundred_folders_have_tells_no_place() -> None:
    def write(log: CallLog) -> None:
        for number in range(MAX_ALIKE + 1):
            log.read(f"web/p{number}/page.tsx").edit(f"web/p{number}/page.test.tsx")

    assert of_kind(learn(2, write), "together") == []


def test_a_folder_that_only_failing_tests_name_is_told_and_not_the_rest_of_a_cut_path() -> None:
    def write(log: CallLog) -> None:
        log.fail("pnpm run test", f"tmp/old/cart.test.ts: no such module\n{HOME[2:]}/src/cart.test.ts: failed")

    assert [lesson.key for lesson in of_kind(learn(3, write), "foreign_folder")] == ["tmp/old"]


def test_a_folder_that_is_built_from_an_edited_one_is_no_place_to_look() -> None:
    def write(log: CallLog) -> None:
        log.edit("src/test/cart.test.ts")
        log.fail("pnpm run test", "1) cart\n  at emitted/test/cart.test.js:3:1\n  at tmp/old/cart.test.js: failed")

    assert [lesson.key for lesson in of_kind(learn(3, write), "foreign_folder")] == ["tmp/old"]


def test_twins_and_follow_ups_of_a_change_are_told() -> None:
    def write(log: CallLog) -> None:
        log.edit("api/types/order.ts").edit("web/types/order.ts").run("git commit -m a", "[main 1] a")
        log.edit("web/site.css").run("cd web && pnpm run css:build", "done").run("git commit -m b", "[main 2] b")
        log.edit("api/server.ts").run("git commit -m c", "[main 3] c")

    lines = [lesson.line for lesson in learn(3, write)]
    assert "`api/types/` and `web/types/` keep the same files (`order.ts`): change both." in lines
    assert "After a change of `*.css` `pnpm run css:build` is run (3 of 3 times)." in lines


@pytest.mark.parametrize(
    ("asked", "call"),
    [
        (f"{HOME}/lib/checkout-flow.ts", "api/src/checkout-flow.ts"),
        ("/home/other/api/src/checkout-flow.ts", f"{HOME}/api/src/checkout-flow.ts"),
        ("/home/other/src/server.ts", None),
        (f"{HOME}/shop/api/src/checkout-flow.ts", "api/src/checkout-flow.ts"),  # a folder too many
        (f"{HOME}/.claude/worktrees/a/api/src/checkout-flow.ts", None),  # it is gone from there, too
        (f"{HOME}/api/src/checkout-flow.ts", None),  # it is gone
        (f"{HOME}/web/flow.ts", None),
        (f"{HOME}/web/server.ts", None),  # a name of one word is another file's, too
    ],
)
def test_a_file_that_is_looked_for_elsewhere_is_found(asked: str, call: str | None) -> None:
    lessons = learn(1, lambda log: log.read("api/src/checkout-flow.ts").read("api/src/server.ts"))
    told = answer_failure(lessons, "Read", {"file_path": asked}, "File does not exist.", "", HOME)
    assert (told.call if told else None) == call


def test_files_of_many_changes_say_less_by_changing_together() -> None:
    def write(log: CallLog) -> None:
        log.edit("prompts/ask.txt").edit("src/ask.py").run("git commit -m a", "[main 1] a")
        for name in "abcd":
            log.edit(f"ui/{name}.ts").run(f"git commit -m {name}", f"[main 2] {name}")

    rare = of_kind(learn(5, write), "together")[0]
    assert rare.score == pytest.approx(1.4 * 5 * 2.32 / 3.5, abs=0.01)


def test_files_that_change_together_are_shown_by_edits_of_these_files() -> None:
    def write(log: CallLog) -> None:
        log.edit("api/types/order.ts").edit("web/types/order.ts").edit("docs/notes.txt").run(
            "git commit -m a", "[main 1] a"
        )
        log.edit("web/site.css").run("cd web && pnpm run css:build", "done").edit("api/server.ts")

    logs = [CallLog(f"s{n}") for n in range(3)]
    for log in logs:
        write(log)
    paths = {(log.name, call.seq): call.path for log in logs for call in log.trace().calls}
    shown = {
        lesson.kind: {(paths[case] or "").removeprefix(f"{HOME}/") for case in lesson.evidence}
        for lesson in learn_lessons([log.trace() for log in logs])
        if lesson.kind in ("together", "follow_up")
    }
    assert shown == {"together": {"api/types/order.ts", "web/types/order.ts"}, "follow_up": {"web/site.css"}}


def test_a_name_that_many_folders_have_is_no_twin() -> None:
    def write(log: CallLog) -> None:
        for number in range(12):
            log.edit(f"part{number}/views/form.c")
        log.run("git commit -m x")

    assert not any("keep the same files" in lesson.line for lesson in learn(4, write))


def test_files_of_patches_are_edited_as_those_of_edits_are() -> None:
    def write(log: CallLog) -> None:
        for number in range(2):
            patch = "*** Begin Patch\n*** Update File: {}\n@@\n-a\n+b\n*** End Patch"
            log.call("apply_patch", patch.format("styles/main.css"), "Done!")
            log.call("shell", {"command": ["apply_patch", patch.format("styles/cart.css")]}, "Done!")
            log.run("bun run css:build", "ok").run("git commit -m x", "[main 1]")
            log.edit(f"src/a{number}.ts").run("git commit -m x", "[main 1]")

    (lesson,) = of_kind(learn(3, write), "follow_up")
    assert lesson.line == "After a change of `*.css` `bun run css:build` is run (6 of 6 times)."


def test_a_file_of_the_same_name_in_a_hidden_folder_elsewhere_is_another_one() -> None:
    def write(log: CallLog) -> None:
        log.edit("src/workflows/explore.js").read("workflows/explore.js", ok=False, output="File does not exist.")

    lessons = learn(3, write)
    for path, is_told in [("workflows/explore.js", True), ("/home/me/.claude/skills/init/explore.js", False)]:
        told = answer_failure(lessons, "Read", {"file_path": path}, "File does not exist.", "", HOME)
        assert (told is not None) == is_told


def test_a_package_that_is_added_follows_no_change() -> None:
    def add(log: CallLog) -> None:
        log.edit("ui/cart.js").run(f"npm install pkg-{log.name}", "added 1 package")
        log.run("git commit -m a", "[main 1] a").edit(f"api/{log.name}.py").run("git commit -m b", "[main 2] b")

    assert of_kind(learn(4, add), "follow_up") == []
