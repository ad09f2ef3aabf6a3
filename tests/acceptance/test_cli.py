"""The command line as a person, a pipe and a program meet it: clear words, right exit codes, JSON that parses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import typer.main
from typer.testing import CliRunner

from consolidator.cli.app import app, main
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.database.jsonb import escape
from consolidator.settings import Settings
from consolidator.store.memory import lookup
from tests.conftest import NOON
from tests.support import PATIENCE, answered, command, in_thread, later, logged, night, said, step

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
    "run retention --older-than 0d",
    "run retention --older-than 23h --dry-run",
    "run retention --older-than 9999999d",
    "run retention --older-than ",
    "sessions --since 99999999999d",
    "sessions --since 9999999999999999999d",
    "events s --after 99999999999999999999",
    "events s --last 0",
    "import auto ",
    "export --output ",
    "procedures export ",
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
    "procedures export --format poem somewhere",
]


def test_words_that_do_not_fit_are_refused_with_what_would(here: Here) -> None:
    for words in WRONG:
        code, out, err = here(*words.split(" "))  # a blank at the end is an empty word
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
    "retry nothing",
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


EACH = 15  # seconds until ^C is pressed again


def erasing(environment: Mapping[str, str], answer: str, *words: str) -> tuple[int, str, str]:
    """Erase, and when asked on a terminal type an answer, or ^C; return exit code, stdout and stderr."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PYTHON, "erase", *words],
        env=dict(environment), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as asked:  # fmt: skip
        try:
            os.close(theirs)
            assert asked.stderr is not None
            told = b""
            while not told.endswith(b"[y/N]: "):
                assert select.select([asked.stderr], [], [], PATIENCE)[0], told
                piece = os.read(asked.stderr.fileno(), 1)
                assert piece, told
                told += piece
            if answer != "^C":
                os.write(ours, answer.encode())
            for _ in range(PATIENCE // EACH):
                if answer == "^C":  # one that falls between the question and the read is heard with the next
                    asked.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    asked.wait(timeout=EACH)
                    break
            out, err = asked.communicate(timeout=EACH)
        finally:
            asked.kill()
            os.close(ours)
    return asked.returncode, out.decode(), (told + err).decode()


@pytest.mark.parametrize("answer", ["^C", "\x04", "n\n", "\n"])
def test_an_erasure_that_nobody_confirms_ends_and_erases_nothing(
    here: Here, dsn: str, environment: Mapping[str, str], answer: str
) -> None:
    asyncio.run(remember(dsn))
    code, out, err = erasing(environment, answer, "--session", "s0")
    assert (code, out) == (130, "")
    assert err.endswith("interrupted: nothing was erased\n")
    assert here("events", "s0")[0] == 0


def test_an_erasure_asks_on_stderr_and_answers_in_json_alone(
    here: Here, dsn: str, environment: Mapping[str, str]
) -> None:
    asyncio.run(remember(dsn))
    code, out, err = erasing(environment, "y\n", "--session", "s0", "--json")
    assert code == 0
    assert out.startswith("{")
    assert json.loads(out)["sessions"] == 1
    assert err.startswith("s0 ")
    assert here("events", "s0")[0] == 3


def test_what_usually_follows_may_be_nothing_however_it_is_asked(here: Here, dsn: str) -> None:
    asyncio.run(remember(dsn))
    asyncio.run(begin(dsn))
    assert json.loads(here("next", "fresh", "--json")[1]) == []
    code, out, _ = here("next", "fresh")
    assert (code, out) == (0, "nothing usually follows: too few sessions have been where this one is\n")


async def begin(dsn: str) -> None:
    """Begin a session where none has been."""
    database = Database(dsn, FrozenClock(NOON))
    await logged(database, "fresh", [said("hello")], agent="newcomer")
    await database.close()


def test_a_database_that_cannot_be_reached_is_one_clear_line(environment: Mapping[str, str]) -> None:
    nowhere = {**environment, "CONSOLIDATOR_DATABASE_URL": "postgresql://ann:sesame@127.0.0.1:1/shop"}
    done = command("sessions", environment=nowhere, code=4)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: cannot connect to the database")
    assert "sesame" not in done.stderr


def test_an_address_that_is_none_is_one_clear_line_that_repeats_no_password(here: Here) -> None:
    for address in ("nonsense", "postgresql+psycopg://ann:sesame@db/shop", "postgresql://ann:sesame@db/shop?so=what"):
        here.patch.setenv("CONSOLIDATOR_DATABASE_URL", address)
        code, out, err = here("sessions")
        assert (code, out) == (4, ""), address
        assert err.startswith("error: CONSOLIDATOR_DATABASE_URL")
        assert err.count("\n") == 1
        assert "sesame" not in err


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
            "fact": (await lookup.facts(conn))[0]["id"],
            "procedure": (await lookup.procedures(conn))[0]["id"],
            "solution": (await lookup.solutions(conn))[0]["id"],
            "run": done["run"],
        }
    await database.close()
    return found


IN_JSON = [
    "sessions", "events s0", "facts", "facts --all", "procedures", "solutions", "solutions --error ModuleNotFoundError",
    "learned", "learned --since 7d",
    "explain {fact}", "explain {procedure}", "explain {solution}", "next s0", "summary s0",
    "runs", "runs show {run}", "db info", "db verify", "db reindex", "run import", "run consolidation", "run retention",
    "run retention --dry-run", "retry", "backfill", "backfill --dry-run", "backfill --reprocess",
    "import consolidator {empty}", "erase --session s3 --yes",
    "erase --log", "procedures make", "facts --rejected", "recall ModuleNotFoundError", "facts review",
    "replay s0", "wake --all", "context s0", "cost", "compact s0", "compact s0 --history", "sessions --attention",
    "facts --flagged", "generations",
    "facts correct {fact} Short.", "facts forget {fact}",
]  # fmt: skip
ELSEWHERE = {
    ("demo",),
    *(("generations", word) for word in ("show", "promote", "discard", "restore")),
}  # tests of their own


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


def test_procedures_are_asked_for_words_and_exported_by_the_same_command(here: Here, dsn: str, tmp_path: Any) -> None:
    known = asyncio.run(remember(dsn))
    for words in (["git commit"], ["git", "commit", "--agent", "coder"], ["git", "--agent", "coder", "commit"]):
        assert known["procedure"] in here("procedures", *words)[1], words
    for words in (["no such words"], ["git commit", "--agent", "nobody"], ["--", "export"]):
        assert here("procedures", *words)[:2] == (0, ""), words
    code, out, _ = here("procedures", "export", str(tmp_path / "skills"), "--limit", "1")
    assert (code, out) == (0, f"1 skills in {tmp_path / 'skills'}\n")
    (tmp_path / "file").touch()
    assert here("procedures", "export", str(tmp_path / "file"))[0] == 2


def test_several_words_are_one_query_with_and_without_quotes(here: Here, dsn: str) -> None:
    asyncio.run(remember(dsn))
    asked = {"facts": "short answers", "solutions": "named foo", "recall": "short answers please"}
    for name, query in asked.items():
        quoted = here(name, query, "--agent", "coder")
        assert quoted[1].strip(), name
        assert here(name, *query.split(), "--agent", "coder") == quoted, name
        assert here(name, "--agent", "coder", *query.split()) == quoted, name


def test_memory_is_asked_and_answers_with_a_block_and_citations(here: Here, dsn: str) -> None:
    known = asyncio.run(remember(dsn))
    code, out, _ = here("recall", "ModuleNotFoundError: No module named 'foo'", "--agent", "coder")
    assert code == 0
    assert f"[solution:{known['solution']}]" in out.splitlines()[2]
    found = json.loads(here("recall", "ModuleNotFoundError: No module named 'foo'", "--json")[1])
    assert found["items"][0]["id"] == known["solution"]
    assert here("recall", "zebras")[:2] == (0, "nothing is known of that\n")


def test_filters_count_wherever_they_are_taken(here: Here, dsn: str) -> None:
    asyncio.run(remember(dsn))
    asyncio.run(refuse(dsn))
    error = ["solutions", "--error", "ModuleNotFoundError: No module named 'foo'"]
    for words in (error, [*error, "--tool", "Bash"], ["facts", "--rejected"]):
        project = "/elsewhere" if "--rejected" in words else "/src"
        agent = "other" if "--rejected" in words else "coder"
        assert here(*words)[1].strip(), words
        assert here(*words, "--agent", agent, "--project", project)[1].strip(), words
        assert here(*words, "--agent", "nobody")[:2] == (0, ""), words
        assert here(*words, "--project", "/nowhere")[:2] == (0, ""), words
    assert here("facts", "--rejected", "secret word")[1].strip()
    assert here("facts", "--rejected", "--peer", "ann")[1].strip()
    assert here("facts", "--rejected", "elephant")[:2] == (0, "")
    assert here("facts", "--rejected", "--peer", "bob")[:2] == (0, "")


async def refuse(dsn: str) -> None:
    """Put a candidate beside the facts that may not become one."""
    database = Database(dsn, FrozenClock(NOON))
    async with database.transaction() as conn:
        await conn.execute(
            "insert into candidate select (jsonb_populate_record(c, jsonb_build_object("
            "'id', 'c_refused', 'agent', 'other', 'project', '/elsewhere', 'peer', 'ann', "
            "'quote', 'the secret word', 'rejected', 'contains a secret'))).* from candidate c limit 1"
        )
        await conn.execute(
            "insert into candidate select (jsonb_populate_record(c, jsonb_build_object("
            "'id', 'c_vague', 'rejected', 'a question'))).* from candidate c, fact f "
            "where c.agent = f.agent and c.subject = f.subject and c.predicate = f.predicate "
            "and c.rejected is null limit 1"
        )
    await database.close()


def test_an_explanation_names_extractor_rejections_and_what_published_it(here: Here, dsn: str) -> None:
    known = asyncio.run(remember(dsn))
    asyncio.run(refuse(dsn))
    told = json.loads(here("explain", known["fact"], "--json")[1])
    shown = here("explain", known["fact"])[1]
    assert f"extracted by {told['extractors'][0]}\n" in shown
    assert "1 rejected: 1 a question\n" in shown
    assert f"by run {known['run']}\n" in shown
    with psycopg.connect(dsn) as conn:
        conn.execute("update consolidator.procedure set run_id = 'retry'")
        conn.execute("update consolidator.solution set run_id = 'erase'")
    assert here("explain", known["procedure"])[1].endswith(" by a retry\n")
    assert here("explain", known["solution"])[1].endswith(" after an erasure\n")


def test_an_export_that_fails_leaves_the_file_as_it_was(here: Here, dsn: str, tmp_path: Any) -> None:
    asyncio.run(remember(dsn))
    file = tmp_path / "log.jsonl"
    file.write_text("precious")
    file.chmod(0o600)
    for words in (["claude-code"], ["no-such-format"], ["--session", "nobody"]):
        assert here("export", *words, "-o", str(file))[0] in (2, 3)
        assert file.read_text() == "precious", words
    (tmp_path / "link").symlink_to(file)
    assert here("export", "-o", str(tmp_path / "link"))[0] == 0
    assert file.read_text() == here("export")[1]
    assert (file.stat().st_mode & 0o777, (tmp_path / "link").is_symlink()) == (0o600, True)
    assert not list(tmp_path.glob(".*.part"))
    assert here("export", "-o", str(tmp_path / "no" / "log.jsonl"))[0] == 2
    assert here("export", "-o", str(tmp_path / ("x" * 5000)))[0] == 2
    assert here("export", "-o", "/dev/null")[0] == 0


def test_what_was_erased_can_be_listed_with_the_reason(here: Here, dsn: str) -> None:
    asyncio.run(remember(dsn))
    assert here("erase", "--log")[:2] == (0, "")
    assert here("erase", "--session", "s0", "--reason", "asked by ada", "--yes")[0] == 0
    (line,) = here("erase", "--log")[1].splitlines()
    assert line.split("\t")[1:3] == ["s0", "11"]
    assert line.endswith("\tasked by ada")


def test_every_open_dead_letter_is_tried_however_many_there_are(here: Here, dsn: str) -> None:
    run = asyncio.run(remember(dsn))["run"]
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "insert into consolidator.dead_letter (id, run_id, session_id, seq, extractor, error, created_at) "
            "select 'letter-' || n, %s, 'gone', n, 'facts', 'lost', now() from generate_series(1, 450) as n",
            [run],
        )
    assert here("retry", "letter-1")[0] == 7
    code, out, _ = here("retry", run)
    assert (code, out) == (7, "0 settled, 450 still cannot be learned from\n")  # in vain: nothing hides behind these
    assert here("retry", "letter-2", "--discard")[:2] == (0, "1 settled, 0 still cannot be learned from\n")
    assert here("retry", "letter-2")[:2] == (0, "0 settled, 0 still cannot be learned from\n")
    assert here("retry", "--discard")[:2] == (0, "449 settled, 0 still cannot be learned from\n")


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


def test_a_terminal_is_told_of_each_procedure_in_lines_of_its_own(environment: Mapping[str, str], dsn: str) -> None:
    known = asyncio.run(remember(dsn))
    shown = on_a_terminal(environment, "procedures").splitlines()
    (below,) = [line for line in shown if known["procedure"] in line]
    assert "sessions · worked" in below
    assert "→" in shown[shown.index(below) - 1]


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
