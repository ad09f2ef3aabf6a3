"""Failed calls are followed to what resolved them, by the rules, however the session is cut into nights."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.quality.error_pairs import Label, evaluate
from consolidator.formats import pi
from consolidator.formats.base import ForeignEvent, ForeignSession
from consolidator.formats.claude_code import reader as claude_code
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.solutions.error_records import ErrorRecord, ErrorVariable, FixStep
from consolidator.memory.solutions.error_tracker import WINDOW, ErrorTracker
from consolidator.memory.solutions.fix_description import describe_fix
from consolidator.models.event import Event
from tests.support import count_examples

DATA = Path(os.environ.get("CONSOLIDATOR_TEST_DATA", Path(__file__).parents[3].parent / "shared" / "data"))
LABELS = DATA / "labels" / "error_solutions.jsonl"
FAILED = "Exit code 1\nerror: it broke"


def redact_nothing(text: str) -> str:
    return text


class TrackedSession:
    """Makes calls one after another, each answered before the next is made."""

    def __init__(self, redact: Any = redact_nothing) -> None:
        self.tracker = ErrorTracker(redact)
        self.count = 0

    def call(self, tool: str, arguments: Any, result: str = "done", ok: bool = True, reason: str | None = None) -> int:
        index = self.count
        self.tracker.feed(build_call(index, tool, arguments, result, ok, reason))
        self.count += 1
        return index

    def run_shell(self, command: str, result: str = "done", ok: bool = True, reason: str | None = None) -> int:
        return self.call("Bash", {"command": command}, result, ok, reason)

    def run_failing(self, command: str, result: str = FAILED) -> int:
        return self.run_shell(command, result, ok=False)

    def __getitem__(self, index: int) -> ErrorRecord:
        return next(record for record in self.tracker.records if record.index == index)


def build_call(
    index: int, tool: str, arguments: Any, result: str, ok: bool, reason: str | None = None, seq: int | None = None
) -> CompletedCall:
    call_seq = 2 * index + 1 if seq is None else seq
    return CompletedCall(
        index, call_seq, 2 * index + 2, tool, arguments, ok, reason, result, f"2025-01-01T00:00:{index % 60:02}+00:00"
    )


def test_a_push_is_resolved_by_the_same_push_with_an_upstream() -> None:
    session = TrackedSession()
    failing = session.run_failing(
        "git push 2>&1", "Exit code 128\nfatal: The current branch x-1 has no upstream branch."
    )
    resolver = session.run_shell("git push --set-upstream origin x-1 2>&1")
    record = session[failing]
    assert (record.status, record.rule, record.resolver_index) == ("resolved", "same-operation", resolver)
    assert (record.change, record.resolving) == ("other", "git push --set-upstream origin x-1")
    assert record.symbol == "sh:git push"
    assert record.quote.startswith("fatal: The current branch")


def test_another_subcommand_or_other_operands_resolve_nothing() -> None:
    session = TrackedSession()
    failing = session.run_failing("git push origin a-branch")
    script = session.run_failing("python tools/first.py")
    session.run_shell("git pull origin a-branch")
    session.run_shell("python tools/second.py")
    assert session[failing].status == "open"
    assert session[script].status == "open"


@pytest.mark.parametrize(("calls_between", "status"), [(1, "resolved"), (8, "open")])
def test_the_same_program_on_something_else_mends_nothing_unless_it_is_run_at_once(
    calls_between: int, status: str
) -> None:
    session = TrackedSession()
    failing = session.run_failing("crane session status harbour/", "Error: invalid address 'harbour/'")
    for number in range(calls_between):
        session.run_shell(f"ls part{number}")
    session.run_shell("crane session status yard/north && ls")
    assert session[failing].status == status
    session.run_shell("crane session status harbour/ --wait")
    assert session[failing].status == "resolved"


def test_a_program_that_was_missing_is_there_whatever_it_is_given_later() -> None:
    session = TrackedSession()
    failing = session.run_failing("crane show harbour/north", "bash: crane: command not found")
    for number in range(8):
        session.run_shell(f"ls part{number}")
    session.run_shell("crane show yard/south")
    assert session[failing].status == "resolved"


def test_another_program_near_by_on_the_same_operand_is_a_substitute() -> None:
    session = TrackedSession()
    failing = session.run_failing("tree /app/lib -L 3", "zsh: command not found: tree")
    resolver = session.run_shell("find /app/lib -type d | sort")
    record = session[failing]
    assert (record.status, record.rule, record.resolver_index) == ("resolved", "substitution", resolver)
    same = session.run_shell("tree /app/lib")
    assert (session[failing].rule, session[failing].resolver_index) == ("same-operation", same)


@pytest.mark.parametrize(
    ("failed", "error", "later"),
    [
        ("npm publish pkg", "publish is disabled by admin: needs approval", "twine upload pkg"),
        ("curl -O https://corp/x", "network access is disabled by policy", "wget https://corp/x"),
        ("jq . data/a.json", "zsh: command not found: jq", "rm data/a.json"),
        ("prettier src/a.ts", "zsh: command not found: prettier", "git add src/a.ts"),
    ],
)
def test_only_a_program_that_is_not_there_has_a_substitute(failed: str, error: str, later: str) -> None:
    session = TrackedSession()
    failing = session.run_failing(failed, error)
    session.run_shell(later)
    assert session[failing].status == "open"


def test_a_substitute_further_away_is_none() -> None:
    session = TrackedSession()
    failing = session.run_failing("tree /app/lib", "zsh: command not found: tree")
    session.run_shell("date")
    session.run_shell("whoami")
    session.run_shell("find /app/lib -type d")
    assert session[failing].status == "open"


def test_a_file_is_resolved_by_the_same_path_and_class_alone() -> None:
    session = TrackedSession()
    failing = session.call("Edit", {"file_path": "/a/b.py", "old_string": "x", "new_string": "y"}, FAILED, ok=False)
    session.call("Edit", {"file_path": "/a/c.py", "old_string": "x", "new_string": "y"})
    session.call("Read", {"file_path": "/a/b.py"})
    assert session[failing].status == "open"
    resolver = session.call("Write", {"file_path": "/a/b.py", "content": "z"})
    record = session[failing]
    assert (record.resolver_index, record.rule) == (resolver, "same-operation")
    assert [step.symbol for step in record.between] == ["Edit", "Read"]


def test_any_other_tool_is_resolved_by_overlapping_arguments() -> None:
    session = TrackedSession()
    failing = session.call("book", {"user_id": "ann_12", "cash": 10}, "Error: not enough", ok=False)
    session.call("book", {"user_id": "bob_77", "cash": 90})
    assert session[failing].status == "open"
    resolver = session.call("book", {"user_id": "ann_12", "cash": 25})
    assert session[failing].resolver_index == resolver
    assert describe_fix(session[failing]).endswith("set cash = 25")


def test_a_query_is_resolved_by_a_query_not_by_looking_around() -> None:
    session = TrackedSession()
    failing = session.call("sql", {"query": "SELECT player_name FROM poker_players"}, "Error executing: gone", ok=False)
    session.call("sql", {"query": "DESCRIBE poker_player"})
    resolver = session.call("sql", {"query": "SELECT people.Name FROM poker_player JOIN people"})
    assert session[failing].resolver_index == resolver
    assert session[failing].between == (FixStep("sql DESCRIBE", "DESCRIBE poker_player"),)


def test_the_same_operation_with_another_error_resolves_the_first_until_something_succeeds() -> None:
    session = TrackedSession()
    first = session.run_failing("mix test test/a_test.exs", "Exit code 1\nerror: undefined function get/2")
    session.call("Edit", {"file_path": "test/a_test.exs", "old_string": "a", "new_string": "import X\na"})
    second = session.run_failing("mix test test/a_test.exs", "Exit code 2\n** (RuntimeError) no adapter")
    assert (session[first].rule, session[first].resolver_index) == ("superseded", second)
    session.call("Edit", {"file_path": "config/test.exs", "old_string": "b", "new_string": "c"})
    last = session.run_shell("mix test test/a_test.exs")
    assert (session[first].rule, session[first].resolver_index) == ("same-operation", last)
    assert session[second].resolver_index == last
    assert [step.argument for step in session[first].between] == ["test/a_test.exs"]
    assert [step.argument for step in session[second].between] == ["config/test.exs"]
    assert session[first].between[0].detail == "added `import X`"


def test_an_error_that_comes_back_was_not_superseded() -> None:
    session = TrackedSession()
    first = session.run_failing("make app", "error: first thing")
    session.run_failing("make app", "error: something else")
    session.run_failing("make app", "error: first thing")
    assert session[first].status == "open"
    assert session[first].resolver_index is None
    assert session[first].tried == ("make app: error: first thing",)


def test_a_narrower_run_counts_only_where_no_whole_one_follows() -> None:
    session = TrackedSession()
    failing = session.run_failing("mix test", "1) test x\n** (RuntimeError) no")
    part = session.run_shell("mix test test/x_test.exs")
    assert session[failing].resolver_index == part
    whole = session.run_shell("mix test")
    assert session[failing].resolver_index == whole


def test_a_success_that_only_a_pipe_made_resolves_nothing() -> None:
    session = TrackedSession()
    failing = session.run_failing("pytest tests/a.py", "E   AssertionError: no\n1 failed")
    session.run_shell("pytest tests/a.py | tail -3", "E   AssertionError: no\n1 failed, 2 passed")
    assert session[failing].status == "open"
    resolver = session.run_shell("pytest tests/a.py | tail -3", "3 passed in 0.1s")
    assert session[failing].resolver_index == resolver


def test_a_program_that_the_shell_does_not_find_failed_whatever_ended_its_line() -> None:
    session = TrackedSession()
    missing = session.run_shell("go build ./app | head -5", "bash: line 1: go: command not found")
    again = session.run_shell("go vet ./app; echo done", "bash: line 1: go: command not found\ndone")
    session.run_shell("cat notes.txt", "yesterday: bash: line 1: go: command not found")
    session.run_shell("PATH=/opt/go/bin:$PATH go build ./app | head -5")
    assert [session[index].headline for index in (missing, again)] == ["bash: line 1: go: command not found"] * 2
    assert session[missing].resolving == "PATH=/opt/go/bin:$PATH go build ./app"
    assert len(session.tracker.records) == 2


def test_what_a_chain_proves_counts_and_what_it_does_not_prove_does_not() -> None:
    session = TrackedSession()
    failing = session.run_failing("npm run check")
    session.run_shell("npm run check; git status")
    assert session[failing].status == "open"
    resolver = session.run_shell("npm run check && git commit -m 'x'")
    assert session[failing].resolver_index == resolver


def test_code_given_on_the_command_line_is_compared_by_its_words() -> None:
    session = TrackedSession()
    code = "python3 - <<'EOF'\nimport invoices\nprint(invoices.total_amount({}))\nEOF"
    failing = session.run_failing(code, "Traceback (most recent call last):\n  File\nKeyError: 'a'")
    session.run_shell("python3 -c 'import sys; print(sys.version)'")
    assert session[failing].status == "open"
    resolver = session.run_shell(code.replace("{}", "{'a': 1}"))
    assert session[failing].resolver_index == resolver


def test_a_parallel_call_resolves_nothing() -> None:
    session = TrackedSession()
    arguments = {"file_path": "/a.py", "old_string": "1", "new_string": "2"}
    session.tracker.feed(build_call(0, "Edit", arguments, FAILED, ok=False, seq=1))
    session.tracker.feed(build_call(1, "Edit", arguments, "done", ok=True, seq=2))
    assert session[0].status == "open"
    session.tracker.feed(build_call(2, "Edit", arguments, "done", ok=True, seq=9))
    assert session[0].resolver_index == 2


def test_after_forty_calls_an_error_stays_unresolved() -> None:
    session = TrackedSession()
    late, never = session.run_failing("make late"), session.run_failing("make never")
    for _ in range(WINDOW - 2):
        session.run_shell("date")
    session.run_shell("make late")
    session.run_shell("date")
    assert session[late].resolver_index == WINDOW
    assert session[never].status == "open"
    session.run_shell("make never")
    assert session[never].status == "unresolved"


@pytest.mark.parametrize(
    ("tool", "arguments", "result", "reason", "noise_reason"),
    [
        ("Bash", {"command": "make"}, "no", "rejected", "rejected"),
        ("Read", {"file_path": "/a"}, "Sibling tool call errored", "cascade", "cascade"),
        ("Bash", {"command": "grep -n x a.py"}, "(no output)\n\nCommand exited with code 1", None, "found nothing"),
        ("Bash", {"command": "cd a && ls | grep foo"}, "Exit code 1", None, "found nothing"),
        ("Bash", {"command": "which tree"}, "Exit code 1", None, "found nothing"),
        ("Bash", {"command": "git push"}, "User rejected the command.", None, "rejected"),
        ("write_stdin", {"session_id": 7}, "write_stdin failed: Unknown process id 28941", None, "gone"),
        ("Bash", {"command": "gh pr checks 3"}, "Exit code 8\nlint\tpending\t0\thttps://x", None, "report"),
    ],
)
def test_noise_is_told_and_why(tool: str, arguments: Any, result: str, reason: str | None, noise_reason: str) -> None:
    session = TrackedSession()
    session.call(tool, arguments, result, ok=False, reason=reason)
    session.call(tool, arguments)
    assert (session[0].status, session[0].noise_reason, session[0].resolver_index) == ("noise", noise_reason, None)


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("grep x missing.py", "grep: missing.py: No such file or directory\n\nCommand exited with code 2"),
        ("grep '(' a.py", "Exit code 2\ngrep: Unmatched ( or \\("),
        ("make test", "Exit code 1"),
        ("pytest", "FAILED tests/a.py::test - the call was rejected by the server"),
    ],
)
def test_a_search_that_broke_is_no_noise(command: str, result: str) -> None:
    session = TrackedSession()
    session.run_failing(command, result)
    assert session[0].status == "open"


def test_nothing_secret_is_kept() -> None:
    secret = "hunter2-very-secret"
    session = TrackedSession(lambda text: text.replace(secret, "[redacted]"))
    session.call("Edit", {"file_path": "/a", "old_string": "x", "new_string": secret})
    session.run_failing(f"deploy --password {secret} site", f"error: {secret} refused")
    session.call("Edit", {"file_path": "/env", "old_string": "x", "new_string": f"y\n{secret}"})
    session.run_failing("deploy other", f"error: other {secret}")
    session.run_shell(f"deploy --password {secret} --force site")
    state = json.dumps(session.tracker.to_json())
    assert secret not in state
    assert "[redacted]" in state
    assert secret not in json.dumps([record.to_json() for record in session.tracker.records])


def test_the_state_does_not_grow_with_the_session() -> None:
    session = TrackedSession()
    for number in range(60):
        session.run_failing(f"make target{number}")
    session.tracker.take_changed()
    small = len(json.dumps(session.tracker.to_json()))
    for number in range(300):
        session.run_failing(f"make target{number + 60}")
    session.tracker.take_changed()
    assert len(json.dumps(session.tracker.to_json())) < 1.5 * small


def test_only_what_changed_is_taken() -> None:
    session = TrackedSession()
    session.run_failing("make a")
    assert [record.index for record in session.tracker.take_changed()] == [0]
    session.run_shell("date")
    assert session.tracker.take_changed() == []
    session.run_shell("make a")
    assert [record.status for record in session.tracker.take_changed()] == ["resolved"]


def random_calls(seed: int, count: int) -> Iterator[CompletedCall]:
    """Yield a session's calls in which everything happens that the rules speak of."""
    rng = random.Random(seed)
    commands = [
        "make a",
        "make b",
        "tree lib/x",
        "find lib/x",
        "git push",
        "git push -u origin z",
        "pytest t/a.py | tail",
    ]
    errors = ["error: one", "error: two", "zsh: command not found: tree", "Command aborted", "Exit code 1"]
    for index in range(count):
        ok = rng.random() < 0.5
        result = "ok" if ok else rng.choice(errors)
        seq = None if rng.random() < 0.8 else max(1, 2 * index - 2)
        if rng.random() < 0.7:
            yield build_call(index, "Bash", {"command": rng.choice(commands)}, result, ok, seq=seq)
        else:
            path = rng.choice(["/p/a.py", "/p/b.py"])
            yield build_call(
                index,
                rng.choice(["Read", "Edit"]),
                {"file_path": path, "old_string": "a", "new_string": "b"},
                result,
                ok,
                seq=seq,
            )


@settings(max_examples=count_examples(60))
@given(st.integers(0, 10_000), st.integers(1, 120), st.data())
def test_any_cut_into_nights_gives_the_same_records(seed: int, count: int, data: st.DataObject) -> None:
    uncut = ErrorTracker(redact)
    for call in random_calls(seed, count):
        uncut.feed(call)
    cuts = data.draw(st.sets(st.integers(0, count)))
    stored: dict[int, ErrorRecord] = {}
    tracker = ErrorTracker(redact)
    for call in random_calls(seed, count):
        tracker.feed(call)
        if call.index in cuts:
            if data.draw(st.booleans()):
                stored.update({record.seq: record for record in tracker.take_changed()})
            tracker = ErrorTracker.from_json(json.loads(json.dumps(tracker.to_json())), redact)
    stored.update({record.seq: record for record in tracker.take_changed()})
    assert [stored[seq] for seq in sorted(stored)] == uncut.records
    assert tracker.to_json()["open"] == uncut.to_json()["open"]
    assert tracker.to_json()["seen"] == uncut.to_json()["seen"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda i: st.lists(i) | st.dictionaries(st.text(), i)
    )
)
def test_any_arguments_are_followed(arguments: Any) -> None:
    session = TrackedSession(redact)
    for tool in ("Bash", "Edit", "other"):
        session.call(tool, arguments, "error: x", ok=False)
        session.call(tool, arguments)
    assert len(session.tracker.records) == 3
    for record in session.tracker.records:
        assert ErrorRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.skipif(not LABELS.exists(), reason="the labelled sessions are not here")
def test_the_hand_labels_are_met() -> None:
    labels = [Label.from_json(json.loads(line)) for line in LABELS.read_text().splitlines()]
    records = {session: track_labelled_session(session) for session in {label.session for label in labels}}
    figures = evaluate(records, labels)
    assert figures["not_failed"] == 0
    assert figures["precision"] >= 0.75, figures["wrong"]
    assert figures["recall"] >= 0.70, figures["wrong"]


def track_labelled_session(session: str) -> list[ErrorRecord]:
    reader = claude_code if session.startswith("claude-code") else pi
    pairer, tracker = CallPairer(), ErrorTracker(redact)
    seq = 0
    for item in reader.read(DATA / session, DATA / session.split("/", maxsplit=1)[0]):
        assert isinstance(item, ForeignSession | ForeignEvent) or item.line is not None
        if isinstance(item, ForeignEvent):
            seq += 1
            call = pairer.feed(Event(session, seq, item.type, item.data, datetime(2025, 1, 1, tzinfo=UTC)))
            if call is not None:
                tracker.feed(call)
    return tracker.records


def test_a_record_says_what_both_calls_were_given_where_they_ran_and_which_values_the_error_names() -> None:
    session = TrackedSession()
    failing = session.run_failing(
        "cd web && npm test -- cart", "fatal: The current branch a-b1 has no upstream branch."
    )
    session.run_shell("cd /srv/web && npm test -- cart --fast")
    record = session[failing]
    assert (record.arguments, record.directory) == ({"command": "npm test -- cart"}, "web")
    assert (record.resolver_arguments, record.resolver_directory) == (
        {"command": "npm test -- cart --fast"},
        "web",
    )
    assert record.variables == (ErrorVariable("id", "a-b1"),)


def test_a_record_says_whether_its_case_worked_and_what_was_tried_before() -> None:
    session = TrackedSession()
    first = session.run_failing("make app", "error: first thing")
    session.run_failing("make app FAST=1", "error: first thing")
    session.run_failing("make app", "error: something else")
    assert session[first].outcome == "another error"
    session.run_shell("make app")
    record = session[first]
    assert [(attempt.arguments["command"], attempt.same_error) for attempt in record.attempts] == [
        ("make app FAST=1", True),
        ("make app", False),
    ]
    assert ErrorRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_where_the_directories_differ_the_cd_is_the_fix() -> None:
    session = TrackedSession()
    unsaid = session.run_failing("npm test", 'npm error Missing script: "test"')
    session.run_shell("cd web && npm test")
    assert session[unsaid].resolver_directory == "web"
    assert describe_fix(session[unsaid]) == "ran `cd web && npm test`"
    wrong = session.run_failing("cd /srv/docs && make site", "make: *** No rule to make target 'site'.  Stop.")
    resolver = session.run_shell("cd /srv/app && make site")
    assert (session[wrong].resolver_index, session[wrong].resolver_directory) == (resolver, "/srv/app")


@pytest.mark.parametrize(
    "result",
    [
        "Exit code 1\n(eval):cd:1: no such file or directory: web",
        "Exit code 1\nbash: line 1: cd: web: No such file or directory",
        "Exit code 2\n/bin/sh: 1: cd: can't cd to web",
    ],
)
def test_a_folder_that_is_not_there_is_no_error_of_the_program_after_it(result: str) -> None:
    session = TrackedSession()
    failed = session.run_failing("cd web && git commit -m 'Add a page'", result)
    session.run_shell("git commit -m 'Add a page'")
    assert (session[failed].symbol, session[failed].operation) == ("sh:cd", "sh:cd")
    assert "sh:cd|" in session[failed].fingerprint


def test_a_cd_to_where_the_shell_may_have_been_is_no_fix() -> None:
    session = TrackedSession()
    failing = session.run_failing("make", "a.c:1:2: error: expected ';'")
    session.call("Edit", {"file_path": "a.c", "old_string": "a", "new_string": "b"})
    session.run_shell("cd /srv/app && make")
    assert session[failing].change == "none"
    relative = session.run_failing("cd app && make", "a.c:1:2: error: expected ';'")
    session.run_shell("cd /srv/app && make")
    assert session[relative].change == "none"


@pytest.mark.parametrize(
    ("failing", "bypass"),
    [
        ("git commit -m 'x'", "git commit --no-verify -m 'x'"),
        ("git push origin main", "git push --force origin main"),
        ("git add out/app.css", "git add -f out/app.css"),
        ("./deploy.sh", "chmod 777 deploy.sh && ./deploy.sh"),
        ("npm install left", "npm install left --ignore-scripts"),
        ("git commit -m 'x'", "git commit -nm 'x'"),
        ("git commit -m 'x'", "HUSKY_SKIP_HOOKS=1 git commit -m 'x'"),
        ("npm test", "npm test || true"),
    ],
)
def test_a_call_that_skips_a_check_resolves_nothing(failing: str, bypass: str) -> None:
    session = TrackedSession()
    index = session.run_failing(failing)
    session.run_shell(bypass)
    assert session[index].status == "open"


@pytest.mark.parametrize("outside", [{"sandbox_permissions": "require_escalated"}, {"dangerouslyDisableSandbox": True}])
@pytest.mark.parametrize(
    ("error", "status"),
    [("Error: listen EPERM: operation not permitted 127.0.0.1", "open"), ("error: 2 tests failed", "resolved")],
)
def test_what_the_sandbox_refused_is_resolved_by_no_call_outside_it(
    outside: dict[str, Any], error: str, status: str
) -> None:
    session = TrackedSession()
    index = session.run_failing("vitest run a.test.ts", error)
    session.call("bash", {"command": "CI=1 vitest run a.test.ts", **outside})
    assert session[index].status == status


def test_a_probe_that_nothing_was_installed_for_stays_noise() -> None:
    session = TrackedSession()
    probe = session.run_failing("which zip", "Exit code 1")
    session.run_shell("which zip unzip")
    assert (session[probe].status, session[probe].noise_reason) == ("noise", "found nothing")


def test_a_lookup_of_something_else_takes_no_place() -> None:
    session = TrackedSession()
    failing = session.call("get_order_details", {"order_id": "#W1234567"}, "Error: order not found", ok=False)
    session.call("get_user_details", {"user_id": "ann_12"})
    session.call("get_order_status", {"order": "x"})
    assert session[failing].status == "open"


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("diff -rq /a /b", "Only in /a: error.txt"),
        ("ls -l; grep x a.py", "total 1\n-rw-r--r-- 1 a a 10 Jan 1 10:00 errors.log"),
        ("which tree", "which: no tree in (/usr/bin:/bin)"),
    ],
)
def test_what_a_search_prints_when_it_finds_nothing_is_noise(command: str, result: str) -> None:
    session = TrackedSession()
    session.run_failing(command, result)
    assert (session[0].status, session[0].noise_reason) == ("noise", "found nothing")


def test_a_range_of_lines_does_not_tell_edits_apart() -> None:
    session = TrackedSession()
    failing = session.run_shell("edit 2:2\nx = os.sep\nend_of_edit", "ERRORS:\n- F821 undefined name 'os'", ok=False)
    resolver = session.run_shell("edit 1:2\nimport os\nx = os.sep\nend_of_edit")
    assert session[failing].resolver_index == resolver


@pytest.mark.parametrize(
    "step",
    ["chmod 777 deploy.sh", "git config core.hooksPath /dev/null", "export HUSKY=0", "rm -rf .husky"],
)
def test_switching_a_check_off_before_the_same_call_resolves_nothing(step: str) -> None:
    session = TrackedSession()
    failing = session.run_failing("git commit -m 'x'", "Checks failed:\n[LINT] Names are too long.")
    session.run_shell(step)
    session.run_shell("git commit -m 'x'")
    assert session[failing].status == "open"


def test_what_fails_on_another_host_is_the_remote_command() -> None:
    session = TrackedSession()
    error = "Exit code 1\nFATAL: role ada does not exist"
    failing = session.run_failing("ssh -p 22 box 'psql -U ada shop'", error)
    session.run_shell("ssh -p 22 box uptime")
    assert session[failing].status == "open"
    session.run_shell("ssh -p 22 box 'sudo -u postgres psql shop'")
    assert (session[failing].status, session[failing].resolver_index) == ("resolved", 2)
    assert session[failing].operation == session[failing].symbol == "sh:psql"


def test_what_fails_of_the_connection_is_ssh_itself() -> None:
    session = TrackedSession()
    failing = session.run_failing("ssh box 'psql shop'", "Exit code 255\nssh: connect to host box: No route to host")
    assert session[failing].operation == session[failing].symbol == "sh:ssh"


def test_a_missing_command_is_there_once_any_call_of_it_works() -> None:
    session = TrackedSession()
    failing = session.run_failing("zig build app", "Exit code 127\nbash: zig: command not found")
    session.run_shell("which zig")
    session.run_shell("/opt/zig/zig version")
    assert (session[failing].status, session[failing].resolver_index) == ("resolved", 2)


UNFORMATTED = (
    "Exit code 1\nDiff in /srv/shop/src/cart_{0}.rs:3{0}:\n #[derive(Debug)]\n-    Output {{\n+    Output{0} {{"
)


@pytest.mark.parametrize(
    ("check", "result", "cure"),
    [
        ("cargo fmt --all --check 2>&1", UNFORMATTED, "cargo fmt --all"),
        ("black --check .", "would reformat a_{0}.py\n1 file would be reformatted.", "black ."),
        (
            "npx prettier --check src",
            "[warn] src/a{0}.ts\n[warn] Code style issues found in it.",
            "npx prettier -w src",
        ),
    ],
)
def test_a_check_that_prints_what_it_would_format_is_mended_by_the_same_program(
    check: str, result: str, cure: str
) -> None:
    session = TrackedSession()
    first, second = (session.run_failing(f"cd /srv && {check}", result.format(n)) for n in (1, 2))
    session.run_shell("git status")
    resolver = session.run_shell(cure)
    assert session[first].fingerprint == session[second].fingerprint
    assert (session[second].headline, session[second].resolver_index) == ("files are not formatted", resolver)


def test_a_check_mends_nothing() -> None:
    session = TrackedSession()
    failing = session.run_failing("dart fix", FAILED)
    session.run_shell("dart fix --dry-run")
    assert session[failing].status == "open"


def test_a_program_that_could_not_be_found_is_a_missing_command() -> None:
    session = TrackedSession()
    failing = session.run_failing("docker compose ps", "The command 'docker' could not be found in this distro.")
    assert session[failing].fingerprint.endswith(":sh:docker|command not found: docker")
