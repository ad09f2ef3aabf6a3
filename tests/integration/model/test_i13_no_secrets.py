"""I13: no credential that is in the log is in memory, in what is printed or exported, or in the program's own log.

Every kind that is known is planted wherever an agent's log can hold one, in several sessions, so that it is also what
they have in common: a constant argument, a fix, a rule that a person states.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation import learning, session_window
from consolidator.llm.redaction.redact import find_credentials
from consolidator.memory.procedures.digest import Digest
from consolidator.models.event import Event, NewEvent
from consolidator.models.memory_filter import FactFilter, MemoryFilter, ProcedureFilter
from consolidator.service.encoding import encode_json
from consolidator.service.log.export import export_sessions
from consolidator.service.memory.explain import explain
from consolidator.service.memory.skills import export_skills
from consolidator.service.memory.solutions import find_solutions
from consolidator.service.memory.suggestions import suggest_next_calls
from consolidator.service.sessions.listing import summarize_session
from consolidator.settings import Settings
from consolidator.store.memory import listing
from tests.dumps import dump
from tests.nights import approval_granted, assert_ledger_balances, query_number, query_rows, run_next_night
from tests.support import (
    QUICK,
    assert_invariants,
    assistant_response,
    call_and_result,
    log_events,
    tool_call,
    user_message,
)
from tests.unit.llm.test_redaction import CREDENTIALS as ALL_CREDENTIALS
from tests.unit.llm.test_redaction import TOKEN

CREDENTIALS = dict([*ALL_CREDENTIALS.items()][:: 3 if QUICK else 1])  # of each kind; in CI of every third
LOG = ("event", "blob", "session")  # the log keeps what happened
SESSIONS = ("one", "two", "three")
KEYED = {"user": "ann", "password": "hunter2x9", "api_key": "Sup3rS3cret", "auth": {"token": TOKEN}}
NAMED = [{"name": "API_TOKEN", "value": TOKEN}, {"value": "s3cretPw", "name": "DB_PASSWORD"}]
_WORD = re.compile(r"[A-Za-z0-9!&/+._~-]{6,}")


def secret_words(text: str) -> list[str]:
    """Return what is secret in a text that holds a credential: all that it says with a digit in it."""
    pieces = (piece for start, end, _ in find_credentials(text) for piece in _WORD.findall(text[start:end]))
    return [piece for piece in pieces if any(char.isdigit() for char in piece)]


SECRETS = {name: secret_words(text) for name, text in CREDENTIALS.items()}


def find_leaked_kinds(text: str) -> set[str]:
    """Return which kinds of credentials a text betrays."""
    return {name for name, secrets in SECRETS.items() if any(secret in text for secret in secrets)}


def plant_credential(number: int, text: str) -> list[NewEvent]:
    """Use a credential in everything an agent does."""
    line = text.replace("\n", " ")
    fails = {"command": f"deploy{number} --now /srv/shop {line}"}
    works = {"command": f"deploy{number} --now --force /srv/shop {line}"}
    return [
        user_message(f"From now on, always deploy with {text}"),
        user_message(f"Remember that the staging server wants {line}."),
        user_message(f"We use {line} in this project."),
        user_message(f"My name is {line}."),
        *call_and_result(
            f"a{number}", f"look_{number}", {"value": text, "all": [text], "more": {"deep": text}}, {"found": text}
        ),
        *call_and_result(f"b{number}", f"send_{number}", {"found": text, text: "as a key"}, text),
        *call_and_result(f"h{number}", f"open_{number}", KEYED, {"password": text}),
        *call_and_result(f"i{number}", f"set_{number}", {"env": NAMED}, {"token": TOKEN}),
        *call_and_result(
            f"j{number}", f"call_{number}", {"host": "a", **KEYED}, f"Error: refused with {text}", "error"
        ),
        *call_and_result(f"k{number}", f"call_{number}", {"host": "b", **KEYED}, KEYED),
        *call_and_result(f"c{number}", "Bash", fails, f"Error: cannot log in with {text}\n{text}", "error"),
        *call_and_result(f"d{number}", "Bash", works, f"done with {text}"),
        *call_and_result(f"e{number}", "Write", {"file_path": f"/srv/{line}/app.py", "content": text}, text, "error"),
        *call_and_result(f"f{number}", "Read", {"file_path": f"/srv/{line}/app.py"}, text),
        *call_and_result(f"g{number}", "Write", {"file_path": f"/srv/{line}/app.py", "content": text}, "written"),
        approval_granted(command=f"push{number} {line}"),
        approval_granted("ApprovalDenied", command=f"pull{number} {line}"),
        assistant_response(f"I have used {text}"),
    ]


async def find_leaking_tables(database: Database) -> dict[str, set[str]]:
    """Return which tables hold which credentials; the log's are left out."""
    return {
        table: kinds for table, text in (await dump(database, but=LOG)).items() if (kinds := find_leaked_kinds(text))
    }


@pytest.fixture
async def program_log(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> str:
    """Let two nights learn from all of it, in small windows, with a call open between them; return their log."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(session_window, "WINDOW", 700)
    half = len(CREDENTIALS) // 2
    events = [plant_credential(number, text) for number, text in enumerate(CREDENTIALS.values())]
    first, second = ([event for some in part for event in some] for part in (events[:half], events[half:]))
    for name in SESSIONS:
        opened = [tool_call(f"o{n}", "wait_for", {"text": text}) for n, text in enumerate(CREDENTIALS.values())]
        await log_events(database, name, [*first, *opened], project="shop", peer="ann")
    await run_next_night(database, clock, settings, hours=30)  # so the open calls are given up, and kept as open
    assert not await find_leaking_tables(database)
    for name in SESSIONS:
        await log_events(database, name, second)
    await run_next_night(database, clock, settings)
    await assert_ledger_balances(database)
    await assert_invariants(database)
    return str(caplog.text)


def test_every_kind_has_something_to_hide() -> None:
    assert all(SECRETS.values())
    assert find_leaked_kinds(" ".join(CREDENTIALS.values())) == set(CREDENTIALS)


async def test_no_credential_reaches_memory_or_the_programs_log_or_any_answer(
    database: Database, settings: Settings, program_log: str, tmp_path: Path
) -> None:
    assert not await find_leaking_tables(database)
    assert not find_leaked_kinds(program_log)
    for table in ("digest", "error_record", "candidate", "procedure", "tool_profile", "solution", "claim", "run"):
        assert await query_number(database, f"select count(*) from {table}"), f"nothing was learned into {table}"
    assert find_leaked_kinds((await dump(database))["event"]) == set(CREDENTIALS)  # which keeps what happened
    assert "[redacted:" in str(await query_rows(database, "select body from procedure"))
    assert "[redacted:" in str(await query_rows(database, "select body from solution"))
    assert "[redacted:" in str(await query_rows(database, "select quote from candidate"))
    await _assert_answers_hide_secrets(database, settings)
    await _assert_exports_hide_secrets(database, tmp_path)


async def _assert_answers_hide_secrets(database: Database, settings: Settings) -> None:
    answers: list[Any] = []
    for table in ("fact", "candidate", "procedure", "solution"):
        for row in await query_rows(database, f"select id from {table} order by id limit 60"):
            answers.append(await explain(database, row["id"]))
    for session in SESSIONS:
        answers += [await summarize_session(database, session), await suggest_next_calls(database, session)]
    async with database.connection() as conn:
        answers += [await listing.list_facts(conn, FactFilter()), await listing.list_rejected(conn, MemoryFilter())]
    for text in CREDENTIALS.values():
        answers.append(await find_solutions(database, f"Error: cannot log in with {text}", tool="Bash"))
    assert not find_leaked_kinds(json.dumps(answers, default=encode_json, ensure_ascii=False))


async def _assert_exports_hide_secrets(database: Database, tmp_path: Path) -> None:
    skills = await export_skills(
        database, tmp_path, ProcedureFilter(agent=None, project=None, include_unworthy=True, limit=100)
    )
    assert skills.files
    for file in skills.files:
        assert not find_leaked_kinds(file.name + file.read_text(encoding="utf-8"))
    exported: list[str] = []
    await export_sessions(database, "consolidator", exported.append)
    assert not find_leaked_kinds("".join(exported))


async def test_what_an_extractor_dies_of_is_hidden_in_its_dead_letter(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    feed = Digest.feed

    def dies(self: Digest, event: Event) -> None:
        if "poison" in str(event.data):
            raise ValueError(f"cannot read {event.data}")
        feed(self, event)

    monkeypatch.setattr(Digest, "feed", dies)
    await log_events(database, "one", [user_message(f"poison: {text}") for text in CREDENTIALS.values()])
    report = await run_next_night(database, clock, settings)
    assert report["dead"] == len(CREDENTIALS)
    assert not await find_leaking_tables(database)
    assert not find_leaked_kinds(caplog.text)


async def test_a_unit_that_fails_on_a_row_does_not_tell_what_was_in_it(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """As a database's error does, which quotes the row it is about."""
    caplog.set_level(logging.DEBUG)

    def fails(*_: Any) -> None:
        raise ValueError("failing row contains " + ", ".join(CREDENTIALS.values()))

    monkeypatch.setattr(learning, "learn_window", fails)
    await log_events(database, "one", [user_message("hello")])
    report = await run_next_night(database, clock, settings)
    assert report["status"] == "failed"
    assert not await find_leaking_tables(database)
    assert not find_leaked_kinds(caplog.text)
