"""What an agent was told of a call is judged by what its session then did; a lesson is recognised by its patterns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quality.help import Replay, Telling
from benchmarks.quality.help import build_report as build_help_report
from benchmarks.quality.help_outcomes import (
    BY_HAND,
    Baseline,
    describe_arguments,
    judge_failure,
    judge_warning,
    masked_line,
    named_calls,
    named_directory,
)
from benchmarks.quality.lessons import Coverage, ReferenceLesson, build_report
from benchmarks.quality.replayed_sessions import Call, Outcome, ReplayedSession, classify_outcome, read_sessions
from benchmarks.quality.silence import Silences

UNKNOWN = "error: unrecognized subcommand 'pnpm'"


def call(command: str, outcome: Outcome = "ok", text: str = "", directory: str = "/srv/app") -> Call:
    return Call("c", "Bash", {"command": command}, directory, outcome, text)


def session(*calls: Call, origin: str = "s") -> ReplayedSession:
    return ReplayedSession("claude-code", origin, Path("s.jsonl"), calls=list(calls))


def wrapped(text: str = UNKNOWN) -> Call:
    return call("rtk pnpm run test", "failed", text)


def test_the_told_call_is_right_if_it_worked_next() -> None:
    mended = session(wrapped(), call("ls"), call("pnpm run test 2>&1 | tail -5"))
    assert judge_failure(["pnpm run test"], mended, 0) == "right"
    assert judge_failure(["pnpm run lint"], mended, 0) == "wrong"


def test_what_was_told_is_not_tried_where_nothing_mended_the_failure_within_twelve_calls() -> None:
    late = session(wrapped(), *(call("ls") for _ in range(12)), call("pnpm run test"))
    assert judge_failure(["pnpm run test"], late, 0) == "not tried"


def test_what_was_told_is_right_if_the_failed_call_worked_after_it_though_another_part_of_its_line_failed() -> None:
    failed, both = call("pnpm run check", "failed", "2 errors"), call("pnpm run format && go x", "failed", "no x")
    again, edit = call("pnpm run check"), Call("e", "Edit", {"file_path": "a.ts"}, "/srv/app")
    assert judge_failure(["pnpm run format"], session(failed, both, again), 0) == "right"
    assert judge_failure(["pnpm run format"], session(failed, both, edit, again), 0) == "another error"
    assert judge_failure(["pnpm run format"], session(failed, edit, again), 0) == "wrong"
    assert judge_failure([BY_HAND], session(failed, edit, again), 0) == "right"
    other = call("npx @acme/shop format --write a.ts")
    assert judge_failure(["pnpm run format"], session(failed, other, edit), 0) == "right"


def test_an_option_is_the_same_with_its_value_joined_to_it() -> None:
    failed = call("crane list --open --labels=late", "failed", "unknown flag: --open")
    for line, verdict in (("crane list --label=late", "right"), ("crane list --tag late", "wrong")):
        assert judge_failure(["crane list --label late"], session(failed, call(line)), 0) == verdict


def test_a_told_call_that_led_to_another_error_is_counted_apart() -> None:
    red = session(wrapped(), call("pnpm run test", "failed", "3 tests fail"))
    assert judge_failure(["pnpm run test"], red, 0) == "another error"
    assert judge_failure(["pnpm run test"], session(wrapped(), call("pnpm run test", "failed", UNKNOWN)), 0) == "wrong"


def test_what_the_session_has_mended_before_is_told_too_late() -> None:
    twice = session(wrapped(), call("pnpm run test"), wrapped(), call("pnpm run test"))
    assert judge_failure(["pnpm run test"], twice, 0) == "right"
    assert judge_failure(["pnpm run test"], twice, 2) == "too late"
    assert judge_warning(["pnpm run test"], twice, 2) == "too late"


def test_to_make_the_failed_call_again_is_right_if_it_then_worked_unedited() -> None:
    failed, edit = call("pnpm run lint", "failed", "timeout"), Call("e", "Edit", {"file_path": "a.ts"}, "/srv/app")
    assert judge_failure(["pnpm run lint"], session(failed, call("pnpm run lint")), 0) == "right"
    assert judge_failure(["pnpm run lint"], session(failed, edit, call("pnpm run lint")), 0) == "wrong"
    assert judge_failure(["pnpm run lint 2>&1"], session(failed, call("pnpm run lint")), 0) == "wrong"


def test_the_failed_call_with_another_word_or_option_is_another_call() -> None:
    refused = call("box restart shop", "failed", "Error: No such box: shop")
    mended = session(refused, call("box ps"), call("box restart shop-web-1"))
    assert judge_failure(["box restart shop-web-1"], mended, 0) == "right"
    assert judge_failure(["box restart shop-db-1"], mended, 0) == "wrong"
    filtered = session(call("ship it 2>&1 | tail -5", "failed", "pass --yes"), call("ship it --yes 2>&1 | tail -5"))
    assert judge_failure(["ship it --yes 2>&1 | tail -5"], filtered, 0) == "right"


def test_a_call_that_quotes_what_the_shell_expanded_is_another_one() -> None:
    refused = call("grep -rn main src --include=*.py", "failed", "zsh:1: no matches found: --include=*.py")
    told = named_calls("Quote the pattern: `grep -rn main src '--include=*.py'`.", refused)
    assert told == ["grep -rn main src '--include=*.py'"]
    assert judge_failure(told, session(refused, call('grep -rn main src --include="*.py" | head')), 0) == "right"
    assert judge_failure(told, session(refused), 0) == "right"  # as zsh reads it
    other = replace(refused, text="grep: src: Is a directory")
    assert judge_failure(told, session(other, call("grep -rn main src --include=*.py")), 0) == "wrong"
    assert named_calls("`grep -rn 'main' src --include=*.py`", refused) == []
    parted = call("cat a; echo ===; cat b", "failed", "text of a\n(eval):1: == not found")
    assert judge_failure(["cat a; echo '==='; cat b"], session(parted), 0) == "right"


def test_the_folder_of_a_call_that_is_cut_is_no_call() -> None:
    refused = call("go test ./api/cart/... -run 'A|B' -count=1", "failed", "no required module provides package")
    told = named_calls("Run `go test ./cart/... -run … -count=1` in `api/`.", refused)
    assert told == ["go test ./cart/... -run -count=1"]
    mended = call("cd api && go test ./cart/... -run 'A|B' -count=1")
    assert judge_failure([f"cd api && {line}" for line in told], session(refused, mended), 0) == "right"


def test_a_folder_that_is_told_for_a_program_must_have_been_used() -> None:
    failed = call("go build ./app", "failed", "bash: line 1: go: command not found")
    told = 'export PATH="/opt/go/bin:$PATH" && go build ./app'
    for made, verdict in (("/opt/go/bin/go build ./app", "right"), ("/usr/lib/go build ./app", "wrong")):
        assert judge_failure([told], session(failed, call(made)), 0) == verdict
    assert classify_outcome(call("go build ./app && ls", text=failed.text), "ok", None) == "masked"


def test_arguments_that_are_told_must_have_been_given() -> None:
    both: list[Any] = [{"rows": {"rows": []}}, {"rows": []}]
    calls = [Call("c", "report", arguments, "/srv/app", "ok") for arguments in both]
    failed = replace(calls[0], outcome="failed")
    assert judge_failure([describe_arguments({"rows": []})], session(failed, calls[1]), 0) == "right"
    assert judge_failure([describe_arguments({"rows": [1]})], session(failed, calls[1]), 0) == "wrong"
    assert judge_failure([describe_arguments(failed.arguments)], session(failed, calls[0]), 0) == "wrong"


def test_a_directory_that_is_told_must_be_the_one_where_it_worked() -> None:
    failed = call("pnpm run lint", "failed", 'Script not found "lint"', "/srv/app/web")
    mended = session(failed, call("cd /srv/app && pnpm run lint", directory="/srv/app/web"))
    assert judge_failure(["cd /srv/app && pnpm run lint"], mended, 0) == "right"
    assert judge_failure(["cd /srv/app/api && pnpm run lint"], mended, 0) == "wrong"


def test_the_directory_that_a_text_names_is_that_of_the_call() -> None:
    assert named_directory("Run `pnpm run lint` in the project root.", "/srv/app") == "/srv/app"
    assert named_directory("Build: `pnpm run css` in `web/` (worked 5 of 5).", "/srv/app") == "web"
    assert named_directory("Failing tests name files in `tmp/old/`, which nobody edits.", "/srv") is None
    assert named_directory("`pnpm run lint:fix` helped.", "/srv/app") is None


def test_a_flag_that_is_told_must_have_been_used() -> None:
    failed = call("cat -A notes.txt", "failed", "cat: illegal option -- A")
    assert judge_failure(["cat -et"], session(failed, call("cat -et notes.txt")), 0) == "right"
    assert judge_failure(["cat -et"], session(failed, call("cat notes.txt")), 0) == "wrong"


def test_a_path_that_is_told_must_have_been_used() -> None:
    failed = Call("c", "Read", {"file_path": "/srv/app/job.py"}, "/srv/app", "failed", "File does not exist.")
    read = Call("d", "Read", {"file_path": "/srv/app/jobs/job.py"}, "/srv/app")
    assert judge_failure(["jobs/job.py"], session(failed, read), 0) == "right"
    assert judge_failure(["work/job.py"], session(failed, read), 0) == "wrong"


def test_all_packages_of_go_can_be_called() -> None:
    left = call("cd web && go test ./...", "failed", "cd: no such file or directory: web", "/srv/app/web")
    assert (
        judge_failure(["go test ./..."], session(left, call("go test ./...", directory="/srv/app/web")), 0) == "right"
    )


def test_a_skill_that_is_told_must_have_been_called() -> None:
    unknown, plugin = (Call("c", "Skill", {"skill": name}, "/srv/app") for name in ("commit", "git:commit"))
    refused = Call("c", "Skill", unknown.arguments, "/srv/app", "failed", "Unknown skill: commit")
    assert judge_failure(["git:commit"], session(refused, plugin), 0) == "right"
    assert judge_failure(["git:commit"], session(refused, unknown), 0) == "wrong"


def test_a_warning_is_wrong_if_the_call_worked() -> None:
    assert judge_warning([], session(call("rtk git status")), 0) == "wrong"
    assert judge_warning([], session(wrapped()), 0) == "right"
    assert judge_warning([], session(call("rtk pnpm run test", "ignored")), 0) is None


def test_the_calls_that_a_text_names_are_those_that_did_not_fail() -> None:
    text = "`rtk pnpm …` always fails (12 of 12); without `rtk` it works: `pnpm run test`."
    assert named_calls(text, wrapped()) == ["pnpm run test"]
    assert named_calls("`rtk pnpm run test` never worked here.", wrapped()) == []
    assert judge_failure([], session(wrapped()), 0) == "names no call"


@pytest.mark.parametrize(
    ("command", "text", "outcome"),
    [
        ("pnpm test | tail -5", "14 pass\n2 fail", "masked"),
        ("pnpm test | tail -5", "14 pass\n0 fail\nerror: expected, and logged by a test", "ok"),
        ("pnpm test; echo done", "2 tests failed\ndone", "masked"),
        ("pnpm test", "14 pass\n2 fail", "ok"),
        ("rtk pnpm test 2>&1 | tail -5", UNKNOWN, "masked"),
        ("grep -rn 'error' src | head", "src/a.ts:1: 3 errors", "ok"),
        ("nosuch --version || true", "bash: line 1: nosuch: command not found", "masked"),
    ],
)
def test_a_failure_that_the_exit_code_hides_is_read_from_the_text(command: str, text: str, outcome: str) -> None:
    assert classify_outcome(call(command, text=text), "ok", None) == outcome


def test_a_call_that_a_person_or_a_sibling_stopped_did_not_fail() -> None:
    assert classify_outcome(call("pnpm test"), "error", "rejected") == "ignored"
    assert classify_outcome(call("pnpm test"), "error", "cascade") == "ignored"
    assert classify_outcome(call("pnpm test"), "error", "timeout") == "failed"


def test_an_error_line_is_the_same_wherever_it_happened() -> None:
    first = "Exit code 1\n$ tsc\nsrc/a.ts(12,3): error TS2741: missing"
    assert masked_line(first) == masked_line("Exit code 2\nlib/deep/b.ts(7,31): error TS9: missing")


def test_the_baseline_answers_what_two_sessions_met() -> None:
    sessions = [session(wrapped(), call("pnpm run test"), origin=name) for name in ("a", "b")]
    assert Baseline(sessions).answer(wrapped()) == "pnpm run test"
    assert Baseline(sessions[:1]).answer(wrapped()) is None


def test_a_session_is_read_in_the_order_of_its_events(tmp_path: Path) -> None:
    head = {"sessionId": "s1", "cwd": "/srv/app", "isSidechain": False, "timestamp": "2026-03-02T10:00:00Z"}
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pnpm test"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": "Exit code 1\n1 fail"}
    lines = [
        {**head, "type": "user", "uuid": "1", "message": {"role": "user", "content": "Run the tests"}},
        {**head, "type": "assistant", "uuid": "2", "message": {"role": "assistant", "content": [use]}},
        {**head, "type": "user", "uuid": "3", "cwd": "/srv/app/web", "message": {"role": "user", "content": [result]}},
    ]
    (tmp_path / "s1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    [read] = read_sessions(tmp_path)
    assert [step.kind for step in read.steps] == ["prompt", "call", "result"]
    assert (read.calls[0].outcome, read.calls[0].directory) == ("failed", "/srv/app")


def test_each_moment_has_its_figures() -> None:
    replay = Replay(sessions=1)
    replay.asked.update({"failure": 4, "call": 9})
    replay.tellings = [
        Telling("s", "failure", "x", "t", 40, "right"),
        Telling("s", "failure", "y", "t", 20, "wrong"),
        Telling("s", "call", "z", "t", 30, "right"),
    ]
    replay.baseline = [("failure", "wrong")]
    figures = {figure.name: figure.value for figure in build_help_report(replay).figures}
    assert (figures["failure: told"], figures["failure: tokens"], figures["failure: right"]) == (2, 30, 1)
    assert (figures["call: right"], figures["call: wrong"], figures["failure: baseline wrong"]) == (1, 0, 1)


def lesson(name: str, *groups: list[str], needs_model: bool = False) -> ReferenceLesson:
    return ReferenceLesson.from_json(
        {"id": name, "lesson": name, "needs_model": needs_model, "match": {"all": list(groups)}}
    )


def test_a_line_states_a_lesson_if_every_group_has_a_hit() -> None:
    prefix = lesson("L1", ["\\brtk\\b"], ["always fails", "without"], ["^(?!.*stale)"])
    assert prefix.is_stated_by("RTK pnpm always fails here")
    assert not prefix.is_stated_by("rtk is a wrapper")
    assert not prefix.is_stated_by("rtk output is stale without a rebuild")


def test_lessons_that_need_a_model_are_counted_apart() -> None:
    lessons = [lesson("L1", ["pnpm"]), lesson("L2", ["yarn"]), lesson("L3", ["pnpm"], needs_model=True)]
    coverage = Coverage({"told at a start": ["use pnpm"], "held": ["use pnpm", "yarn fails"]}, {"L2": ["no yarn"]})
    figures = {figure.name: figure.value for figure in build_report(lessons, coverage).figures}
    assert (figures["without a model: told at a start"], figures["without a model: held"]) == (1, 2)
    assert (figures["without a model: recalled"], figures["with a model: held"]) == (1, 1)


def test_a_failure_without_an_answer_tells_how_far_its_cure_had_come() -> None:
    first = [session(wrapped(), call("pnpm run test"), origin="a"), session(wrapped(), call("ls"), origin="b")]
    later = session(wrapped(), call("pnpm run test"), call("make all", "failed", "it broke"), call("make all"))
    silences = Silences(first, [], [], [])
    cases = [silences.explain(later, position, "/srv/app", told=False) for position in (0, 2)]
    assert [(case.stage, case.sessions) for case in cases] == [("not recorded", 1), ("the same call again", 0)]
    assert Silences([], [], [], []).explain(later, 0, "/srv/app", told=False).stage == "no precedent"


def test_what_worked_is_shown_without_a_credential() -> None:
    secret = f"ghp_{'a1B2c3D4e5F6' * 3}"
    later = session(call("ship it", "failed", "Error: no token"), call(f"ship it --token {secret}"))
    shown = Silences([], [], [], []).explain(later, 0, "/srv/app", told=False).worked
    assert shown.startswith("ship it --token ")
    assert secret not in shown
