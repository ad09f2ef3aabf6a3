"""A chat in the terminal: typed, steered, interrupted by kill -9, and resumed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from consolidator.database import Database
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.store.log import events
from consolidator.testing import ModelServer, ScriptedReply
from tests.acceptance.terminal import Terminal
from tests.support import in_thread, list_latest

LONG = " ".join(f"word{number}" for number in range(60))
KEY = "main:cli:mara"


@dataclass
class Model:
    """Answers slowly and incompletely the first time, then at full speed."""

    slow: bool = True

    def __call__(self, request: dict[str, Any]) -> ScriptedReply:
        text = str(request["messages"][-1]["content"])
        if "tell me all" in text:
            slow, self.slow = self.slow, False
            return ScriptedReply(text=LONG, pace=0.05, stall_after=20) if slow else ScriptedReply(text=LONG)
        users = sum(message["role"] == "user" for message in request["messages"])
        return ScriptedReply(text=f"You said {text!r} in turn {users}.")


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(answers=Model()) as opened:
        yield opened


@pytest.fixture
def chat_environment(environment: dict[str, str], server: ModelServer) -> dict[str, str]:
    """The environment of a chat."""
    model = {"CONSOLIDATOR_MODEL": "stand-in", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
    return {name: value for name, value in (environment | model).items() if name != "CONSOLIDATOR_CLOCK"}


async def read_log(database: Database, session: str) -> list[Event]:
    async with database.connection() as conn:
        return await events.read(conn, session)


async def find_only_session(database: Database) -> str:
    async with database.connection() as conn:
        [session] = await list_latest(conn)
    return str(session.id)


async def test_what_is_typed_while_the_agent_works_steers_it(
    database: Database, chat_environment: dict[str, str]
) -> None:
    """B31."""

    def steer_chat() -> str:
        with Terminal("chat", "--key", KEY, environment=chat_environment) as screen:
            screen.wait_for("> ")
            screen.type_line("tell me all")
            screen.wait_for("word3")
            screen.type_line("no, say blue")
            screen.wait_for("You said 'no, say blue'")
            screen.wait_for("> ")
            screen.type_line("/quit")
            assert screen.wait_for_exit() == 0
            return screen.output

    seen = await in_thread(steer_chat)
    assert "word59" not in seen
    assert "\nYou said 'no, say blue'" in seen, "another answer begins on a line of its own"
    log = await read_log(database, await find_only_session(database))
    messages = [(event.data["text"], event.data["mode"]) for event in log if event.type is EventType.USER_MESSAGE]
    assert messages == [("tell me all", "message"), ("no, say blue", "steer")]
    answers = [event.data["text"] for event in log if event.type is EventType.ASSISTANT_RESPONSE]
    assert answers[0].startswith("word0 word1")
    assert LONG.startswith(answers[0])
    assert answers[1].startswith("You said 'no, say blue'")


async def test_kill_9_in_the_middle_of_an_answer_loses_nothing(
    database: Database, chat_environment: dict[str, str]
) -> None:
    def kill_chat() -> None:
        with Terminal("chat", "--key", KEY, environment=chat_environment) as screen:
            screen.wait_for("> ")
            screen.type_line("tell me all")
            screen.wait_for("word5 ")
            screen.kill()

    def resume_chat() -> str:
        with Terminal("chat", "--key", KEY, environment=chat_environment) as screen:
            screen.wait_for("Restored: 0 previous turns")
            screen.wait_for("you said: tell me all")
            screen.wait_for("[the answer was cut off, and begins again]")
            screen.wait_for("word59")
            screen.wait_for("> ")
            screen.type_line("thanks")
            screen.wait_for("in turn 2.")
            screen.wait_for("> ")
            screen.type_line("/quit")
            assert screen.wait_for_exit() == 0
            return screen.output

    await in_thread(kill_chat)
    seen = await in_thread(resume_chat)
    assert LONG in " ".join(seen.split())
    log = await read_log(database, await find_only_session(database))
    assert [event.data["text"] for event in log if event.type is EventType.USER_MESSAGE] == ["tell me all", "thanks"]
    assert next(event.data["text"] for event in log if event.type is EventType.ASSISTANT_RESPONSE) == LONG
    decisions = [event.data["decision"] for event in log if event.type is EventType.POLICY_DECISION]
    assert decisions == ["generation_replaced"]
