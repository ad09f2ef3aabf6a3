"""A trace is the same however a session is cut, bounded, and without secrets."""

from __future__ import annotations

import random
import zlib
from datetime import timedelta
from typing import Any, cast

import pytest

from consolidator.jobs.consolidation.learning import redact_call
from consolidator.llm.redaction.redact import redact
from consolidator.memory.lessons import history
from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.trace import TraceFold
from tests.unit.lessons.traced import (
    CallLog,
    drop_wrapper,
    learn,
    lint_then_fix,
    of_kind,
)


def test_a_call_in_the_background_is_neither_a_success_nor_a_failure_until_it_ended() -> None:
    log = CallLog("s")
    log.start("pnpm run test")
    assert log.run("pnpm run lint").trace().calls[0].line == "pnpm run lint"
    lessons = learn(3, lambda log: log.start("pnpm run test"))
    assert of_kind(lessons, "command") == []


def test_the_end_of_a_call_in_the_background_gives_it_its_outcome_however_late() -> None:
    log = CallLog("s")
    well, badly, stopped = log.start("pnpm run test"), log.start("pnpm run build"), log.start("pnpm run dev")
    log.run("pnpm run lint").end(badly, "error", exit_code=255).end(stopped, "error", reason="aborted")
    log.end(well, exit_code=0).end(well, "error", exit_code=1)
    calls = {call.line: (call.ok, call.seconds) for call in log.trace().calls}
    assert {line: ok for line, (ok, _) in calls.items()} == {
        "pnpm run lint": True,
        "pnpm run build": False,
        "pnpm run dev": None,
        "pnpm run test": True,
    }
    assert calls["pnpm run test"][1] == 10.0
    for cut in range(len(log.events) + 1):
        assert log.trace(cut) == log.trace()


def test_what_a_fold_noted_of_failed_edits_survives_a_cut() -> None:
    log = CallLog("s").edit("a.ts", "\tlet x = 1;", ok=False, output="String to replace not found in file.")
    log.edit("a.ts", "\t\tlet x = 1;")
    whole = log.trace()
    assert [call.value for call in whole.calls] == [None, "tab+1"]
    assert all(log.trace(cut).calls == whole.calls for cut in range(1, len(log.events)))


def test_what_a_fold_notes_of_failed_edits_has_a_bound() -> None:
    fold = TraceFold(redact)
    for number in range(20):
        path = "".join(f"{number * n:x}" for n in range(20_000))
        log = CallLog("s").edit(path, "\tlet x = 1;\n" * 900, ok=False, output="String to replace not found in file.")
        for event in log.events:
            fold.feed(event)
    assert len(zlib.decompress(fold.pack())) < 30_000


def test_what_one_agent_met_is_told_with_what_another_met() -> None:
    lesson = of_kind(learn(2, drop_wrapper, agents=("claude-code", "codex")), "always_fails")[0]
    assert lesson.agents == ("claude-code", "codex")


def test_forks_of_one_session_are_one_witness() -> None:
    log = CallLog("s1").call("Skill", {"skill": "commit"}, "Unknown skill: commit", ok=False)
    trace = log.trace()
    forks = [type(trace)(f"fork{n}", trace.root_id, trace.agent, trace.calls, trace.start) for n in range(3)]
    assert of_kind(learn_lessons([trace, *forks]), "always_fails") == []


def test_lessons_do_not_depend_on_the_nights_or_the_order() -> None:
    logs = [CallLog(f"s{number}") for number in range(6)]
    for log in logs:
        drop_wrapper(log)
        lint_then_fix(log)
        log.read("api/a.ts").edit("api/b.ts").run("git commit -m x")
    expected = learn_lessons([log.trace() for log in logs])
    assert expected
    generator = random.Random(7)
    for _ in range(10):
        traces = [
            log.trace(*sorted(generator.sample(range(1, len(log.events)), generator.randint(0, 5)))) for log in logs
        ]
        generator.shuffle(traces)
        assert learn_lessons(traces) == expected


def test_of_many_calls_those_of_the_latest_sessions_teach(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [CallLog(f"s{number}") for number in range(6)]
    for number, log in enumerate(logs):
        log.run(f"pnpm run {'build' if number < 3 else 'test'}", "ok")
        for event in log.events:
            cast("dict[str, Any]", event.data)["occurred_at"] = (event.occurred_at + timedelta(days=number)).isoformat()
    monkeypatch.setattr(history, "MAX_CALLS_LEARNED", 3)
    assert [lesson.purpose for lesson in learn_lessons([log.trace() for log in logs])] == ["test"]
    assert [lesson.purpose for lesson in learn_lessons([log.trace() for log in reversed(logs)])] == ["test"]


def test_no_secret_is_in_a_trace() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    log = CallLog("s1").fail(f"curl -H 'Authorization: Bearer {secret}' /x", f"error: token {secret} is not valid")
    log.run(f"pnpm run deploy --token {secret}", f"$ deploy {secret}\nerror: warned of {secret}")
    log.events.append(log.events[-2])  # a call that waits for its result
    fold = TraceFold(redact)
    for event in log.events:
        fold.feed(redact_call(event))
    assert secret.encode() not in zlib.decompress(fold.pack())


@pytest.mark.parametrize("tool", ["Bash", "Read"])
def test_no_part_of_a_secret_is_in_a_trace_where_an_output_is_cut(tool: str) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    for limit in (4000, 8000, 20_000, 30_000):
        filled = ("x" * 79 + "\n") * (limit // 80 - 1) + "y" * 58 + f" error: {secret} is not found\n"
        log = CallLog("s1").call(tool, {"command": "make", "file_path": "a"}, filled + "z\n" * 60_000, ok=False)
        fold = TraceFold(redact)
        for event in log.events:
            fold.feed(event)
        assert secret[:12].encode() not in zlib.decompress(fold.pack())


def test_a_lesson_is_read_back_as_it_was_written() -> None:
    for lesson in learn(4, lint_then_fix):
        assert Lesson.from_json(lesson.to_json()) == lesson
