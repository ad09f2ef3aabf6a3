"""A chat's lines and commands: what a person can do in the terminal, over the functions that all front ends call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from consolidator.cli.agents import chat as command
from consolidator.cli.agents.chat import COMMANDS, StdinLines, TerminalChat
from consolidator.cli.agents.options import ToolOptions, load_tools
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.payload import EventType
from consolidator.runtime.agent import Consolidator
from consolidator.runtime.turn import sessions as people
from consolidator.service.memory.recall import recall_for_message
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from consolidator.testing import ModelServer, ScriptedReply
from tests.support import list_latest, log_events, run_job, user_message

TOOLS = '''
from pathlib import Path

from consolidator import tool

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
KEY = "main:cli:mara"


def answer(request: dict[str, Any]) -> ScriptedReply:
    """Answer as the last message wants it."""
    last = request["messages"][-1]
    text = str(last["content"])
    if last["role"] == "tool":
        return ScriptedReply(text=f"It says: {text}.")
    if "shout" in text:
        return ScriptedReply.calling(("shout", {"word": "hey"}))
    if "push" in text:
        return ScriptedReply.calling(("push", {"branch": "main"}))
    users = sum(message["role"] == "user" for message in request["messages"])
    return ScriptedReply(text=f"You said {text!r} in turn {users}.")


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(answers=answer) as opened:
        yield opened


@pytest.fixture
def chat_settings(settings: Settings, server: ModelServer, tmp_path: Path) -> Settings:
    """Settings of a chat, and a file with tools."""
    (tmp_path / "mytools.py").write_text(TOOLS)
    return settings.model_copy(update={"model": "stand-in", "openai_base_url": server.url})


class ChatRunner:
    """Conversations with lines that come from a pipe, each in an agent of its own."""

    def __init__(self, database: Database, settings: Settings, capsys: pytest.CaptureFixture[str], home: Path) -> None:
        self.database, self.settings, self.capsys, self.home = database, settings, capsys, home

    async def __call__(self, *lines: str) -> tuple[str, str]:
        """Return what was printed, and the warnings."""
        reading, writing = os.pipe()
        os.write(writing, "".join(f"{line}\n" for line in lines).encode())
        os.close(writing)
        chat = TerminalChat(StdinLines(reading))
        tools = [chat.announce_calls(tool) for tool in load_tools(str(self.home / "mytools.py"))]
        recall = partial(recall_for_message, self.database, self.settings)
        async with Consolidator(tools, settings=self.settings, database=self.database, recall=recall) as agent:
            await chat.run(agent, KEY)
        os.close(reading)
        seen = self.capsys.readouterr()
        return seen.out, " ".join(seen.err.split())


@pytest.fixture
def run_chat(
    database: Database, chat_settings: Settings, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> ChatRunner:
    return ChatRunner(database, chat_settings, capsys, tmp_path)


async def test_lines_from_a_pipe_are_answered_one_by_one_and_the_next_start_goes_on(
    database: Database, clock: FrozenClock, run_chat: ChatRunner
) -> None:
    """C2."""
    seen, warned = await run_chat("hello", "shout it", "/cost", "/nonsense")
    assert "You said 'hello' in turn 1." in seen
    assert '· shout {"word": "hey"}' in seen
    assert "It says: HEY." in seen
    assert "2 turns" in seen
    assert "no command /nonsense; there are: /new" in warned

    clock.advance(timedelta(minutes=1))
    seen, _ = await run_chat("/history", "/history 1", "again", "/new", "other", "/sessions", "/help")
    assert f"Restored: 2 previous turns of {KEY}" in seen
    assert "you said: shout it" in seen
    assert "you: hello\nagent: You said 'hello' in turn 1.\nyou: shout it\nagent: It says: HEY.\n" in seen
    assert seen.count("you: hello") == 1, "of one turn, the last"
    assert seen.count("you: shout it\nagent: It says: HEY.") == 2
    assert "it said: It says: HEY." in seen
    assert "You said 'again' in turn 3." in seen
    assert "You said 'other' in turn 1." in seen
    listed = [line.split("\t") for line in seen.splitlines() if line.count("\t") == 5]
    assert sorted((row[0], row[2], row[3]) for row in listed) == [("", KEY, "3"), ("*", KEY, "1")]
    assert all(f"/{name} " in seen for name in COMMANDS)


async def test_an_older_session_of_the_key_can_be_gone_back_to_and_deleted(
    database: Database, run_chat: ChatRunner
) -> None:
    """L21, C3, C9."""
    await run_chat("hello", "/new", "other")
    async with database.connection() as conn:
        [older] = [session.id for session in await list_latest(conn) if not session.current]
    seen, warned = await run_chat(
        f"/switch {older}", "back", "/switch", "/delete", "fresh", "/switch work:cli:mara", "hi"
    )
    assert "you said: hello" in seen
    assert "You said 'back' in turn 2." in seen
    assert "/switch KEY" in warned
    assert f"`consolidator erase --session {older}` would remove it" in seen
    assert "You said 'fresh' in turn 1." in seen
    assert "You said 'hi' in turn 1." in seen
    async with database.connection() as conn:
        gone = await sessions.get(conn, older)
        log = await events.read(conn, older)
        agents = {session.agent for session in await list_latest(conn)}
        listed = {session.id for session in await list_latest(conn)}
        hidden = {session.id for session in await list_latest(conn, hidden=True)} - listed
    assert (gone.status, gone.hidden) == ("ended", True)
    assert log[-1].type is EventType.SESSION_END
    assert agents == {"main", "work"}
    assert hidden == {older}

    seen, warned = await run_chat("/sessions", f"/switch {older}")
    assert older not in seen
    assert "has ended: `consolidator session events" in warned


async def test_a_call_that_needs_approval_waits_for_the_person(run_chat: ChatRunner, tmp_path: Path) -> None:
    seen, _ = await run_chat("push it", "not on a Friday", "push it")
    assert 'push {"branch": "main"}' in seen
    assert "not on a Friday" in next(line for line in seen.splitlines() if line.startswith("It says:"))
    assert "it waits: consolidator call approve" in seen
    assert not (tmp_path / "done").exists()

    seen, _ = await run_chat("y")
    assert "It says: pushed main." in seen
    assert (tmp_path / "done").read_text() == "main"


async def test_an_answer_that_nobody_heard_is_told_at_the_next_start(
    database: Database, chat_settings: Settings, run_chat: ChatRunner, tmp_path: Path
) -> None:
    await run_chat("push it")
    async with Consolidator(
        load_tools(str(tmp_path / "mytools.py")), settings=chat_settings, database=database
    ) as elsewhere:  # as `consolidator call approve` and `wake` do
        [asking] = await people.list_attention(database)
        assert await people.decide_approval(database, next(iter(asking.attention)), allow=True) == asking.id
        [woken] = await elsewhere.wake_all()
    assert woken.result is not None
    assert (woken.result.finish_reason, woken.result.executed_tool_count) == ("stop", 1)
    assert woken.result.usage.output_tokens > 0

    assert "\nIt says: pushed main.\n" in (await run_chat())[0]
    seen, _ = await run_chat()
    assert "it said: It says: pushed main." in seen
    assert seen.count("pushed main") == 1


async def test_what_the_night_learned_of_a_person_is_known_the_next_day(
    database: Database, clock: FrozenClock, settings: Settings, server: ModelServer, run_chat: ChatRunner
) -> None:
    await log_events(database, "yesterday", [user_message("I prefer tabs, always.")], agent="main", peer="mara")
    await log_events(database, "elsewhere", [user_message("I prefer spaces, always.")], agent="main", peer="tom")
    clock.advance(timedelta(hours=1))
    await run_job(database, settings)
    await run_chat("What do I prefer, tabs or something else?")
    recalled, _, said_now = str(server.requests[-1]["messages"][-1]["content"]).partition("</recalled-memory>")
    assert "tabs" in recalled
    assert "spaces" not in recalled
    assert "What do I prefer" in said_now


async def test_what_a_person_types_comes_at_any_time_and_a_pasted_block_at_once() -> None:
    reading, writing = os.pipe()
    typed = StdinLines(reading, is_terminal=True)
    os.write(writing, "one\nand two, grün\r\n/quit\nlast".encode())
    assert await typed.next() == "one\nand two, grün"
    assert await typed.next() == "/quit"
    waiting = asyncio.create_task(typed.next())
    await asyncio.sleep(0)
    waiting.cancel()
    os.close(writing)
    assert [await typed.next(), await typed.next(), await typed.next()] == ["last", None, None]
    os.close(reading)


def test_a_chat_without_a_model_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONSOLIDATOR_MODEL", raising=False)
    with pytest.raises(UsageError, match="CONSOLIDATOR_MODEL"):
        command.chat_command(options=command.ChatOptions(), driver=ToolOptions())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not a Python file"),
        ("def plain() -> None: ...", "has no tools"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("from consolidator import tool\n@tool\ndef odd(*words: str) -> None: ...", "a model cannot fill"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_a_file_without_tools_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_tools(str(path))
