"""The command line on a terminal, in a pipe, and with a person who answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import select
import signal
import subprocess
from collections.abc import Mapping

import pytest

from consolidator.database import Database
from consolidator.database.jsonb import escape
from tests.acceptance.command_line import PYTHON, CommandLine, fill_memory
from tests.support import (
    PATIENCE,
    assistant_response,
    call_and_result,
    in_thread,
    log_events,
    run_cli,
    user_message,
)

SECONDS_PER_INTERRUPT = 15  # until ^C is pressed again


def run_erase(environment: Mapping[str, str], answer: str, *words: str) -> tuple[int, str, str]:
    """Run `erase`, answer its question on a terminal, or press ^C; return exit code, stdout and stderr."""
    terminal, descriptor = pty.openpty()
    with subprocess.Popen(
        [*PYTHON, "erase", *words],
        env=dict(environment), stdin=descriptor, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            os.close(descriptor)
            assert process.stderr is not None
            printed = b""
            while not printed.endswith(b"[y/N]: "):
                assert select.select([process.stderr], [], [], PATIENCE)[0], printed
                piece = os.read(process.stderr.fileno(), 1)
                assert piece, printed
                printed += piece
            if answer != "^C":
                os.write(terminal, answer.encode())
            for _ in range(PATIENCE // SECONDS_PER_INTERRUPT):
                if answer == "^C":  # a signal between the question and the read is lost: send it again
                    process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=SECONDS_PER_INTERRUPT)
                    break
            out, err = process.communicate(timeout=SECONDS_PER_INTERRUPT)
        finally:
            process.kill()
            os.close(terminal)
    return process.returncode, out.decode(), (printed + err).decode()


def test_an_erasure_needs_a_persons_word(cli: CommandLine, dsn: str) -> None:
    asyncio.run(fill_memory(dsn))
    cli.patch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    code, out, err = cli("erase", "--session", "s0")
    assert (code, out) == (2, "")
    assert "--yes" in err
    assert cli("session", "events", "s0", "--json")[0] == 0


@pytest.mark.parametrize("answer", ["^C", "\x04", "n\n", "\n"])
def test_an_erasure_that_nobody_confirms_ends_and_erases_nothing(
    cli: CommandLine, dsn: str, environment: Mapping[str, str], answer: str
) -> None:
    asyncio.run(fill_memory(dsn))
    code, out, err = run_erase(environment, answer, "--session", "s0")
    assert (code, out) == (130, "")
    assert err.endswith("interrupted: nothing was erased\n")
    assert cli("session", "events", "s0")[0] == 0


def test_an_erasure_asks_on_stderr_and_answers_in_json_alone(
    cli: CommandLine, dsn: str, environment: Mapping[str, str]
) -> None:
    asyncio.run(fill_memory(dsn))
    code, out, err = run_erase(environment, "y\n", "--session", "s0", "--json")
    assert code == 0
    assert out.startswith("{")
    assert json.loads(out)["sessions"] == 1
    assert err.startswith("s0 ")
    assert cli("session", "events", "s0")[0] == 3


def test_lists_are_lines_of_cells_where_nobody_watches(cli: CommandLine, dsn: str) -> None:
    asyncio.run(fill_memory(dsn))
    for words in ("session list", "facts", "procedures --all", "solutions", "runs"):
        code, out, _ = cli(*words.split())
        assert code == 0
        assert out.strip(), words
        assert len({line.count("\t") for line in out.splitlines()}) == 1, words
        assert "\x1b" not in out


async def test_a_reader_that_goes_away_is_no_trouble(database: Database, environment: Mapping[str, str]) -> None:
    await log_events(database, "s", [user_message("x" * 2000) for _ in range(300)])
    for words in ("session events s --full", "session events s --json", "export"):
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
    await log_events(database, "s", [user_message("one"), user_message("two")])
    follow = await asyncio.create_subprocess_exec(
        *PYTHON, "session", "events", "s", "--follow", "--json", "--last", "1",
        env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert follow.stdout is not None
    assert follow.stderr is not None
    assert json.loads(await follow.stdout.readline())["data"]["text"] == "two"
    for text in ("three", "four"):
        await log_events(database, "s", [user_message(text)])
        assert json.loads(await follow.stdout.readline())["data"]["text"] == text
    follow.send_signal(signal.SIGINT)
    assert await follow.wait() == 130
    assert b"Traceback" not in await follow.stderr.read()


HOSTILE_TEXT = "\x1b]0;owned\x07\x1b[31mred[/bold] [link=http://x]click[/link] \u202eevil\x9b2J \ud800 \0 \x7f\rover"
FORBIDDEN_OUTPUT = ["\x1b]0;", "\x1b[31mred", "\x07", "\u202e", "\x9b", "\0", "\x7f", "\rover"]


def run_on_terminal(environment: Mapping[str, str], *words: str, width: int = 200) -> str:
    """Return everything that a command writes to a terminal."""
    terminal, descriptor = pty.openpty()
    shown = b""
    variables = {**environment, "TERM": "xterm-256color", "COLUMNS": str(width)}
    with subprocess.Popen(
        [*PYTHON, *words], env=variables, stdin=descriptor, stdout=descriptor, stderr=descriptor
    ) as process:
        os.close(descriptor)
        with contextlib.suppress(OSError):  # how Linux reports that the last writer closed it
            while piece := os.read(terminal, 65536):
                shown += piece
    os.close(terminal)
    assert process.returncode == 0, shown
    return shown.decode()


@pytest.mark.parametrize("width", [40, 99])
def test_a_narrow_terminal_breaks_no_word_of_a_list(environment: Mapping[str, str], dsn: str, width: int) -> None:
    ids = asyncio.run(fill_memory(dsn))
    expected = {
        "facts": [ids["fact"][:10], "sessions\u00a04", "prefers"],
        "session list": ["session\u00a0s0", "agent\u00a0coder"],
        "runs": [ids["run"][:10], "consolidation"],
    }
    for words, texts in expected.items():
        shown = run_on_terminal(environment, *words.split(), width=width)
        assert all(text in shown for text in texts), shown
        assert "─" not in shown
    assert "nothing waits for review" in run_on_terminal(environment, "facts", "--review", width=width)


def test_a_terminal_shows_each_procedure_in_lines_of_its_own(environment: Mapping[str, str], dsn: str) -> None:
    ids = asyncio.run(fill_memory(dsn))
    shown = run_on_terminal(environment, "procedures", "--all").splitlines()
    short_id = ids["procedure"][: len("p_") + 10]
    (below,) = [line for line in shown if short_id in line]
    assert "sessions · worked" in below
    assert ids["procedure"] not in below
    assert "seen in" in run_on_terminal(environment, "explain", short_id)
    assert "→" in shown[shown.index(below) - 1]


async def test_what_a_log_says_does_nothing_to_a_terminal(database: Database, environment: Mapping[str, str]) -> None:
    hostile_events = [
        user_message(f"I prefer tabs. {HOSTILE_TEXT}"),
        assistant_response(HOSTILE_TEXT),
        *call_and_result("c", HOSTILE_TEXT, {HOSTILE_TEXT: HOSTILE_TEXT}, HOSTILE_TEXT),
    ]
    await log_events(database, "s", hostile_events, project=f"/src/{escape(HOSTILE_TEXT)}", agent=escape(HOSTILE_TEXT))
    for words in (
        "session events s --full",
        "session events s --json",
        "session list",
        "session show s --part summary",
    ):
        shown = await in_thread(run_on_terminal, environment, *words.split())
        assert not [text for text in FORBIDDEN_OUTPUT if text in shown], words
        if "--json" not in words:
            assert "red[/bold] [link=http://x]" in shown, words
    piped = await in_thread(run_cli, "session", "events", "s", "--json", environment=environment)
    assert json.loads(piped.stdout.splitlines()[1])["data"]["text"] == HOSTILE_TEXT
