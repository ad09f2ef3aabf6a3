"""A conversation in the terminal: as a person types it, steered, interrupted by kill -9, and gone on with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from consolidator.database import Database
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.store.log import events, sessions
from consolidator.testing import ModelServer, ScriptedReply
from tests.acceptance.terminal import Terminal
from tests.support import in_thread

LONG = " ".join(f"word{number}" for number in range(60))
KEY = "main:cli:mara"


@dataclass
class Model:
    """Answers slowly and never to the end the first time, as fast as it can from then on."""

    slow: bool = True

    def __call__(self, asked: dict[str, Any]) -> ScriptedReply:
        text = str(asked["messages"][-1]["content"])
        if "tell me all" in text:
            slow, self.slow = self.slow, False
            return ScriptedReply(text=LONG, pace=0.05, silent_after=20) if slow else ScriptedReply(text=LONG)
        users = sum(one["role"] == "user" for one in asked["messages"])
        return ScriptedReply(text=f"You said {text!r} in turn {users}.")


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(answers=Model()) as opened:
        yield opened


@pytest.fixture
def chatting(environment: dict[str, str], server: ModelServer) -> dict[str, str]:
    """The environment of a chat."""
    told = {"CONSOLIDATOR_MODEL": "stand-in", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
    return {name: value for name, value in (environment | told).items() if name != "CONSOLIDATOR_CLOCK"}


async def log_of(database: Database, session: str) -> list[Event]:
    async with database.connection() as conn:
        return await events.read(conn, session)


async def only_session(database: Database) -> str:
    async with database.connection() as conn:
        [found] = await sessions.listing(conn)
    return str(found["id"])


async def test_what_is_typed_while_the_agent_works_steers_it(database: Database, chatting: dict[str, str]) -> None:
    def steered() -> str:
        with Terminal("chat", "--key", KEY, environment=chatting) as screen:
            screen.until("> ")
            screen.type("tell me all")
            screen.until("word3")
            screen.type("no, say blue")
            screen.until("You said 'no, say blue'")
            screen.until("> ")
            screen.type("/quit")
            assert screen.leave() == 0
            return screen.seen

    seen = await in_thread(steered)
    assert "word59" not in seen
    assert "\nYou said 'no, say blue'" in seen, "another answer begins on a line of its own"
    log = await log_of(database, await only_session(database))
    told = [(one.data["text"], one.data["mode"]) for one in log if one.type is EventType.USER_MESSAGE]
    assert told == [("tell me all", "message"), ("no, say blue", "steer")]
    answers = [one.data["text"] for one in log if one.type is EventType.ASSISTANT_RESPONSE]
    assert answers[0].startswith("word0 word1")
    assert LONG.startswith(answers[0])
    assert answers[1].startswith("You said 'no, say blue'")


async def test_kill_9_in_the_middle_of_an_answer_loses_nothing(database: Database, chatting: dict[str, str]) -> None:
    def killed() -> None:
        with Terminal("chat", "--key", KEY, environment=chatting) as screen:
            screen.until("> ")
            screen.type("tell me all")
            screen.until("word5 ")
            screen.kill()

    def gone_on() -> str:
        with Terminal("chat", "--key", KEY, environment=chatting) as screen:
            screen.until("restored: 0 earlier turns")
            screen.until("you said: tell me all")
            screen.until("[it was cut off, and begins again]")
            screen.until("word59")
            screen.until("> ")
            screen.type("thanks")
            screen.until("in turn 2.")
            screen.until("> ")
            screen.type("/quit")
            assert screen.leave() == 0
            return screen.seen

    await in_thread(killed)
    seen = await in_thread(gone_on)
    assert LONG in " ".join(seen.split())
    log = await log_of(database, await only_session(database))
    assert [one.data["text"] for one in log if one.type is EventType.USER_MESSAGE] == ["tell me all", "thanks"]
    assert next(one.data["text"] for one in log if one.type is EventType.ASSISTANT_RESPONSE) == LONG
    decided = [one.data["decision"] for one in log if one.type is EventType.POLICY_DECISION]
    assert decided == ["generation_replaced"]
