"""The command line as a person, a pipe and a program meet it: clear words, right exit codes, JSON that parses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from consolidator.cli.app import app, main
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.database.jsonb import escape
from consolidator.settings import Settings
from consolidator.store import recall
from tests.conftest import NOON
from tests.support import answered, command, in_thread, later, logged, night, said, step

PYTHON = [sys.executable, "-m", "consolidator"]


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words, groups too."""
    for name, one in getattr(group, "commands", {}).items():
        yield (*words, name), one
        yield from commands(one, (*words, name))


@dataclass
class Here:
    """Runs the command line in this process, which is faster."""

    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        self.patch.setattr(sys, "argv", ["consolidator", *words])
        self.capture.readouterr()
        try:
            main()
            code: Any = 0
        except SystemExit as ended:
            code = ended.code or 0
        told = self.capture.readouterr()
        return code, told.out, told.err


@pytest.fixture
def here(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """The command line on the test's database."""
    for name, value in environment.items():
        if name.startswith(("CONSOLIDATOR_", "HOME")):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    return Here(capsys, monkeypatch)


def test_help_of_every_command_says_what_it_does_and_explains_each_option() -> None:
    for words, one in commands(typer.main.get_command(app)):
        shown = CliRunner().invoke(app, [*words, "--help"])
        assert shown.exit_code == 0, words
        assert len((one.help or "").split()) >= 5, words
        for option in one.params:
            assert getattr(option, "help", None), f"{' '.join(words)}: {option.name}"


WRONG = [
    "dance",
    "sessions --no-such-option",
    "sessions --limit 0",
    "sessions --since tomorrowish",
    "events",
    "import no-such-format",
    "export claude-code",
    "run dinner",
    "run consolidation --older-than 3d",
    "run retention --older-than soon",
    "backfill --only dreams",
    "erase",
    "erase --session s --peer p",
    "procedures export --format poem somewhere",
]


def test_words_that_do_not_fit_are_refused_with_what_would(here: Here) -> None:
    for words in WRONG:
        code, out, err = here(*words.split())
        assert (code, out) == (2, ""), words
        assert err.strip(), words
        assert "Traceback" not in err, words


UNKNOWN = [
    "events nobody",
    "next nobody",
    "summary nobody",
    "export --session nobody",
    "backfill --session nobody",
    "erase --session nobody --yes",
    "erase --peer nobody --yes",
    "explain nothing",
    "runs show nothing",
    "import claude-code no/such/file",
]


def test_what_does_not_exist_is_named_in_one_line_and_nothing_is_printed(here: Here) -> None:
    for words in UNKNOWN:
        code, out, err = here(*words.split())
        assert (code, out) == (3, ""), words
        assert err.startswith("error: "), words
        assert err.count("\n") == 1, words
        assert any(name in err for name in ("nobody", "nothing", "no/such/file")), words


def test_an_erasure_needs_a_persons_word(here: Here, dsn: str) -> None:
    asyncio.run(remember(dsn))
    here.patch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    code, out, err = here("erase", "--session", "s0")
    assert (code, out) == (2, "")
    assert "--yes" in err
    assert here("events", "s0", "--json")[0] == 0


def test_a_database_that_cannot_be_reached_is_one_clear_line(environment: Mapping[str, str]) -> None:
    nowhere = {**environment, "CONSOLIDATOR_DATABASE_URL": "postgresql://ann:sesame@127.0.0.1:1/shop"}
    done = command("sessions", environment=nowhere, code=4)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: cannot connect to the database")
    assert "sesame" not in done.stderr


def test_a_setting_that_does_not_fit_is_one_clear_line(environment: Mapping[str, str]) -> None:
    done = command("sessions", environment={**environment, "CONSOLIDATOR_TIMEZONE": "Nowhere"}, code=2)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "CONSOLIDATOR_TIMEZONE" in done.stderr
    assert "Europe/Berlin" in done.stderr


async def remember(dsn: str) -> dict[str, str]:
    """Fill the log, let a night pass, and return the ids of a fact, a procedure, a solution and the run."""
    database = Database(dsn, FrozenClock(NOON))
    for n in range(4):
        await logged(
            database, f"s{n}",
            [
                said("I prefer short answers. Please repair the build."),
                *step("a", "Read", {"file_path": f"/src/{n}.py"}),
                *step("b", "Bash", {"command": "make test"}, "ModuleNotFoundError: No module named 'foo'", "error"),
                *step("c", "Bash", {"command": "pip install foo"}),
                *step("d", "Bash", {"command": "make test"}),
                *step("e", "Bash", {"command": "git commit -m done"}),
            ],
            project="/src",
        )  # fmt: skip
    assert isinstance(database.clock, FrozenClock)
    database.clock.set(later(NOON, hours=2))
    done = await night(database, Settings(workers=2))
    async with database.connection() as conn:
        found = {
            "fact": (await recall.facts(conn))[0]["id"],
            "procedure": (await recall.procedures(conn))[0]["id"],
            "solution": (await recall.solutions(conn))[0]["id"],
            "run": done["run"],
        }
    await database.close()
    return found


IN_JSON = [
    "sessions", "events s0", "facts", "facts --all", "procedures", "solutions", "solutions --error ModuleNotFoundError",
    "explain {fact}", "explain {procedure}", "explain {solution}", "next s0", "summary s0", "runs", "runs show {run}",
    "db info", "db verify", "run import", "run consolidation", "run retention", "run retention --dry-run", "retry",
    "backfill", "backfill --dry-run", "backfill --reprocess", "import consolidator {empty}", "erase --session s3 --yes",
]  # fmt: skip
ELSEWHERE = {("demo",)}  # with tests of its own


def test_everything_that_speaks_json_speaks_it_alone_and_whole(here: Here, dsn: str, tmp_path: Any) -> None:
    names = {**asyncio.run(remember(dsn)), "empty": str(tmp_path)}
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    for words in IN_JSON:
        code, out, err = here(*words.format(**names).split(), "--json")
        assert code == 0, f"{words}: {err}"
        for text in out.splitlines() if words.startswith("events") else [out]:
            json.loads(text)
        assert out.strip(), words
    capable = {
        words for words, one in commands(typer.main.get_command(app)) if any("--json" in p.opts for p in one.params)
    }
    tried = {tuple(words.split()) for words in IN_JSON}
    assert all(any(one[: len(words)] == words for one in tried) for words in capable - ELSEWHERE)


def test_lists_are_lines_of_cells_where_nobody_watches(here: Here, dsn: str) -> None:
    asyncio.run(remember(dsn))
    for words in ("sessions", "facts", "procedures", "solutions", "runs"):
        code, out, _ = here(words)
        assert code == 0
        assert out.strip(), words
        assert len({line.count("\t") for line in out.splitlines()}) == 1, words
        assert "\x1b" not in out


async def test_a_reader_that_goes_away_is_no_trouble(database: Database, environment: Mapping[str, str]) -> None:
    await logged(database, "s", [said("x" * 2000) for _ in range(300)])
    for words in ("events s --full", "events s --json", "export"):
        pipe = f"{' '.join(PYTHON)} {words} | head -n 1"
        done = await in_thread(
            subprocess.run,
            ["bash", "-o", "pipefail", "-c", pipe],
            env=dict(environment),
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, ""), words
        assert done.stdout.count("\n") == 1


async def test_following_a_session_shows_what_comes_until_one_has_seen_enough(
    database: Database, environment: Mapping[str, str]
) -> None:
    await logged(database, "s", [said("one"), said("two")])
    follow = await asyncio.create_subprocess_exec(
        *PYTHON, "events", "s", "--follow", "--json", "--last", "1",
        env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert follow.stdout is not None
    assert follow.stderr is not None
    assert json.loads(await follow.stdout.readline())["data"]["text"] == "two"
    for text in ("three", "four"):
        await logged(database, "s", [said(text)])
        assert json.loads(await follow.stdout.readline())["data"]["text"] == text
    follow.send_signal(signal.SIGINT)
    assert await follow.wait() == 130
    assert b"Traceback" not in await follow.stderr.read()


HOSTILE = "\x1b]0;owned\x07\x1b[31mred[/bold] [link=http://x]click[/link] \u202eevil\x9b2J \ud800 \0 \x7f\rover"
NEVER = ["\x1b]0;", "\x1b[31mred", "\x07", "\u202e", "\x9b", "\0", "\x7f", "\rover"]


def on_a_terminal(environment: Mapping[str, str], *words: str) -> str:
    """What a command writes to a terminal, all of it."""
    ours, theirs = pty.openpty()
    shown = b""
    terminal = {**environment, "TERM": "xterm-256color", "COLUMNS": "200"}
    with subprocess.Popen([*PYTHON, *words], env=terminal, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # Linux says so when the last writer has closed it
            while piece := os.read(ours, 65536):
                shown += piece
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode()


async def test_what_a_log_says_does_nothing_to_a_terminal(database: Database, environment: Mapping[str, str]) -> None:
    said_so = [said(f"I prefer tabs. {HOSTILE}"), answered(HOSTILE), *step("c", HOSTILE, {HOSTILE: HOSTILE}, HOSTILE)]
    await logged(database, "s", said_so, project=f"/src/{escape(HOSTILE)}", agent=escape(HOSTILE))
    for words in ("events s --full", "events s --json", "sessions", "summary s"):
        shown = await in_thread(on_a_terminal, environment, *words.split())
        assert not [bad for bad in NEVER if bad in shown], words
        if "--json" not in words:
            assert "red[/bold] [link=http://x]" in shown, words
    piped = await in_thread(command, "events", "s", "--json", environment=environment)
    assert json.loads(piped.stdout.splitlines()[1])["data"]["text"] == HOSTILE
