"""An error is named by its telling line, and the same error gets the same name wherever it is met."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.solutions.error_line import (
    MAX_SCANNED_EDGE,
    headline,
    shows_failure,
    truncate_middle,
)
from consolidator.memory.solutions.fingerprint import (
    NO_MESSAGE,
    fingerprint,
    mask_line,
    masked_values,
    signature,
)

PYTHON = """Running
Traceback (most recent call last):
  File "/srv/app/main.py", line 14, in <module>
    load(path)
  File "/srv/app/main.py", line 9, in load
    raise ValueError("error: bad header")
KeyError: 'header'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/app/main.py", line 20, in <module>
    main()
app.errors.ConfigError: no section 'server' in /etc/app.ini
"""
NODE = """/srv/web/node_modules/tool/dist/run.cjs:3
`)},"log"),error=I(g.red(" failed "));
Error: Cannot find module './config.js'
Require stack:
- /srv/web/[eval]
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15) {
  code: 'MODULE_NOT_FOUND'
}
Node.js v22.1.0


Command exited with code 1"""
ELIXIR = """Exit code 2
Compiling 4 files (.ex)
Running ExUnit with seed: 12, max_cases: 8

  1) test mount shows the list (Shop.ListTest)
     test/shop/list_test.exs:40
     ** (RuntimeError) no adapter configured for Shop.Repo
     stacktrace:
       (phoenix 1.7.0) lib/phoenix.ex:10: Phoenix.start/2

Finished in 0.3 seconds
3 tests, 1 failure"""
RUST = """   Compiling shop v0.1.0 (/srv/shop)
warning: unused variable: `x`
error[E0425]: cannot find value `total` in this scope
 --> src/main.rs:7:20
error: could not compile `shop` (bin "shop") due to 1 previous error"""
PYTEST = """============ FAILURES ============
____ test_total ____
    def test_total():
>       assert total([1]) == 2
E       AssertionError: assert 1 == 2
tests/test_total.py:4: AssertionError
1 failed, 12 passed in 0.10s"""
TSC = """> shop@1.0.0 check
> tsc --noEmit

src/cart.ts(12,34): error TS2339: Property 'sum' does not exist on type 'Cart'.

Command exited with code 2"""
HOOK = "Pre-commit validation failed:\\n\\n[FORMAT] Code is not formatted.\\nRun 'fmt'.\n\nTotal errors: 11, Skipped: 0"

CASES = [
    (
        "sh:git push",
        "Exit code 128\nfatal: The current branch a-b has no upstream branch.\nTo push",
        "fatal: The current",
    ),
    ("Read", "<tool_use_error>File does not exist.</tool_use_error>", "File does not exist."),
    ("sql", "Error executing query: Table 'shop.carts' doesn't exist", "Error executing query: Table 'shop.carts'"),
    ("sh:python", PYTHON, "app.errors.ConfigError: no section"),
    ("sh:tsx", NODE, "Error: Cannot find module"),
    ("sh:mix test", ELIXIR, "** (RuntimeError) no adapter configured"),
    ("sh:cargo build", RUST, "error[E0425]: cannot find value"),
    ("sh:pytest", PYTEST, "E       AssertionError: assert 1 == 2"),
    ("sh:npm run check", TSC, "src/cart.ts(12,34): error TS2339"),
    ("sh:git commit", HOOK, "Pre-commit validation failed: [FORMAT] Code is not formatted."),
    (
        "sh:git add",
        "The following paths are ignored by one of your .gitignore files:\nout/css\nhint: Use -f",
        "The following paths are ignored by one of your .gitignore files: out/css",
    ),
    (
        "sh:npm run build",
        'npm warn Unknown env config "store". It stops.\n> a@1 build\n\n[TypeError: make is not a function]',
        "[TypeError: make is not a function]",
    ),
    (
        "sh:lint",
        "Checking 3 source files ...\n\nsrc/a.py:3:8: F401 `os` imported but unused\nFound 1 error.",
        "src/a.py:3:8",
    ),
    ("sh:lint", "F401 `os` imported but unused\n --> src/a.py:3:8\n  |\n3 | import os\n\nFound 1 error.", "F401 `os`"),
    (
        "sh:fmt",
        "Checking formatting...\n[warn] src/a.ts\n[warn] Code style issues found in it.",
        "files are not formatted",
    ),
    ("sh:eslint", "/srv/x.js\n  3:5  error  'x' is never used  no-unused-vars\n\n✖ 1 problem", "3:5  error  'x'"),
    ("sh:go test", "--- FAIL: TestX (0.00s)\n    x_test.go:12: got 1, want 2\nFAIL", "x_test.go:12: got 1, want 2"),
    (
        "sh:jest",
        "FAIL src/x.test.js\n  ● adds\n\n    expect(received).toBe(expected)\n\n    Expected: 3",
        "expect(received)",
    ),
    ("edit", "Your edit has new errors.\n\nERRORS:\n- F821 undefined name 'os'", "ERRORS: - F821 undefined name 'os'"),
    (
        "sh:pytest",
        ">       assert f() == 2\nE       assert 1 == 2\nE        +  where 1 = f()\n\ntests/a.py:3: AssertionError",
        "E       assert 1 == 2",
    ),
    ("sh:apt", "Reading package lists...\nBuilding dependency tree...\nE: Unable to locate package foo", "E: Unable"),
    ("sh:foo", "\x1b[31mbash: line 3: foo: command not found\x1b[0m", "bash: line 3: foo: command not found"),
    ("sh:go test", "panic: runtime error: index out of range [3]\n\ngoroutine 1 [running]:", "panic: runtime error"),
    (
        "sh:x",
        "thread 'main' panicked at src/main.rs:2:5:\nnot a number",
        "thread 'main' panicked at src/main.rs:2:5: not a",
    ),
    (
        "edit",
        "Your edit has new errors.\n\nERRORS:\n- E999 SyntaxError: unmatched ']'",
        "- E999 SyntaxError: unmatched",
    ),
]


@pytest.mark.parametrize(("tool", "text", "line"), CASES)
def test_the_telling_line_is_found(tool: str, text: str, line: str) -> None:
    assert headline(text).lstrip().startswith(line.lstrip())
    assert fingerprint(tool, text).startswith(f"v17:{tool.split(' ')[0]}|")


SAME = [
    (
        "SyntaxError: Export named 'gradeCase' not found in module '/home/a/core/dist/index.js'.",
        "SyntaxError: Export named 'mergeOptions' not found in module '/srv/b/core/dist/index.js'.",
    ),
    ('Unknown JSON field: "actor"', 'Unknown JSON field: "baseRefOid"'),
    (
        "fatal: The current branch a-b1 has no upstream branch.",
        "fatal: The current branch fix-login has no upstream branch.",
    ),
    ("Could not find the exact text in /home/a/x.py.", "Could not find the exact text in /srv/other/deep/y.ts."),
    ("Table 'shop.carts' doesn't exist", "Table 'zoo.animals' doesn't exist"),
    ("zsh: command not found: tree", "bash: line 7: tree: command not found"),
    ("/bin/sh: 1: tree: not found", "(eval):1: command not found: tree"),
    ("File content (806.5KB) exceeds maximum (256KB)", "File content (1.2MB) exceeds maximum (256KB)"),
    ("no user 0b9f7a52-1c3d-4e5f-8a9b-0c1d2e3f4a5b since 2024-01-02T03:04:05Z", "no user 7 since 2025-06-07T08:09:10Z"),
    ("GET https://a.example/x/1?q=2 failed: 502", "GET http://localhost:8080/ failed: 504"),
    ("src/a.ts(1,2): error TS2339: Property 'x' is gone", "lib/b/c.ts(30,4): error TS2339: Property 'yy' is gone"),
    ("syntax to use near ') as x FROM y' at line 1", "syntax to use near 'LIMIT 3"),
    ("Error: not enough seats on flight HAT290", "Error: not enough seats on flight HAT88"),
    ("Error: flight HAT030 not available on date 2024-05-13", "Error: flight ZRH7 not available on date 2025-01-02"),
    (
        "fatal: The current branch main has no upstream branch.",
        "fatal: The current branch fix/a has no upstream branch.",
    ),
    (
        "undefined function get/2 (expected A.B to define it)",
        "undefined function render_it/3 (expected Foo.Bar to define it)",
    ),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_names_numbers_and_places_do_not_tell_errors_apart(first: str, second: str) -> None:
    if "no user" in first:
        assert mask_line(first).split(" since")[1] == mask_line(second).split(" since")[1]
    else:
        assert signature(first) == signature(second)


DIFFERENT = [
    ("error TS2339: Property 'x' is gone", "error TS2305: Property 'x' is gone"),
    ("ORA-00942: table is gone", "ORA-00904: table is gone"),
    ("a/b.py:3:1: E302 expected two lines", "a/b.py:3:1: E305 expected two lines"),
    ("cannot assign (TS2322) here", "cannot assign (TS2345) here"),
    ("KeyError: 'a'", "ValueError: 'a'"),
    ("bash: tree: command not found", "bash: jq: command not found"),
    ("ModuleNotFoundError: No module named 'requests'", "ModuleNotFoundError: No module named 'pip'"),
    ("E: Unable to locate package jq", "E: Unable to locate package tree"),
    ("git: 'psuh' is not a git command.", "git: 'pul' is not a git command."),
    ("error: unexpected argument '--fast' found", "error: unexpected argument '--slow' found"),
    ('npm error Missing script: "lint"', 'npm error Missing script: "check"'),
    ("HTTP/1.1 404 Not Found", "HTTP/1.1 401 Not Found"),
    ("Checks failed: [LINT] not formatted", "Checks failed: [TYPES] not formatted"),
    ("error: unknown option --fast", "error: unknown option --slow"),
]


ANNOUNCED = [
    (
        "Publishing failed, see below:\nStep 3 says:\n disk quota exceeded",
        "Publishing failed, see below: Step 3 says: disk quota exceeded",
    ),
    ("Validation failed:\n  name:\n    must not be empty", "Validation failed: name: must not be empty"),
    ("Checks failed:\n[TYPES]\nlib/a.ex:12:no_return\nNo local return.", "Checks failed: [TYPES]"),
    ("a failed:\n" + "".join(f"{n}:\n" for n in "bcdefghij"), "a failed: b: c: d: e: f:"),
]


@pytest.mark.parametrize(("text", "line"), ANNOUNCED)
def test_announcements_are_joined_up_to_the_reason(text: str, line: str) -> None:
    assert headline(text) == line


def test_different_reasons_behind_the_same_announcements_are_different_errors() -> None:
    text = "Publishing failed, see below:\nStep 3 says:\n"
    assert signature(f"{text}disk quota exceeded") != signature(f"{text}the token has expired")


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_codes_classes_programs_and_options_tell_errors_apart(first: str, second: str) -> None:
    assert signature(first) != signature(second)


def test_push_and_pull_share_their_programs_errors_and_other_programs_do_not() -> None:
    text = "fatal: not a git repository"
    assert fingerprint("sh:git push", text) == fingerprint("sh:git pull", text)
    assert fingerprint("sh:git push", text) != fingerprint("sh:hg push", text)


def test_a_text_without_words_still_has_a_name() -> None:
    assert headline("(no output)\n\nCommand exited with code 1") == ""
    assert fingerprint("Bash", "Exit code 1") == f"v17:Bash|{NO_MESSAGE}"


@pytest.mark.parametrize("end", ["\n", " "])
def test_no_word_is_cut_where_a_long_text_is(end: str) -> None:
    for shift in range(9):
        text = "x" * shift + end + f"abcdefgh{end}" * MAX_SCANNED_EDGE
        assert {*truncate_middle(text).split()} - {"x" * shift} == {"abcdefgh"}


def test_a_line_that_is_most_of_a_long_text_is_read_in_part() -> None:
    line = f'{{"message": "TypeError: no such field", "stack": "{"at step (a.js:1) " * MAX_SCANNED_EDGE}"}}'
    assert "no such field" in headline(f"Exit code 1\n{line}\nStopped.\n")
    assert truncate_middle(f"{line}\nStopped.\n").endswith('"}\nStopped.\n')


def test_only_the_two_ends_of_a_long_text_are_read() -> None:
    filler = "all is well\n" * MAX_SCANNED_EDGE
    assert headline(f"{filler}error: in the middle\n{filler}") == "all is well"
    assert headline(f"{filler}{filler}error: at the end") == "error: at the end"


def test_lines_that_only_speak_of_errors_are_passed_over() -> None:
    assert (
        headline("0 errors, 2 warnings\nerror handler installed\nThe port is already taken")
        == "The port is already taken"
    )


def test_how_a_program_is_used_is_no_reason() -> None:
    notice = "warning: Not a git repository. Use --no-index to compare two paths outside a working tree"
    options = "Diff output format options\n    --ws-error-highlight <kind>\n                          highlight errors"
    usage = f"usage: git diff --no-index [<options>] <path> <path>\n\n{options}"
    assert headline(f"Exit code 129\n{notice}\n{usage}") == notice
    assert headline(f"Exit code 1\n{usage}\nship: error: unknown target web") == "ship: error: unknown target web"
    assert headline(f"Usage: 12 MB\n{notice}\n    could not open the log") == "could not open the log"
    assert headline(usage) != ""


def test_output_that_reads_failed_is_known_where_a_pipe_hid_the_status() -> None:
    assert shows_failure(PYTEST)
    assert not shows_failure("12 passed in 0.1s\n0 failures")


@given(st.text(max_size=400), st.text(max_size=20))
def test_any_text_has_one_short_name(text: str, tool: str) -> None:
    name = fingerprint(tool, text)
    assert name == fingerprint(tool, text)
    assert name.startswith("v17:")
    assert len(name) <= 300
    assert len(headline(text)) <= 300


@given(st.lists(st.sampled_from([case[1] for case in CASES]), min_size=1, max_size=6), st.randoms())
def test_what_was_seen_before_never_changes_a_fingerprint(texts: list[str], random: object) -> None:
    alone = {text: fingerprint("t", text) for text in reversed(texts)}
    assert [fingerprint("t", text) for text in texts] == [alone[text] for text in texts]


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_json_answer_is_read(value: object) -> None:
    assert fingerprint("t", json.dumps(value)).startswith("v17:t|")


def test_names_and_values_of_a_headline_are_told_apart() -> None:
    assert masked_values("fatal: The current branch fix/a has no upstream branch.") == [("id", "fix/a")]
    assert masked_values("bash: line 3: jq: command not found") == [("name", "jq")]
    assert masked_values("/usr/bin/python3: No module named pip") == [("name", "pip"), ("path", "/usr/bin/python3")]
    assert masked_values("no user ann_12 in /srv/a.py since 2024-01-02") == [
        ("id", "ann_12"),
        ("path", "/srv/a.py"),
        ("date", "2024-01-02"),
    ]


def test_a_missing_command_is_its_own_programs_error() -> None:
    text = "bash: line 1: zip: command not found\nls: cannot access 'x.zip': No such file or directory"
    assert fingerprint("sh:ls", text) == "v17:sh:zip|command not found: zip"


@pytest.mark.parametrize(
    "text",
    [
        "0 [main] cygpath (31404) child_copy: cygheap read copy failed, 0x0, done 0, Win32 error 299",
        "Command failed: cygpath -u 'c:\\users\\ada'",
        "bash: fork: retry: Resource temporarily unavailable",
    ],
)
def test_an_error_of_the_shell_is_the_same_whatever_was_to_run(text: str) -> None:
    assert fingerprint("sh:ls", text) == fingerprint("sh:git push", text) != fingerprint("Read", text)


@given(st.text(max_size=400))
def test_values_are_parts_of_any_line(line: str) -> None:
    assert all(value for _, value in masked_values(line))


@pytest.mark.parametrize(
    "unseen",
    ["\u200b", "\u202e", "\u2066", "\ufeff", "\u00ad", "\U000e0041", "\x1b[31m", "\x9b1m", "\x00", "\u200b" * 600],
)
def test_characters_that_nobody_sees_change_no_error(unseen: str) -> None:
    plain = "Collecting\nModuleNotFoundError: No module named 'numpy'\nbye"
    hidden = plain.replace("No module", f"No{unseen} module").replace("Module", f"{unseen}Mod{unseen}ule", 1)
    assert headline(hidden) == headline(plain)
    assert fingerprint("sh:python", hidden) == fingerprint("sh:python", plain)


@pytest.mark.parametrize("line_break", ["\r\n", "\r", "\x85", "\u2028", "\u2029"])
def test_any_line_break_ends_a_line(line_break: str) -> None:
    assert headline(f"Collecting{line_break}ValueError: x is odd{line_break}bye") == "ValueError: x is odd"


@pytest.mark.parametrize(
    "passed", ["PASS: a branch avoids a conflict", "✓ says that it is already there", "  ✔ rejects"]
)
def test_a_line_of_what_passed_is_no_reason(passed: str) -> None:
    assert headline(f"{passed}\nFAIL: the branch was not made\n{passed}\n") == "FAIL: the branch was not made"


def test_what_a_build_of_containers_did_not_do_is_its_reason_and_no_line_of_progress() -> None:
    progress = "\n".join(
        f" Container shop-{name}  {state}" for name in ("db", "web") for state in ("Running", "Started")
    )
    reason = 'service "migration" didn\'t complete successfully: exit 1'
    assert headline(f"Exit code 1\n{progress}\n{reason}") == reason
    reason = 'failed to solve: process "/bin/sh -c npm install" did not complete successfully: exit code: 1'
    log = "191.9 npm error A complete log of this run can be found in: /root/.npm/_logs/2026-03-01-debug-0.log"
    assert headline(f"Exit code 1\nDockerfile:23\n{reason}\n{log}") == reason
