"""A conversation in the terminal: as a person types it, steered, interrupted by kill -9, and gone on with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from consolidator.database import Database
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.store import events, sessions
from consolidator.testing import ModelServer, Reply
from tests.acceptance.terminal import Terminal
from tests.support import command, in_thread

TOOLS = '''
from pathlib import Path

from consolidator import Outcome, tool

DONE = Path(__file__).with_name("done")


@tool(idempotent=True)
def shout(word: str) -> str:
    """Shout a word."""
    return word.upper()


@tool(needs_approval=True)
async def push(branch: str) -> str:
    """Push a branch."""
    DONE.write_text(branch)
    return f"pushed {branch}"
'''
LONG = " ".join(f"word{number}" for number in range(60))
KEY = "main:cli:mara"


def answer(asked: dict[str, Any]) -> Reply:
    """Answer as the last message wants it."""
    last = asked["messages"][-1]
    text = str(last["content"])
    if last["role"] == "tool":
        return Reply(text=f"It says: {text}.")
    if "shout" in text:
        return Reply.calling(("shout", {"word": "hey"}))
    if "push" in text:
        return Reply.calling(("push", {"branch": "main"}))
    if "tell me all" in text:
        return Reply(text=LONG, pace=0.05)
    users = sum(one["role"] == "user" for one in asked["messages"])
    return Reply(text=f"You said {text!r} in turn {users}.")


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(answers=answer) as opened:
        yield opened


@pytest.fixture
def chatting(environment: dict[str, str], server: ModelServer, tmp_path: Path) -> dict[str, str]:
    """The environment of a chat, and a file with tools."""
    (tmp_path / "mytools.py").write_text(TOOLS)
    told = {"CONSOLIDATOR_MODEL": "stand-in", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
    return {name: value for name, value in (environment | told).items() if name != "CONSOLIDATOR_CLOCK"}


def words(tmp_path: Path) -> list[str]:
    return ["chat", "--key", KEY, "--tools", str(tmp_path / "mytools.py")]


def piped(lines: list[str], tmp_path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Chat with lines that come from a pipe."""
    return subprocess.run(
        [sys.executable, "-m", "consolidator", *words(tmp_path)], input="".join(f"{line}\n" for line in lines),
        env=environment, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip


async def log_of(database: Database, session: str) -> list[Event]:
    async with database.connection() as conn:
        return await events.read(conn, session)


async def only_session(database: Database) -> str:
    async with database.connection() as conn:
        [found] = await sessions.listing(conn)
    return str(found["id"])


async def test_lines_from_a_pipe_are_answered_one_by_one_and_the_next_start_goes_on(
    database: Database, chatting: dict[str, str], tmp_path: Path
) -> None:
    done = await in_thread(piped, ["hello", "shout it", "/cost", "/nonsense"], tmp_path, chatting)
    assert "You said 'hello' in turn 1." in done.stdout
    assert '· shout {"word": "hey"}' in done.stdout
    assert "It says: HEY." in done.stdout
    assert "2 turns" in done.stdout
    assert "no command /nonsense; there are: /new" in done.stderr

    done = await in_thread(piped, ["/history", "again", "/new", "other", "/sessions"], tmp_path, chatting)
    assert f"restored: 2 earlier turns of {KEY}" in done.stdout
    assert "you: hello\nagent: You said 'hello' in turn 1.\nyou: shout it\nagent: It says: HEY.\n" in done.stdout
    assert "You said 'again' in turn 3." in done.stdout
    assert "You said 'other' in turn 1." in done.stdout
    listed = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 5]
    assert [(one[0], one[2], one[3]) for one in listed] == [("*", KEY, "1"), ("", KEY, "3")]
    older = listed[1][1]

    done = await in_thread(piped, [f"/switch {older}", "back", "/delete", "fresh"], tmp_path, chatting)
    assert "You said 'back' in turn 4." in done.stdout
    assert f"`consolidator erase {older}` would remove it" in done.stdout
    assert "You said 'fresh' in turn 1." in done.stdout
    async with database.connection() as conn:
        gone = await sessions.get(conn, older)
    assert (gone["status"], gone["hidden"]) == ("ended", True)
    assert (await log_of(database, older))[-1].type is EventType.SESSION_END


async def test_a_call_that_needs_approval_waits_for_the_person(
    database: Database, chatting: dict[str, str], tmp_path: Path
) -> None:
    done = await in_thread(piped, ["push it", "not on a Friday", "push it"], tmp_path, chatting)
    assert 'push {"branch": "main"}' in done.stdout
    assert "not on a Friday" in next(line for line in done.stdout.splitlines() if line.startswith("It says:"))
    assert "it waits: consolidator approve" in done.stdout
    assert not (tmp_path / "done").exists()

    done = await in_thread(piped, ["y"], tmp_path, chatting)
    assert "It says: pushed main." in done.stdout
    assert (tmp_path / "done").read_text() == "main"


async def test_what_is_typed_while_the_agent_works_steers_it(
    database: Database, chatting: dict[str, str], tmp_path: Path
) -> None:
    def steered() -> str:
        with Terminal(*words(tmp_path), environment=chatting) as screen:
            screen.until("> ")
            screen.type("tell me all")
            screen.until("word3")
            screen.type("no, say blue")
            screen.until("You said 'no, say blue'")
            screen.until("> ")
            screen.type("/quit")
            assert screen.leave() == 0
            return screen.seen

    assert "word59" not in await in_thread(steered)
    log = await log_of(database, await only_session(database))
    told = [(one.data["text"], one.data["mode"]) for one in log if one.type is EventType.USER_MESSAGE]
    assert told == [("tell me all", "message"), ("no, say blue", "steer")]
    answers = [one.data["text"] for one in log if one.type is EventType.ASSISTANT_RESPONSE]
    assert answers[0].startswith("word0 word1")
    assert LONG.startswith(answers[0])
    assert answers[1].startswith("You said 'no, say blue'")


async def test_kill_9_in_the_middle_of_an_answer_loses_nothing(
    database: Database, chatting: dict[str, str], tmp_path: Path
) -> None:
    def killed() -> None:
        with Terminal(*words(tmp_path), environment=chatting) as screen:
            screen.until("> ")
            screen.type("tell me all")
            screen.until("word5 ")
            screen.kill()

    def gone_on() -> str:
        with Terminal(*words(tmp_path), environment=chatting) as screen:
            screen.until("restored: 0 earlier turns")
            screen.until("you said: tell me all")
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


async def test_a_chat_without_a_model_says_what_to_set(environment: dict[str, str], tmp_path: Path) -> None:
    done = await in_thread(command, "chat", environment=environment, code=2)
    assert "CONSOLIDATOR_MODEL" in done.stderr
