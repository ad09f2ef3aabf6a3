"""Solutions are sums over records: in any order the same, confirmed by sessions, and fit to be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consolidator.memory.calls.call_pairing import CompletedCall
from consolidator.memory.solutions.error_tracker import ErrorTracker
from consolidator.memory.solutions.grouping import OccurrenceGroups, SessionRef
from consolidator.memory.solutions.solution import Solution, solution_id
from tests.support import count_examples
from tests.unit.solutions.grouped import SourcedRecord, build_solutions, occurrence_of

UPSTREAM = "Exit code 128\nfatal: The current branch {} has no upstream branch."
UNREAD = "File has not been read yet. Read it first before writing to it."
CallSpec = tuple[str, Any, bool, str]


def track_session(
    name: str, *calls: CallSpec, root: str | None = None, project: str | None = "shop"
) -> list[SourcedRecord]:
    """Return the records of a session made of (tool, arguments, ok, result)."""
    tracker = ErrorTracker(lambda text: text)
    for index, (tool, arguments, ok, result) in enumerate(calls):
        occurred_at = f"2025-01-01T00:{index % 60:02}:00+00:00"
        tracker.feed(CompletedCall(index, 2 * index + 1, 2 * index + 2, tool, arguments, ok, None, result, occurred_at))
    return [(SessionRef(name, root or name, "coder", project), record) for record in tracker.records]


def shell_call(command: str, ok: bool = True, result: str = "done") -> CallSpec:
    return ("Bash", {"command": command}, ok, result)


def failed_push(name: str, branch: str, root: str | None = None) -> list[SourcedRecord]:
    return track_session(
        name,
        shell_call("git push", False, UPSTREAM.format(branch)),
        shell_call(f"git push -u origin {branch}"),
        root=root,
    )


def only_solution(records: list[SourcedRecord]) -> Solution:
    solutions = build_solutions(records)
    assert len(solutions) == 1
    return solutions[0]


def test_a_fix_of_two_sessions_is_confirmed_and_reads_well() -> None:
    solution = only_solution([*failed_push("s1", "fix-a"), *failed_push("s2", "fix-b")])
    assert solution.status == "confirmed"
    assert solution.line == (
        "git push failed: “fatal: The current branch fix-b has no upstream branch.” → "
        "run `git push -u origin ⟨id in the error⟩` (worked in 2 of 2, in 2 sessions)"
    )
    assert [evidence.session_id for evidence in solution.fixes[0].evidence] == ["s2", "s1"]
    assert solution.evidence[0].quote.startswith("fatal: ")


def test_a_fix_of_one_session_is_an_observation() -> None:
    solution = only_solution(failed_push("s1", "fix-a"))
    assert (solution.status, solution.fixes[0].confirmed) == ("unconfirmed", False)
    assert solution.line.endswith(
        "last time: ran `git push -u origin fix-a` (worked in 1 of 1, in 1 session, unconfirmed)"
    )


def test_forks_of_one_session_count_once() -> None:
    solution = only_solution([*failed_push("s1", "fix-a", root="r"), *failed_push("s2", "fix-b", root="r")])
    assert (solution.status, solution.sessions, solution.occurrences) == ("unconfirmed", 1, 2)


def test_what_was_tried_in_vain_is_told() -> None:
    broken = "error: no rule for it"
    solution = only_solution(
        track_session("s1", shell_call("make it", False, broken), shell_call("make it -j", False, broken))
    )
    assert (solution.status, solution.fixes) == ("unsolved", ())
    assert solution.tried == ("make it -j: error: no rule for it",)
    assert solution.line.endswith("no fix seen yet (met 2 times, in 1 session)")


def test_noise_never_appears() -> None:
    assert (
        build_solutions(
            track_session(
                "s1", shell_call("grep x a.py", False, "Exit code 1"), shell_call("which x", False, "Exit code 1")
            )
        )
        == []
    )


def test_projects_are_kept_apart_and_names_are_stable() -> None:
    calls = (shell_call("git push", False, UPSTREAM.format("a-b")), shell_call("git push -u origin a-b"))
    solutions = build_solutions(
        [*track_session("s1", *calls, project="shop"), *track_session("s2", *calls, project="zoo")]
    )
    assert {solution.project for solution in solutions} == {"shop", "zoo"}
    assert len({solution.id for solution in solutions}) == 2
    for solution in solutions:
        assert solution.id == solution_id("coder", solution.project, solution.fingerprint)


def test_an_edit_after_reading_again_is_told_as_such_whatever_was_edited() -> None:
    def stale(name: str, path: str, text: str) -> list[SourcedRecord]:
        edit = {"file_path": path, "old_string": text, "new_string": "b"}
        return track_session(
            name,
            ("Edit", edit, False, "File has not been read yet. Read it first before writing to it."),
            ("Read", {"file_path": path}, True, "a"),
            ("Edit", edit, True, "done"),
        )

    solution = only_solution([*stale("s1", "/srv/app/one.py", "a"), *stale("s2", "/srv/app/two.py", "c")])
    assert solution.status == "confirmed"
    assert solution.fixes[0].description == "first call Read with ⟨file_path of the failed call⟩"


def test_what_mends_an_unread_file_is_reading_it_not_the_edits_of_others() -> None:
    def edit(path: str, ok: bool = True) -> CallSpec:
        return ("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}, ok, "" if ok else UNREAD)

    notes, skill = "/srv/kiln/docs/notes.md", "/srv/kiln/.claude/skills/glaze/SKILL.md"
    for path, other in ((notes, skill), (skill, notes)):
        calls = [edit(path, ok=False), ("Read", {"file_path": path}, True, "a"), edit(other), edit(path)]
        solution = only_solution(track_session("s1", *calls, project="/srv/kiln"))
        assert (solution.withheld, solution.fixes[0].harm) == ((), None)
        assert solution.fixes[0].last_time == f"read {'/'.join(path.split('/')[-2:])}; then the same call worked"


def test_what_else_was_written_where_agents_are_instructed_is_told_to_none() -> None:
    edit = {"file_path": "/srv/kiln/docs/notes.md", "old_string": "a", "new_string": "b"}
    skill = {"file_path": "/srv/kiln/.claude/skills/glaze/SKILL.md", "content": "b"}
    calls: list[CallSpec] = [("Edit", edit, False, UNREAD), ("Write", skill, True, ""), ("Edit", edit, True, "")]
    solution = only_solution(track_session("s1", *calls, project="/srv/kiln"))
    assert (len(solution.withheld), solution.fixes) == (1, ())


PATCH = """*** Begin Patch
*** Update File: /w/shop/mix.exs
@@ deps
 # see lib/shop/deps.ex, mix/tasks/deps.ex
+{:lazy_html}
*** End Patch"""


@pytest.mark.parametrize(
    ("tool", "edit"),
    [
        ("Edit", {"file_path": "/w/shop/mix.exs", "old_string": "a", "new_string": "{:lazy_html}\na"}),
        ("apply_patch", {"patchText": PATCH}),
        ("apply_patch", PATCH),
    ],
)
def test_the_steps_between_are_the_fix_where_the_call_is_the_same(tool: str, edit: Any) -> None:
    calls = [
        shell_call("mix test t.exs", False, "** (RuntimeError) Phoenix requires lazy_html"),
        (tool, edit, True, "done"),
        shell_call("mix deps.get"),
        shell_call("mix test t.exs"),
    ]
    solution = only_solution(track_session("s1", *calls))
    assert solution.fixes[0].description == (
        "edited shop/mix.exs (added `{:lazy_html}`), ran `mix deps.get`; then the same call worked"
    )


def test_indentation_that_was_missing_is_told_as_such() -> None:
    wrong = "E999 IndentationError: unexpected indent"
    line = track_session(
        "s1", shell_call("edit 3:3\nreturn x\nend", False, wrong), shell_call("edit 3:3\n    return x\nend")
    )
    assert only_solution(line).fixes[0].description == "the same call with other indentation or line breaks worked"
    edit = {"path": "a.py", "old_string": "pass", "new_string": "return x"}
    text = track_session(
        "s2", ("Edit", edit, False, wrong), ("Edit", {**edit, "new_string": "    return x"}, True, "done")
    )
    assert only_solution(text).fixes[0].description == "the same call with other indentation or line breaks worked"


def pay_session(name: str, *payments: tuple[str, bool, str]) -> list[SourcedRecord]:
    """Return the records of a session that pays for one reservation, by one means after the other."""
    arguments = {"reservation": "HXDUBJ", "user": "mara_l_7"}
    return track_session(name, *(("pay", {**arguments, "by": by}, ok, result) for by, ok, result in payments))


REFUSED, SHORT = "Error: certificate cannot be used", "Error: balance too low"


def solution_of(headline: str, records: list[SourcedRecord]) -> Solution:
    return next(solution for solution in build_solutions(records) if headline in solution.headline)


def test_what_led_only_to_another_error_is_no_fix() -> None:
    passed = [pay_session(name, ("cert", False, REFUSED), ("gift", False, SHORT)) for name in ("s1", "s2")]
    solution = solution_of(REFUSED, [*passed[0], *passed[1]])
    assert (solution.status, solution.fixes, solution.resolved) == ("unsolved", (), 0)


def test_a_fix_that_failed_as_often_as_it_worked_sinks() -> None:
    def push(name: str, works: bool) -> list[SourcedRecord]:
        calls = ("git push", False, "fatal: no upstream branch"), ("git push -u origin main", works, "error: rejected")
        return track_session(name, *(("Bash", {"command": command}, ok, result) for command, ok, result in calls))

    records = [record for n in range(2) for record in push(f"w{n}", works=True)]
    solution = solution_of("no upstream", records)
    assert (solution.status, solution.fixes[0].worked, solution.fixes[0].tried) == ("confirmed", 2, 2)
    records += [record for n in range(3) for record in push(f"f{n}", works=False)]
    solution = solution_of("no upstream", records)
    assert (solution.status, solution.fixes[0].worked, solution.fixes[0].tried) == ("unconfirmed", 2, 5)
    assert solution.line.endswith("(worked in 2 of 5, in 2 sessions, unconfirmed)")


def test_a_rare_fix_of_a_frequent_error_is_not_confirmed() -> None:
    works = [pay_session(f"w{n}", ("cert", False, REFUSED), ("card", True, "done")) for n in range(2)]
    never = [pay_session(f"n{n}", ("cert", False, REFUSED)) for n in range(20)]
    solution = solution_of(REFUSED, [record for session in [*works, *never] for record in session])
    assert (solution.status, solution.fixes[0].worked, solution.occurrences) == ("unconfirmed", 2, 22)


def test_a_check_that_was_switched_off_is_no_fix() -> None:
    hook = "error: the hook found 3 problems"
    skipped = [
        track_session(name, shell_call("git commit -a", False, hook), shell_call("git commit -a --no-verify"))
        for name in ("s1", "s2")
    ]
    assert only_solution([*skipped[0], *skipped[1]]).fixes == ()


def test_the_same_call_tried_again_is_no_fix_whatever_the_agent_told_itself() -> None:
    broken = "Error: no such order"
    note = ("think", {"thought": "perhaps it is back"}, True, "")
    arguments = {"order": "F-20791-aa"}
    solution = only_solution(
        track_session("s1", ("refund", arguments, False, broken), note, ("refund", arguments, True, "done"))
    )
    assert (solution.fixes, solution.resolved) == ((), 1)


def test_a_setting_that_was_missing() -> None:
    limit = track_session(
        "s1",
        ("Read", {"file_path": "/w/app.js"}, False, "File content (806.5KB) exceeds maximum allowed size (256KB)."),
        ("Read", {"file_path": "/w/app.js", "limit": 50}, True, "text"),
    )
    assert only_solution(limit).fixes[0].description == "set limit = 50"


def test_the_certain_and_the_frequent_come_first() -> None:
    many = [record for name in "abc" for record in failed_push(name, "x-1")]
    once = track_session(
        "d", shell_call("make it", False, "error: one thing"), shell_call("mend"), shell_call("make it")
    )
    never = track_session("e", *[shell_call("deploy", False, "error: denied here")] * 9)
    solutions = build_solutions([*never, *once, *many])
    assert [solution.status for solution in solutions] == ["confirmed", "unconfirmed", "unsolved"]


COMMANDS = st.sampled_from(
    [
        "make it",
        "make it -j",
        "git push",
        "git push -u origin a-b",
        "tree /w/lib",
        "find /w/lib",
        "deploy x",
        "mix test",
    ]
)
RESULTS = st.sampled_from(
    ["error: one", "error: two", "zsh: command not found: tree", UPSTREAM.format("a-b"), "Exit code 1"]
)
SESSIONS = st.lists(st.lists(st.tuples(COMMANDS, st.booleans(), RESULTS), max_size=12), min_size=1, max_size=5)


@settings(max_examples=count_examples(50))
@given(SESSIONS, st.randoms(use_true_random=False))
def test_the_order_of_sessions_never_changes_solutions(
    sessions: list[list[tuple[str, bool, str]]], random: Any
) -> None:
    records = [
        record
        for number, calls in enumerate(sessions)
        for record in track_session(f"s{number}", *(shell_call(*call) for call in calls), root=f"r{number % 3}")
    ]
    shuffled = list(records)
    random.shuffle(shuffled)
    solutions = build_solutions(records)
    assert build_solutions(shuffled) == solutions
    assert sum(s.occurrences for s in solutions) == sum(record.status != "noise" for _, record in records)
    assert len(json.loads(json.dumps([solution.to_json() for solution in solutions]))) == len(solutions)


def test_a_step_after_which_the_error_came_back_was_tried_in_vain() -> None:
    held = shell_call("deploy all", False, "error: the lock is held")
    unlock, wait, done = shell_call("rm -rf .lock"), shell_call("sleep 60"), shell_call("deploy all")
    records = [record for name in ("s1", "s2") for record in track_session(name, held, unlock, done)]
    records += [record for name in ("s3", "s4") for record in track_session(name, held, unlock, held, wait, done)]
    rates = {fix.last_time: (fix.worked, fix.tried, fix.sessions) for fix in only_solution(records).fixes}
    assert {rate for told, rate in rates.items() if "rm -rf .lock" in told} == {(2, 4, 2)}
    assert {rate for told, rate in rates.items() if "sleep 60" in told} == {(2, 2, 2)}


def test_the_cited_records_suffice_where_a_fix_failed_in_the_latest_sessions() -> None:
    held = shell_call("deploy all", False, "error: the lock is held")
    unlock, wait, done = shell_call("rm -rf .lock"), shell_call("sleep 60"), shell_call("deploy all")
    sourced = [record for n in range(25) for record in track_session(f"s{n:02}", held, unlock, held, wait, done)]
    groups = OccurrenceGroups(occurrence_of(*pair) for pair in sourced)
    cited = groups.cited_records()
    records = {(ref.session_id, record.seq): record for ref, record in sourced}
    assert len(cited) < len(records)
    assert groups.build_solutions({key: records[key] for key in cited}) == build_solutions(sourced)


def test_the_text_that_an_edit_should_have_had_is_no_fix() -> None:
    def misquoted(name: str, path: str, wrong: str, right: str) -> list[SourcedRecord]:
        edit = {"file_path": path, "new_string": "b"}
        return track_session(
            name,
            ("Edit", {**edit, "old_string": wrong}, False, "String to replace not found in file."),
            ("Edit", {**edit, "old_string": right}, True, "done"),
        )

    solution = only_solution(
        [*misquoted("s1", "app.py", "x = 1  # one", "x = 1"), *misquoted("s2", "b.ts", "let y = 22", "let y = 2;")]
    )
    assert (solution.status, solution.fixes, solution.resolved) == ("unsolved", (), 2)


@pytest.mark.parametrize("program", ["REDACTED", "[redacted:secret]"])
def test_what_stands_for_a_program_has_no_solution(program: str) -> None:
    calls = [shell_call(f"{program} run.js", False, "Error: Cannot find module 'x'"), shell_call("npm install x")]
    assert build_solutions(track_session("s1", *calls, shell_call(f"{program} run.js"))) == []
