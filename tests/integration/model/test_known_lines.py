"""What memory holds is shown to the night's model, so that it is not asked for: said again it counts, or is dropped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.model.prior import MAX_HELD, MAX_KNOWN_TOKENS, Prior, load_held
from consolidator.llm.tokens import count_tokens
from consolidator.memory.facts.candidates import SessionContext
from consolidator.memory.facts.questions.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.observations.observation import HELD, HELD_ALREADY, KnownObservation, ProjectWords
from consolidator.models.event import NewEvent
from consolidator.service.memory.facts import list_facts
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.conftest import NOON
from tests.databases import fetch_dicts
from tests.oracle import parse_lines, schema_name, with_model
from tests.support import assistant_response, call_and_result, log_events, run_job, user_message

SHOP = "/work/shop"
FAILS = "error: unrecognized subcommand 'bun'"


def run_tests() -> list[NewEvent]:
    return [
        *call_and_result("r", "Bash", {"command": "rtk bun run test"}, FAILS, "error"),
        *call_and_result("t", "Bash", {"command": "bun run test"}, "12 pass"),
    ]


def answering(make: Callable[[dict[str, str], list[tuple[str, str, str]]], dict[str, Any]]) -> Any:
    """Answer as a model does that is shown known lines, by their words, and lines of a session."""

    def answer(request: dict[str, Any]) -> ScriptedReply:
        if schema_name(request) == "decisions":
            return ScriptedReply.json({"operations": []})
        prompt = str(request["messages"][1]["content"])
        known = [line.partition(" ") for line in prompt.splitlines() if line[:1] == "K" and line[1:2].isdigit()]
        made = make({words: name for name, _, words in known}, list(parse_lines(request)))
        return ScriptedReply.json({"facts": [], "observations": [], "again": [], "ended": []} | made)

    return answer


async def night(database: Database, clock: FrozenClock, settings: Settings, name: str, *talk: NewEvent) -> None:
    await log_events(database, name, list(talk), project=SHOP)
    clock.advance(timedelta(days=1))
    await run_job(database, settings)


async def test_what_programs_hold_of_a_sessions_calls_is_shown_and_not_taken_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(3):
        await night(database, clock, settings, f"s{number}", user_message("Run the tests."), *run_tests())
    shown: list[str] = []

    def make(known: dict[str, str], lines: list[tuple[str, str, str]]) -> dict[str, Any]:
        shown.extend(known)
        line = next(name for name, _, words in reversed(lines) if "unrecognized" in words)
        cited = {"line": line, "quote": "unrecognized subcommand 'bun'"}
        stated = {"kind": "environment", "moment": "running tests", "proof": [], "sentence": "`rtk bun` always fails."}
        return {"observations": [{**stated, **cited}], "again": [{"known": name, **cited} for name in known.values()]}

    async with ModelServer(answering(make)) as server:
        await night(database, clock, with_model(settings, server), "s4", user_message("Tests?"), *run_tests())
    assert any("`rtk bun …` always fails" in words for words in shown)
    assert not any(" of " in words for words in shown)  # without counts, which every night changes
    async with database.connection() as conn:
        rows = await fetch_dicts(conn, "select rejected from candidate where predicate like 'observed%'")
    assert [row["rejected"] for row in rows] == [HELD_ALREADY]


@pytest.mark.parametrize(
    ("said", "quote", "is_counted"),
    [
        ("As ever: here we use pnpm, so install it.", "we use pnpm", True),
        ("Is there anything left to do?", "anything left", False),  # it does not say it
        ("Fine.", "Installed with pnpm", False),  # words of the agent
    ],
)
async def test_a_believed_fact_is_shown_and_counts_as_said_again_by_the_persons_words_alone(
    database: Database, clock: FrozenClock, settings: Settings, said: str, quote: str, is_counted: bool
) -> None:
    await night(database, clock, settings, "s0", user_message("We use pnpm."))
    (fact,) = [fact for fact in await list_facts(database) if "pnpm" in fact.sentence]

    def make(known: dict[str, str], lines: list[tuple[str, str, str]]) -> dict[str, Any]:
        (name,) = [name for words, name in known.items() if fact.sentence in words]
        line = next(name for name, _, words in lines if quote in words)
        return {"again": [{"known": name, "line": line, "quote": quote}]}

    talk = [user_message(said), assistant_response("Installed with pnpm, as it was.")]
    async with ModelServer(answering(make)) as server:
        await night(database, clock, with_model(settings, server), "s1", *talk)
    (again,) = [fact for fact in await list_facts(database) if "pnpm" in fact.sentence]
    assert (again.id, again.sentence) == (fact.id, fact.sentence)
    by_model = "select session_id from candidate where extractor like 'model:%%' and rejected is null"
    async with database.connection() as conn:
        assert [row["session_id"] for row in await fetch_dicts(conn, by_model)] == (["s1"] if is_counted else [])
    assert again.sessions == 1 + is_counted


def test_what_programs_hold_takes_a_few_lines_of_the_calls_that_were_made() -> None:
    """Beside observations, within the tokens that what is known may take."""
    calls = [f"make part{number}" for number in range(30)]
    held = [KnownObservation("", "", call, f"`{call}` works here, {'which is so ' * 6}.", HELD) for call in calls]
    known = [KnownObservation("x", "observed_structure", str(n), f"The parser of `x{n}.py` is odd.") for n in range(30)]
    lines = [TranscriptLine(1, "S", "The parser is odd.", NOON), TranscriptLine(2, "C", calls[7], NOON, "make: 1 of 1")]
    prior = Prior("", (*held, *known), ProjectWords((frozenset(),) * 9))
    hint = prior.hint([TranscriptChunk(tuple(lines))], 2400)
    assert [call for call in calls if f"`{call}`" in hint] == [calls[7]]
    assert hint.count("The parser of") == 9
    lines += [TranscriptLine(seq, "F", "no", NOON, call) for seq, call in enumerate(calls, 3)]
    hint = prior.hint([TranscriptChunk(tuple(lines))], 2400)
    assert sum(f"`{call}`" in hint for call in calls) == MAX_HELD
    assert count_tokens(hint) <= MAX_KNOWN_TOKENS
    assert "part" not in prior.hint([TranscriptChunk((lines[0],))], 2400)


async def test_what_another_person_said_is_not_shown_in_the_owners_question(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for peer, words in (("bob", "We use pnpm."), (None, "We use Postgres.")):
        await log_events(
            database, str(peer), [user_message(words), assistant_response("Noted.")], project=SHOP, peer=peer
        )
    clock.advance(timedelta(days=1))
    await run_job(database, settings)
    held = [item.sentence for item in await load_held(database, SessionContext("s", "s", "coder", SHOP))]
    assert [any(word in sentence for sentence in held) for word in ("pnpm", "Postgres")] == [False, True]
