"""The command line as a person and a program meet it: clear errors, right exit codes, JSON that parses."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.main
from click.testing import CliRunner
from typer.core import TyperGroup

from consolidator.cli.app import app
from consolidator.cli.commands import WITHOUT_JSON
from tests.acceptance.command_line import CommandLine, fill_memory
from tests.databases import database_copy
from tests.support import (
    run_cli,
)

CONTEXT: Any = None  # which neither listing nor finding a command needs


def list_commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command and group with its words."""
    for name in group.list_commands(CONTEXT) if isinstance(group, TyperGroup) else ():
        command = group.get_command(CONTEXT, name)
        yield (*words, name), command
        yield from list_commands(command, (*words, name))


def test_help_of_every_command_says_what_it_does_and_explains_each_option() -> None:
    whole = typer.main.get_command(app)
    for words, command in list_commands(whole):
        shown = CliRunner().invoke(whole, [*words, "--help"])  # type: ignore[arg-type]  # a copy of click is in typer
        assert shown.exit_code == 0, words
        assert len((command.help or "").split()) >= 5, words
        for option in command.params:
            assert getattr(option, "help", None), f"{' '.join(words)}: {option.name}"


WRONG_USAGE = [
    "dance",
    "session list --no-such-option",
    "session list --limit 0",
    "session list --since tomorrowish",
    "session events",
    "fact",
    "facts --correct f --undo f",
    "rules --accept r --dismiss r",
    "session lts",
    "session lst",
    "session task s done --finish",
    "import --format no-such-format .",
    "export claude-code",
    "run dinner",
    "run consolidation --older-than 3d",
    "run retention --older-than soon",
    "run retention --older-than 0d",
    "run retention --older-than 23h --dry-run",
    "run retention --older-than 9999999d",
    "run retention --older-than ",
    "session list --since 99999999999d",
    "session list --since 9999999999999999999d",
    "session events s --after 99999999999999999999",
    "session events s --last 0",
    "import auto ",
    "export --output ",
    "procedures --export ",
    "runs --job dinner",
    "backfill --session ",
    "backfill --agent ",
    "erase --session ",
    "erase --peer ",
    "erase --log --peer p",
    "facts \udcff",
    "solutions --error \udcff",
    "backfill --only dreams",
    "erase",
    "erase --session s --peer p",
]


def test_words_that_do_not_fit_are_refused_with_what_would(cli: CommandLine) -> None:
    for words in WRONG_USAGE:
        code, out, err = cli(*words.split(" "))  # a blank at the end is an empty word
        assert (code, out) == (2, ""), words
        assert err.strip(), words
        assert "Traceback" not in err, words


UNKNOWN_NAMES = [
    "session events nobody",
    "session show nobody --part next",
    "session show nobody --part summary",
    "export --session nobody",
    "backfill --session nobody",
    "erase --session nobody --yes",
    "erase --peer nobody --yes",
    "explain nothing",
    "runs nothing",
    "runs nothing --retry",
    "import claude-code no/such/file",
]


def test_what_does_not_exist_is_named_in_one_line_and_nothing_is_printed(cli: CommandLine) -> None:
    for words in UNKNOWN_NAMES:
        code, out, err = cli(*words.split())
        assert (code, out) == (3, ""), words
        assert err.startswith("error: "), words
        assert err.count("\n") == 1, words
        assert any(name in err for name in ("nobody", "nothing", "no/such/file")), words


def test_a_database_that_cannot_be_reached_is_one_clear_line(environment: Mapping[str, str]) -> None:
    unreachable = {**environment, "CONSOLIDATOR_DATABASE_URL": "postgresql://ann:sesame@127.0.0.1:1/shop"}
    done = run_cli("session", "list", environment=unreachable, code=4)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: cannot connect to the database")
    assert "sesame" not in done.stderr


def test_an_address_that_is_none_is_one_clear_line_that_repeats_no_password(cli: CommandLine) -> None:
    for address in ("nonsense", "postgresql+psycopg://ann:sesame@db/shop", "postgresql://ann:sesame@db/shop?so=what"):
        cli.patch.setenv("CONSOLIDATOR_DATABASE_URL", address)
        code, out, err = cli("session", "list")
        assert (code, out) == (4, ""), address
        assert err.startswith("error: CONSOLIDATOR_DATABASE_URL")
        assert err.count("\n") == 1
        assert "sesame" not in err


def test_a_setting_that_does_not_fit_is_one_clear_line(environment: Mapping[str, str]) -> None:
    done = run_cli("session", "list", environment={**environment, "CONSOLIDATOR_TIMEZONE": "Nowhere"}, code=2)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "CONSOLIDATOR_TIMEZONE" in done.stderr
    assert "Europe/Berlin" in done.stderr


def test_every_program_reads_the_file_and_tells_of_what_it_does_not_know(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "consolidator" / "config.toml"
    file.parent.mkdir()
    file.write_text('modl = "small"\nopenai_api_key = "sk-sesame"\ntimezone = "Nowhere"\n')
    variables = {**environment, "XDG_CONFIG_HOME": str(tmp_path), "CONSOLIDATOR_WORKER": "3"}
    for words in ("session list", "serve", "mcp", "config"):
        done = run_cli(*words.split(), environment=variables, code=2)
        assert f"{file}:3: timezone" in done.stderr, words
    done = run_cli("config", environment={**variables, "CONSOLIDATOR_TIMEZONE": "UTC"})
    assert "\nmodel\t\tdefault\n" in done.stdout
    assert f"openai_api_key\t**********\t{file}:2\n" in done.stdout
    assert "sk-sesame" not in done.stdout + done.stderr
    assert done.stderr.splitlines() == [
        "warning: CONSOLIDATOR_WORKER is no setting; did you mean CONSOLIDATOR_WORKERS?",
        f"warning: {file}:1: modl is no setting; did you mean model?",
    ]


def write_claude_log(path: Path) -> str:
    """Write a log of Claude Code with one message, and return its path."""
    line = {
        "type": "user", "uuid": "u1", "sessionId": "imported", "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/src",
        "message": {"role": "user", "content": "hello"},
    }  # fmt: skip
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    return str(path)


def test_an_import_takes_a_path_first_and_fails_where_there_is_no_log(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n")
    (tmp_path / "empty").mkdir()
    log = write_claude_log(tmp_path / "log.jsonl")
    reasons = {
        f"import {tmp_path / 'notes.txt'}": "notes.txt is not a log of any known format",
        f"import {tmp_path / 'empty'}": "no file there has the name of a log",
        f"import --format codex {log}": "log.jsonl looks like claude-code, not codex",
        f"import --format claude-code {tmp_path / 'notes.txt'}": "notes.txt:1: not JSON",
    }
    for words, reason in reasons.items():
        code, _, err = cli(*words.split())
        assert (code, reason in err) == (6, True), f"{words}: {err}"
    assert cli("import", str(tmp_path / "none"))[0] == 3
    for arguments in (["import", log], ["import", "claude-code", log], ["import", "--format", "claude-code", log]):
        code, _, err = cli(*arguments)
        is_new = arguments[1] == log
        assert (code, "the next night learns from it" in err, len(err.splitlines())) == (0, is_new, is_new), arguments
    beside_others = json.loads(cli("import", str(tmp_path), "--json")[1])
    assert beside_others["unchanged"] == 1


JSON_COMMANDS = [
    "session list", "session events s0", "facts", "facts --all", "procedures", "solutions",
    "solutions --error ModuleNotFoundError", "learned", "learned --since 7d", "commands",
    "commands test", "friction", "lessons", "blame README.md", "brief",
    "brief hello --moment prompt", "explain {fact}", "explain {procedure}", "explain {solution}",
    "session show s0 --part next", "session show s0 --part summary", "runs", "runs {run}", "db info", "db verify",
    "db info --seals", "run reindex", "run import", "run consolidation", "run retention", "run retention --dry-run",
    "runs --retry", "backfill", "backfill --dry-run", "backfill --reprocess", "import {log}",
    "erase --session s3 --yes", "erase --log", "procedures search make", "facts search short answers",
    "facts --rejected", "recall ModuleNotFoundError", "facts --review", "session events s0 --as replay",
    "session wake --all", "session context s0", "cost", "session compact s0", "session compact s0 --history",
    "session list --attention", "facts --flagged", "revisions", "remember we use tabs --agent coder",
    "forget use tabs", "rules", "facts --correct {fact} Short.", "facts --undo {fact}", "forget {fact}",
    "token create laptop --scope read", "token list", "token revoke laptop", "db upgrade",
    "db backup {folder}/backup", "memory export --output {folder}/memory.jsonl",
    "memory import {folder}/memory.jsonl", "agent set desk max_steps=5", "agent show", "agent show desk",
    "session create --agent desk", "session show s0", "session task s0 Fix", "session task s0",
    "session task s0 success --finish", "session show s0 --part state", "session notes s0",
    "session show s0 --part whole", "session fork s0", "session branch s0", "session branch s0 --list",
    "session checkpoint s0", "session checkpoint s0 --list", "session end s1", "config", "status", "compile",
    "agent set desk --delete", "procedures --export {folder}/skills --all",
]  # fmt: skip


JSON_COMMANDS_TESTED_ELSEWHERE = {
    ("demo",),
    ("doctor",),
    ("prove",),
    ("proxy",),
    ("ui",),
    ("db", "restore"),
    ("call",),
    ("memory", "sync"),
    *(("session", word) for word in ("diff", "rerun", "spawn", "say")),
}  # tests of their own


def test_memory_of_another_installation_is_fetched_over_ssh(
    cli: CommandLine, server_dsn: str, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database_copy(server_dsn, template) as theirs:
        asyncio.run(fill_memory(theirs))
        ssh, laptop = tmp_path / "ssh", f"CONSOLIDATOR_HOME={tmp_path / 'laptop'} CONSOLIDATOR_DATABASE_URL='{theirs}'"
        ssh.write_text(f'#!/bin/sh\n{laptop} exec sh -c "{sys.executable} -m $4"\n')  # -T -- HOST COMMAND
        ssh.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        code, out, err = cli("memory", "sync", "laptop", "--json")
        assert code == 0, err
        received = json.loads(out)
        assert (received["is_signed"], received["known"], received["held"]) == (True, 0, 0)
        assert received["new"] > 0
        assert "short answers" in cli("facts", "--json")[1]
        again = json.loads(cli("memory", "sync", "laptop", "--json")[1])
        assert (again["new"], again["known"]) == (0, received["new"])


def test_everything_that_speaks_json_speaks_it_alone_and_whole(cli: CommandLine, dsn: str, tmp_path: Any) -> None:
    ids = {**asyncio.run(fill_memory(dsn)), "log": write_claude_log(tmp_path / "log.jsonl"), "folder": tmp_path}
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    for words in JSON_COMMANDS:
        code, out, err = cli(*words.format(**ids).split(), "--json")
        assert code == 0, f"{words}: {err}"
        for text in out.splitlines() if "events" in words else [out]:
            json.loads(text)
        assert out.strip(), words
    capable = {
        words
        for words, command in list_commands(typer.main.get_command(app))
        if not isinstance(command, TyperGroup) and words[0] not in WITHOUT_JSON
    }
    tried = {tuple(words.split()) for words in JSON_COMMANDS}
    assert all(
        any(tried_words[: len(words)] == words for tried_words in tried)
        for words in capable - JSON_COMMANDS_TESTED_ELSEWHERE
    )
