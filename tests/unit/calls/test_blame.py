"""Which program of a line failed is read from what the line printed."""

from __future__ import annotations

import pytest

from consolidator.memory.calls.blame import find_blamed
from consolidator.memory.calls.operation import failed_symbol
from consolidator.memory.calls.shell import parse_commands
from consolidator.memory.lessons.segments import judge_segments, split_line

LINES = [
    # an error names the program
    ("gh api repos/a/b | jq '.[] | x'", "jq: error: syntax error, unexpected INVALID_CHARACTER", "jq"),
    ("sed -i s/a/b/ x.go && gofmt -w x.go && go test ./...", "sed: can't read x.go: No such file or directory", "sed"),
    ("gh api repos/a/b --jq .content | base64 -d", "gh: No commit found (HTTP 404)\nbase64: invalid input", "gh api"),
    ("go build ./... && frob x", "zsh: command not found: frob", "frob"),
    # code that was given on the line
    ('python -c "\nx\n" && cd src && go build . ; rm x', '  File "<string>", line 1\nIndentationError: x', "python"),
    ("tool 2>/dev/null; node -e 'x y'", "[eval]:1\nx y\n  ^\nSyntaxError: Unexpected identifier", "node"),
    # an error names a word that the program was given
    (
        "git add src/a.go && git status && git commit --amend && rm ../x.exe",
        "fatal: pathspec 'src/a.go' did not match any files",
        "git add",
    ),
    ("gh run view 1 && gh pr view 7 --json title,baseRefOid", 'Unknown JSON field: "baseRefOid"', "gh pr view"),
    ("git add e2e && git status --cached && git diff --stat", "error: unknown option `cached'", "git status"),
    ("git stash && git checkout main && git pull", "fatal: 'main' is already used by worktree at '/x'", "git checkout"),
    ("git remote -v && ls .goreleaser*", "origin\tx (fetch)\n(eval):1: no matches found: .goreleaser*", "ls"),
    (
        "bun run lint && bun run typecheck",
        '$ biome check\n$ x\nerror: script "lint" exited',
        "bun run lint",
    ),
    # what was reached
    ("git fetch origin && git rebase origin/main", "Rebasing (1/4)\nerror: could not apply ad0c095", "git rebase"),
    ("git add a && git commit -m x && git push", "[main be93] x\nTo github.com:a/b\n ! [rejected]", "git push"),
    (
        "mise run fmt && mise run lint && mise run test",
        "[fmt] $ gofmt\n[lint:go] $ lint",
        "mise run lint",
    ),
    ("bun run lint && bun run test", "$ biome check\nChecked 3 files\n$ bun test\n1 fail", "bun run test"),
    ("go build ./... && go test ./...", "# a/b [a/b.test]\nx_test.go:1: undefined: y", "go test"),
    ("make a && echo done a && make b", "done a\n2 problems", "make b"),
    ("make && echo built && ./deploy now", "built\nno route", "deploy"),
    # what fails without a word of its own did not fail
    ("rm -f bin/x && go build -o bin/x .", "go.mod file not found", "go build"),
    ("git add x && git commit -m y", "lint found 2 problems", "git commit"),
    ("git commit -m x && git status", "", "git commit"),
    # the exit status is that of what stands after the last semicolon
    ("git stash push x && go test ./... | tail -3; git stash pop", "PASS\nNo stash entries found.", "git stash pop"),
    ("git show x && cat a | grep y", "Exit code 1", "grep"),
]


@pytest.mark.parametrize(("line", "output", "program"), LINES)
def test_what_an_output_says_failed(line: str, output: str, program: str) -> None:
    commands = parse_commands(line)
    blamed = find_blamed(commands, output)
    assert blamed is not None
    assert commands[blamed].name == program


@pytest.mark.parametrize(("line", "output", "program"), LINES)
def test_lessons_and_solutions_blame_the_same(line: str, output: str, program: str) -> None:
    outcomes = judge_segments(split_line(line, None)[0], line, False, output, False)
    assert split_line(line, None)[0][outcomes.index(False)].operation == program
    assert failed_symbol("Bash", {"command": line}, output) == f"sh:{program}"


def test_of_a_hidden_failure_what_was_hidden_is_blamed() -> None:
    commands = parse_commands("git stash && lint a.md | tail -5; git stash pop")
    assert find_blamed(commands, "a.md:1 error MD013", is_masked=True) == 1


def test_a_line_without_programs_blames_none() -> None:
    assert find_blamed([], "error") is None
