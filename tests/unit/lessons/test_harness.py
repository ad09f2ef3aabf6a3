"""How the agent's own tools and its shell behave is told in our words."""

from __future__ import annotations

import pytest

from consolidator.memory.lessons.always_failing import warning_words
from consolidator.memory.lessons.before_call import concerns
from consolidator.memory.lessons.learning import learn_lessons
from consolidator.memory.lessons.segments import quote_pattern
from consolidator.memory.lessons.telling import answer_failure, warn_before
from tests.unit.lessons.traced import (
    HOME,
    CallLog,
    learn,
    of_kind,
)


@pytest.mark.parametrize("tool", ["Bash", "Edit"])
def test_that_calls_are_cancelled_together_is_told_of_commands_alone(tool: str) -> None:
    def write(log: CallLog) -> None:
        arguments = {"command": "make test"} if tool == "Bash" else {"file_path": f"{HOME}/a.py"}
        log.call(tool, arguments, "Sibling tool call errored", ok=False, reason="cascade")

    assert bool(of_kind(learn(3, write), "harness")) == (tool == "Bash")


def test_an_edit_whose_lines_lack_a_tab_is_answered_where_that_was_the_reason() -> None:
    error = "String to replace not found in file.\nString: \tlet x = 1;"

    def lose_tab(log: CallLog) -> None:
        log.edit("a.ts", "\tlet x = 1;\n\t\tlet y = 2;", ok=False, output=error)
        log.read("a.ts", output="    1\u2192class A {\n    2\u2192\t\tlet x = 1;\n    3\u2192\t\t\tlet y = 2;")
        log.edit("b.ts", "\tlet x = 1;", ok=False, output=error).edit("b.ts", "\t\tlet x = 1;")

    call = {"file_path": "c.ts", "old_string": "\tlet z = 3;", "new_string": ""}
    told = answer_failure(learn(3, lose_tab), "Edit", call, error)
    assert told is not None
    assert "mostly lack a tab in each line (6 of 6 times)" in told.text

    def change_meanwhile(log: CallLog) -> None:
        log.edit("a.ts", "\tlet x = 1;\n\tlet y = 2;", ok=False, output=error).read("a.ts", output="\tlet x = 1;")

    assert of_kind(learn(3, change_meanwhile), "harness") == []


def test_what_powershell_does_not_read_is_a_rule_of_the_shell() -> None:
    missing = "ParserError:\n  1 | python - <<'PY'\n    | Missing file specification after redirection operator."
    heredoc = {"command": ["pwsh", "-Command", "python - <<'PY'\nprint(1)\nPY"]}

    def write(log: CallLog) -> None:
        log.call("shell", heredoc, missing, ok=False)
        log.call("shell", {"command": ["pwsh", "-Command", "@'\nprint(1)\n'@ | python -"]}, "1")

    lessons = learn(2, write)
    assert of_kind(lessons, "always_fails") == []
    (lesson,) = of_kind(lessons, "harness")
    assert lesson.line.startswith("The shell is PowerShell: ")
    assert lesson.line.endswith("(failed 2 times).")
    told = answer_failure(lessons, "Bash", {"command": "python - <<'PY'\nprint(2)\nPY"}, missing)
    assert told is not None
    assert "Pipe a here-string" in told.text
    assert answer_failure(lessons, "Bash", {"command": "ls -la"}, "bash: ls: command not found") is None


@pytest.mark.parametrize(
    ("error", "is_its_own"),
    [
        (
            "At line:1 char:8\nThe token '&&' is not a valid statement separator in this version.",
            True,
        ),
        ("1 failed: expected 'x', got \"The token '&&' is not a valid statement separator in this version.\"", False),
    ],
)
def test_a_program_that_prints_what_powershell_says_is_not_it(error: str, is_its_own: bool) -> None:
    lessons = of_kind(learn(1, lambda log: log.fail("cd web && npm test", error)), "harness")
    assert (lessons != []) == is_its_own


def test_lines_of_a_patch_without_their_mark_are_told_of() -> None:
    patch = "*** Begin Patch\n*** Add File: web/cart.md\n+# Cart\n\n+text\n*** End Patch"
    error = "apply_patch verification failed: invalid hunk at line 4, '' is not a valid hunk header."
    lessons = learn(3, lambda log: log.call("shell", {"command": ["apply_patch", patch]}, error, ok=False))
    (lesson,) = of_kind(lessons, "harness")
    assert "each line begins with `+`" in lesson.line
    told = answer_failure(lessons, "apply_patch", patch, error)
    assert told is not None
    assert told.lesson is lesson


UNMATCHED_WORD = "(eval):1: no matches found: "


def test_zsh_and_not_the_program_is_told_where_a_word_is_a_pattern_of_no_file() -> None:
    def write(log: CallLog) -> None:
        log.fail("git add src/[id].ts", f"{UNMATCHED_WORD}src/[id].ts").run("git add 'src/[id].ts'")
        log.run("grep -rn cart src --include=*.py | head", f"{UNMATCHED_WORD}--include=*.py")

    lessons = learn(2, write)
    (lesson,) = of_kind(lessons, "harness")
    assert (lesson.failures, lesson.starts, of_kind(lessons, "always_fails")) == (4, True, [])
    assert "The shell is zsh: quote a word with `*`, `?`, `[` or `(`" in lesson.line
    told = answer_failure(lessons, "Bash", {"command": "gh api a/b?ref=c -q x"}, f"{UNMATCHED_WORD}a/b?ref=c")
    assert told is not None
    assert told.call == "gh api 'a/b?ref=c' -q x"
    told = answer_failure(lessons, "Bash", {"command": "find . -name *.py"}, f"{UNMATCHED_WORD}*.py")
    assert told is not None
    assert told.call == "find . -name '*.py'"
    several = "grep -n a --include=*.py --include=*.md ."
    told = answer_failure(lessons, "Bash", {"command": several}, f"{UNMATCHED_WORD}--include=*.py")
    assert told is not None
    assert told.call == "grep -n a '--include=*.py' '--include=*.md' ."
    assert of_kind(learn(2, lambda log: log.fail("ls *.yaml", f"{UNMATCHED_WORD}*.yaml")), "harness") == []
    include: dict[str, object] = {"tool_name": "Bash", "cwd": HOME}
    for command, is_warned in [
        ("cd a; grep -rn b --include=*.ts .", True),
        ("grep b --include='*.ts' .", False),
        ("cd app && sed -n 1,9p src/(shop)/a.ts | head", True),
        ("ls -l src/app/(shop); ls", True),
        ("cat src/[slug]/a.ts src/b.ts", True),
        ("cat src/[...slug].ts", True),
        ("cat 'src/(shop)/a.ts' \"src/[slug]/a.ts\"", False),
        ("FILE=src/[slug]/a.ts make; ls src/[a-z]/b src/[slug]/*.ts", False),
        ("(cd src/ && ls); echo $(ls src/) $(pwd)/a", False),
        ("cat src/[abc].ts src/[abc]/d.ts", False),
        ("env CI=1 cat src/[user_id]/[[...rest]].ts <<< a", True),
        ("git show HEAD:src/[slug]/a.ts; cat ~/src/[slug]/a.ts", True),
        ("make; echo ===; ls", True),
        ("echo ===done===", True),
        ("echo '===' \"=== a\"", False),
        ("[[ $a == b ]] && [ a =~ b ] || ((c ==3)) || test d == e", False),
        ("cat <<E\n===\nE", False),
    ]:
        include["tool_input"] = {"command": command}
        assert (warn_before(lessons, "Bash", include["tool_input"]) is not None) == is_warned
        assert concerns(dict(lesson.match), HOME, include) == is_warned
        assert not is_warned or any(word in command for word in warning_words(lesson)[0].split(" or "))
    two = {"command": "cat app/(shop)/a.ts app/(shop)/b.ts"}
    told = answer_failure(lessons, "Bash", two, f"{UNMATCHED_WORD}app/(shop)/a.ts")
    assert told is not None
    assert told.call == "cat 'app/(shop)/a.ts' 'app/(shop)/b.ts'"
    beside = (
        "X=app/[slug]/b cat app/[id]/a >app/[slug]/b $D/[slug].ts ${arr[idx]}; cat app/[slug]/b; (cat app/[slug]/c)"
    )
    told = answer_failure(lessons, "Bash", {"command": beside}, f"{UNMATCHED_WORD}app/[id]/a")
    assert told is not None
    assert told.call == beside.replace(" app/[id]/a", " 'app/[id]/a'")
    for error in ("missing delimiter for 'u' glob qualifier", "unknown file attribute: h", "number expected"):
        told = answer_failure(lessons, "Bash", {"command": "ls -l app/(public)"}, f"zsh:1: {error}")
        assert told is not None
        assert told.call == "ls -l 'app/(public)'"
        assert answer_failure(lessons, "Bash", {"command": "ls -l *(u)"}, f"zsh:1: {error}") is None
    told = answer_failure(lessons, "Bash", {"command": "make; echo ==="}, "made\n(eval):1: == not found")
    assert told is not None
    assert told.call == "make; echo '==='"
    for word in ("conf/*.yaml", "(a|b)/c", "src/[abc].ts"):
        assert answer_failure(lessons, "Bash", {"command": f"cat {word}"}, UNMATCHED_WORD + word) is None
    for command, word in [("git commit -m 'a [b] c'", "[b]")]:
        assert answer_failure(lessons, "Bash", {"command": command}, UNMATCHED_WORD + word) is None


def test_a_shell_that_took_such_a_word_as_it_is_is_not_warned_of() -> None:
    def write(log: CallLog) -> None:
        log.fail("cat src/[id].ts", f"{UNMATCHED_WORD}src/[id].ts").run("setopt nonomatch; cat src/[id].ts", "a")

    (lesson,) = of_kind(learn(2, write), "harness")
    assert not lesson.warns


def test_a_call_that_sleeps_first_is_answered_without_that() -> None:
    blocked = "<tool_use_error>Blocked: sleep 45 followed by: gh pr checks 5. To wait, use Monitor.</tool_use_error>"
    lessons = learn(1, lambda log: log.call("Bash", {"command": "sleep 45; gh pr checks 5"}, blocked, ok=False))
    told = answer_failure(lessons, "Bash", {"command": "sleep 9 && make state 2>&1"}, blocked)
    assert told is not None
    assert told.call == "make state 2>&1"


def test_a_line_that_ends_its_own_shell_is_told_of_from_the_first_case_on() -> None:
    ended = ["pkill -f 'run_all.sh' 2>/dev/null; sleep 1; make up", "kill $(pgrep -f run_all) 2>/dev/null; make up"]
    for command in ended:
        (lesson,) = of_kind(learn_lessons([CallLog("s0").run(command, "Exit code 144", ok=False).trace()]), "harness")
        assert (lesson.failures, lesson.warns, lesson.starts) == (1, True, False)
    for command, is_warned in [
        ("sudo pkill -f server; make up", True),
        ("cd a && pkill -9 -f 'my server' || true", True),
        ("pkill -9f server || true", True),
        ('kill -9 $(pgrep -f "my.*ver") 2>/dev/null; make up', True),
        ("pgrep -f server | xargs -r kill", True),
        ("pkill -f '[s]erver'; make server", True),  # by what follows
        ("pkill -f '[s]erver'; make up", False),
        (r"pkill -f 'server\|worker'; make up", False),  # a bar that is meant
        ("pkill -f '(server)+$'; make up", False),  # nobody knows
        (
            "pkill -f server || true && make up > log 2>&1 &\nsleep 1",
            False,
        ),  # beside the shell, which may be done first
        ("pkill -f server; make up 2>&1 & echo ok", True),
        ("pkill -x -f server; pgrep -f server; kill 12", False),
        ("pkill server; grep -f a b", False),
        ("echo 'pkill -f server'", False),
    ]:
        body: dict[str, object] = {"tool_name": "Bash", "cwd": HOME, "tool_input": {"command": command}}
        assert (warn_before([lesson], "Bash", body["tool_input"]) is not None) == is_warned
        assert concerns({key: str(value) for key, value in lesson.match.items()}, HOME, body) == is_warned
        assert not is_warned or any(word in command for word in warning_words(lesson)[0].split(" or "))
        told = answer_failure([lesson], "Bash", {"command": command}, "Exit code 144")
        assert (told is not None) == is_warned


def test_exit_code_1_shows_a_shell_that_was_ended_only_where_the_line_could_not_have_failed() -> None:
    for command, output, is_ended in [
        ("pkill -9 -f server 2>/dev/null; sleep 1; echo done", "Exit code 1", True),
        ("pkill -9 -f server; ps aux | grep x || echo none", "Exit code 1", True),
        ("pkill -9 -f server; echo done", "Exit code 1\ndone", False),
        ("pkill -9 -f server", "Exit code 1", False),  # there was none
        ("pkill -9 -f server && echo done", "Exit code 1", False),
        ("pkill -9 -f server; ps aux | grep x", "Exit code 1", False),
    ]:
        lessons = of_kind(learn_lessons([CallLog("s0").run(command, output, ok=False).trace()]), "harness")
        assert bool(lessons) == is_ended, command


def test_where_such_lines_mostly_work_nobody_is_warned_of_them() -> None:
    ended = CallLog("s0").run("pkill -f server; make up", "Exit code 144", ok=False).trace()
    for worked, warns in [("pkill -f server; make up", False), ("pkill -f '[s]erver'; make up", True)]:
        (lesson,) = of_kind(learn_lessons([ended, CallLog("s1").run(worked, "up").trace()]), "harness")
        assert lesson.warns == warns


def test_a_vector_without_a_shell_ends_none() -> None:
    alone, script = ["pkill", "-f", "server"], ["sh", "-c", "pkill -f server"]

    def write(log: CallLog) -> None:
        log.call("Bash", {"command": alone}, "", ok=True)
        log.run("pkill -f server; make up", "Exit code 144", ok=False)

    (lesson,) = of_kind(learn(2, write), "harness")
    assert lesson.warns  # for what worked had no shell to end
    for command, is_warned in [(alone, False), (script, True)]:
        body: dict[str, object] = {"tool_name": "shell", "cwd": HOME, "tool_input": {"command": command}}
        assert (warn_before([lesson], "shell", body["tool_input"]) is not None) == is_warned
        assert concerns({key: str(value) for key, value in lesson.match.items()}, HOME, body) == is_warned


def test_a_call_that_went_on_after_the_shells_word_is_no_sign_that_the_shell_takes_such_words() -> None:
    def write(log: CallLog) -> None:
        log.fail("cat src/[id].ts", f"{UNMATCHED_WORD}src/[id].ts")
        log.run("ls src; cat src/[id].ts; ls", f"a\n{UNMATCHED_WORD}src/[id].ts\nb")

    (lesson,) = of_kind(learn(2, write), "harness")
    assert (lesson.failures, lesson.warns) == (2, True)


def test_a_pattern_in_what_a_call_prints_is_not_the_shells_word() -> None:
    line = "grep -rh 'no matches' --include=*.log logs"
    printed = "10:00 start\nzsh: no matches found: --include=*.log"
    assert not of_kind(learn(2, lambda log: log.run(line, printed)), "harness")


def test_quotes_are_put_where_the_shell_looks() -> None:
    error = "zsh: no matches found: {}"
    for line, word, quoted in (
        ("""echo 'a " b' "c --x=*.py d" e --x=*.py""", "--x=*.py", """echo 'a " b' "c --x=*.py d" e '--x=*.py'"""),
        ("git add src/[slug].astro", "src/[slug].astro", "git add 'src/[slug].astro'"),
        ("git show HEAD:src/[slug]/a.ts", "HEAD:src/[slug]/a.ts", "git show 'HEAD:src/[slug]/a.ts'"),
        (
            "grep -r a --x=*.py . | wc; grep -r b --x=*.py .",
            "--x=*.py",
            "grep -r a '--x=*.py' . | wc; grep -r b '--x=*.py' .",
        ),
        ("ls *.py; find . -name *.py", "*.py", None),
        ("rm -rf build[12]", "build[12]", None),
        ("find . -name *.py | xargs ls *.py", "*.py", "find . -name '*.py' | xargs ls *.py"),
        ("cat <<E\n--x=*.py\nE", "--x=*.py", None),
        ("-a=* " * 4000, "b?", None),
    ):
        answer = quote_pattern(line, error.format(word))
        assert (answer[1] if answer else None) == quoted
