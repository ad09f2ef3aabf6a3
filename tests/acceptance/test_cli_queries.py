"""The commands that ask memory and the log: filters, queries, exports, dead letters."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.settings import Settings
from tests.acceptance.command_line import MISSING_MODULE, CommandLine, add_rejected_candidates, fill_memory
from tests.conftest import NOON
from tests.support import later, log_events, run_job, user_message


def test_what_usually_follows_may_be_nothing_however_it_is_asked(cli: CommandLine, dsn: str) -> None:
    asyncio.run(fill_memory(dsn))
    asyncio.run(start_fresh_session(dsn))
    assert json.loads(cli("session", "show", "fresh", "--part", "next", "--json")[1]) == []
    assert cli("session", "show", "fresh", "--part", "next")[:2] == (
        0,
        "no prediction: too few sessions contain this sequence\n",
    )


async def start_fresh_session(dsn: str) -> None:
    """Start a session of an agent that has no procedures."""
    database = Database(dsn, FrozenClock(NOON))
    await log_events(database, "fresh", [user_message("hello")], agent="newcomer")
    await database.close()


def test_procedures_are_asked_for_words_and_exported_by_the_same_command(
    cli: CommandLine, dsn: str, tmp_path: Any
) -> None:
    ids = asyncio.run(fill_memory(dsn))
    for words in (
        ["git commit"],
        ["search", "git", "commit", "--agent", "coder"],
        ["search", "git", "--agent", "coder", "commit"],
    ):
        assert ids["procedure"] in cli("procedures", "--all", *words)[1], words
    assert ids["procedure"] in cli("procedures", "git commit")[1]  # what is always the same is worth telling, too
    for words in (["no such words"], ["git commit", "--agent", "nobody"], ["--", "export"]):
        assert cli("procedures", "--all", *words)[:2] == (0, ""), words
    code, out, _ = cli("procedures", "--export", str(tmp_path / "skills"), "--limit", "1", "--all")
    assert (code, out) == (0, f"1 skill in {tmp_path / 'skills'}\n")
    (tmp_path / "file").touch()
    assert cli("procedures", "--export", str(tmp_path / "file"))[0] == 2


def test_several_words_are_one_query_with_and_without_quotes(cli: CommandLine, dsn: str) -> None:
    asyncio.run(fill_memory(dsn))
    queries = {"facts": "short answers", "solutions": "named foo", "recall": "short answers please"}
    for name, query in queries.items():
        quoted = cli(name, query, "--agent", "coder")
        assert quoted[1].strip(), name
        forms = {"facts": [["facts", "search"]], "solutions": [["solutions"], ["solutions", "search"]]}
        for search in forms.get(name, [[name]]):
            assert cli(*search, *query.split(), "--agent", "coder") == quoted, name
            assert cli(*search, "--agent", "coder", *query.split()) == quoted, name


def test_a_word_that_is_no_command_is_an_error_that_says_what_to_type(cli: CommandLine) -> None:
    tries = {
        "fact": "`consolidator facts`",
        "search tabs": "`consolidator recall`",
        "session shw": "`consolidator session show`",
        "branch": "`consolidator session branch`",
        "zebra": "`consolidator --help`",
    }
    for words, advice in tries.items():
        code, out, err = cli(*words.split())
        assert (code, out) == (2, ""), words
        assert advice in err, words


def test_memory_is_asked_and_answers_with_a_block_and_citations(cli: CommandLine, dsn: str) -> None:
    ids = asyncio.run(fill_memory(dsn))
    code, out, _ = cli("recall", MISSING_MODULE, "--agent", "coder", "--everywhere")
    assert code == 0
    assert f"[solution:{ids['solution'][:12]}]" in out.splitlines()[2]
    result = json.loads(cli("recall", MISSING_MODULE, "--json", "--project", "/src")[1])
    assert result["items"][0]["id"] == ids["solution"]
    assert cli("recall", "zebras", "--everywhere")[:2] == (0, "nothing known\n")
    assert cli("recall", "zebras", "--everywhere", "--project", "/src")[0] == 2


def test_recall_is_about_the_project_of_the_working_directory(
    cli: CommandLine, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(fill_projects(dsn, tmp_path))
    for place, port in (("shop", "8080"), ("blog", "9090")):
        (tmp_path / place / "src").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / place / "src")  # below the directory that sessions worked in
        out = cli("recall", "which port does the proxy listen on?")[1]
        assert f"port {port}" in out
        assert out.count("proxy") == 2  # the fact, and the turn that proves it
    assert cli("recall", "which port does the proxy listen on?", "--everywhere")[1].count("proxy") == 4
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert cli("recall", "which port does the proxy listen on?")[1].startswith("nothing known\nin the project ")
    monkeypatch.chdir(tmp_path)  # a home directory is no project
    assert cli("recall", "which port does the proxy listen on?")[1].count("proxy") == 4


async def fill_projects(dsn: str, folder: Path) -> None:
    """Have a user say of two projects which port their proxies listen on."""
    database = Database(dsn, FrozenClock(NOON))
    for place, port in (("shop", 8080), ("blog", 9090)):
        said = user_message(f"The proxy listens on port {port}.")
        await log_events(database, place, [said], project=str(folder / place))
    assert isinstance(database.clock, FrozenClock)
    database.clock.set(later(NOON, hours=2))
    await run_job(database, Settings(workers=1))
    await database.close()


def test_filters_count_wherever_they_are_taken(cli: CommandLine, dsn: str) -> None:
    asyncio.run(fill_memory(dsn))
    asyncio.run(add_rejected_candidates(dsn))
    error = ["solutions", "--error", MISSING_MODULE]
    for words in (error, ["facts", "--rejected"]):
        project = "/elsewhere" if "--rejected" in words else "/src"
        agent = "other" if "--rejected" in words else "coder"
        assert cli(*words)[1].strip(), words
        assert cli(*words, "--agent", agent, "--project", project)[1].strip(), words
        nothing = "" if "--rejected" in words else "nothing known about this error\n"
        assert cli(*words, "--agent", "nobody")[:2] == (0, nothing), words
        assert cli(*words, "--project", "/nowhere")[:2] == (0, nothing), words
    assert cli("facts", "--rejected", "secret word")[1].strip()
    assert cli("facts", "--rejected", "--peer", "ann")[1].strip()
    assert cli("facts", "search", "--rejected", "elephant")[:2] == (0, "")
    assert cli("facts", "--rejected", "--peer", "bob")[:2] == (0, "")


def test_an_explanation_names_extractor_rejections_and_what_published_it(cli: CommandLine, dsn: str) -> None:
    ids = asyncio.run(fill_memory(dsn))
    asyncio.run(add_rejected_candidates(dsn))
    explanation = json.loads(cli("explain", ids["fact"], "--json")[1])
    shown = cli("explain", ids["fact"])[1]
    assert f"extracted by {explanation['extractors'][0]}\n" in shown
    assert "1 rejected: 1 a question\n" in shown
    assert f"by run {ids['run']}\n" in shown
    with psycopg.connect(dsn) as conn:
        conn.execute("update consolidator.procedure set run_id = null, cause = 'review'")
        conn.execute("update consolidator.solution set run_id = null, cause = 'erasure'")
    assert cli("explain", ids["procedure"])[1].endswith(" after a review\n")
    assert cli("explain", ids["solution"])[1].endswith(" after an erasure\n")


def test_an_export_that_fails_leaves_the_file_as_it_was(cli: CommandLine, dsn: str, tmp_path: Any) -> None:
    asyncio.run(fill_memory(dsn))
    file = tmp_path / "log.jsonl"
    file.write_text("precious")
    file.chmod(0o600)
    for words in (["claude-code"], ["no-such-format"], ["--session", "nobody"]):
        assert cli("export", *words, "-o", str(file))[0] in (2, 3)
        assert file.read_text() == "precious", words
    (tmp_path / "link").symlink_to(file)
    assert cli("export", "-o", str(tmp_path / "link"))[0] == 0
    assert file.read_text() == cli("export")[1]
    assert (file.stat().st_mode & 0o777, (tmp_path / "link").is_symlink()) == (0o600, True)
    assert not list(tmp_path.glob(".*.part"))
    assert cli("export", "-o", str(tmp_path / "no" / "log.jsonl"))[0] == 2
    assert cli("export", "-o", str(tmp_path / ("x" * 5000)))[0] == 2
    assert cli("export", "-o", "/dev/null")[0] == 0


def test_what_was_erased_can_be_listed_with_the_reason(cli: CommandLine, dsn: str) -> None:
    asyncio.run(fill_memory(dsn))
    assert cli("erase", "--log")[:2] == (0, "")
    assert cli("erase", "--session", "s0", "--reason", "asked by ada", "--yes")[0] == 0
    (line,) = cli("erase", "--log")[1].splitlines()
    assert line.split("\t")[1:3] == ["s0", "11"]
    assert line.endswith("\tasked by ada")


def test_every_open_dead_letter_is_tried_however_many_there_are(cli: CommandLine, dsn: str) -> None:
    run = asyncio.run(fill_memory(dsn))["run"]
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "insert into consolidator.dead_letter (id, run_id, session_id, seq, extractor, error, created_at) "
            "select 'letter-' || n, %s, 'gone', n, 'facts', 'lost', now() from generate_series(1, 450) as n",
            [run],
        )
    assert cli("runs", "letter-1", "--retry")[0] == 7
    code, out, _ = cli("runs", run, "--retry")
    assert (code, out) == (7, "0 settled, 450 still cannot be learned from\n")  # in vain: nothing hides behind these
    assert cli("runs", "letter-2", "--discard")[:2] == (0, "1 settled, 0 still cannot be learned from\n")
    assert cli("runs", "letter-2", "--retry")[:2] == (0, "0 settled, 0 still cannot be learned from\n")
    assert cli("runs", "--discard")[:2] == (0, "449 settled, 0 still cannot be learned from\n")
