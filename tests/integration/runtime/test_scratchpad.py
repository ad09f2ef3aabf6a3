"""The scratchpad: changed by the agent and by people, bounded in words, always last, and nobody's change is lost."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from consolidator import Consolidator
from consolidator.clock import FrozenClock
from consolidator.context.build import ContextRequest, build_context
from consolidator.database import Database
from consolidator.errors import Forbidden, HeadConflict, NotFound, UsageError
from consolidator.models.payload import EventType
from consolidator.models.viewer import Viewer
from consolidator.runtime.session.scratchpad import EditMode, ScratchpadEdit, change_scratchpad, read_scratchpad
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.nights import run_next_night
from tests.runtime import KEY, SECRET, Replies, open_agent, read_log, send_and_collect
from tests.support import in_thread, read_memory, run_here


def writes(mode: EditMode, text: str, old: str | None = None) -> ScriptedReply:
    """The model changes its scratchpad."""
    return ScriptedReply.calling(("update_scratchpad", {"mode": mode, "text": text, "old": old}))


async def results(database: Database, session_id: str) -> list[tuple[str, str]]:
    """Return status and content of a session's results."""
    return [
        (event.data["status"], event.data["content"])
        for event in await read_log(database, session_id)
        if event.type is EventType.TOOL_RESULT
    ]


async def test_the_agent_keeps_notes_that_every_later_request_ends_with(database: Database) -> None:
    """B17."""
    answers: Replies = [
        writes("replace", "# Plan\n- look"),
        writes("append", "- send"),
        writes("edit", "- looked", "- look"),
        writes("edit", "x", "nowhere"),
        writes("append", "y" * 8000),
        "Done.",
    ]
    async with (
        ModelServer(answers=answers) as server,
        open_agent(database, server, builtin=["scratchpad"]) as agent,
    ):
        session = await agent.open(KEY)
        await send_and_collect(session, "plan it")
        notes = await session.scratchpad()
    assert notes.text == "# Plan\n- looked\n- send"
    assert server.requests[-1]["messages"][-1]["content"] == f"<working_memory>\n{notes.text}\n</working_memory>"
    answered = await results(database, session.id)
    assert [status for status, _ in answered] == ["ok", "ok", "ok", "error", "error"]
    assert answered[0][1] == "The scratchpad has 13 of 8,000 characters."
    assert "'nowhere' is nowhere in the scratchpad" in answered[3][1]
    assert "would have 8,023 characters, and may have 8,000" in answered[4][1]
    log = await read_log(database, session.id)
    assert [event.principal for event in log if event.data.get("decision") == "scratchpad_set"] == ["agent"] * 3
    assert notes.seq == max(event.seq for event in log if event.data.get("decision") == "scratchpad_set")


async def test_a_person_changes_one_version(database: Database, settings: Settings) -> None:
    """B18."""
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        first = await session.set_scratchpad("one")
        second = await session.set_scratchpad("two", expected_seq=first.seq)
        with pytest.raises(HeadConflict, match=f"changed at event {second.seq}, after version {first.seq}"):
            await session.set_scratchpad("three", expected_seq=first.seq)
        unchanged = await session.set_scratchpad("two", expected_seq=second.seq)
        log = await read_log(database, session.id)
    assert unchanged == second
    assert [event.principal for event in log if event.type is EventType.POLICY_DECISION] == ["operator"] * 2


async def test_of_concurrent_additions_none_is_lost(database: Database, settings: Settings) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await asyncio.gather(
            *(change_scratchpad(database, session.id, ScratchpadEdit("append", f"- {number}")) for number in range(8))
        )
        notes = await session.scratchpad()
    assert sorted(notes.text.splitlines()) == [f"- {number}" for number in range(8)]


async def test_the_model_does_not_replace_what_it_has_not_seen(database: Database) -> None:
    opened: list[Consolidator] = []

    def answer(request: dict[str, Any]) -> ScriptedReply:
        done = sum(message["role"] == "tool" for message in request["messages"])
        if done == 0:
            return ScriptedReply.calling(
                ("wait_for_person", {}), ("update_scratchpad", {"mode": "replace", "text": "mine"})
            )
        return writes("replace", "both") if done == 2 else ScriptedReply(text="Done.")

    async def wait_for_person() -> str:
        session = await opened[0].open(KEY)
        await session.set_scratchpad("a person's")
        return "they wrote"

    async with (
        ModelServer(answers=answer) as server,
        open_agent(database, server, [wait_for_person], builtin=["scratchpad"]) as agent,
    ):
        opened.append(agent)
        session = await agent.open(KEY)
        await send_and_collect(session, "write")
        notes = await session.scratchpad()
    _, refused, replaced = await results(database, session.id)
    assert refused[0] == "error"
    assert "operator has changed the scratchpad since you were shown it" in refused[1]
    assert refused[1].endswith("a person's")
    assert (replaced[0], notes.text) == ("ok", "both")


async def test_a_scratchpad_that_does_not_fit_is_left_out_in_words(database: Database) -> None:
    async with ModelServer(answers=["Hi."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await session.set_scratchpad("word " * 1500)
        await send_and_collect(session, "hello " * 100)
        async with database.connection() as conn:
            whole = await build_context(conn, session.id)
            small = await build_context(conn, session.id, ContextRequest(budget=1000))
    assert "word word" in whole.messages[-1]["content"]
    assert "the scratchpad, of 7,499 characters, does not fit" in small.messages[-1]["content"]
    assert "word word" not in str(small.messages)


async def test_memory_never_holds_what_a_scratchpad_says(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    secret = f"From now on, always use tabs. The token is {SECRET}."
    answers: Replies = [writes("replace", secret), "Done."]
    async with ModelServer(answers=answers) as server, open_agent(database, server, builtin=["scratchpad"]) as agent:
        session = await agent.open(KEY, project="shop")
        await send_and_collect(session, "note it")
        await session.set_scratchpad(secret + " Indeed.")
    await run_next_night(database, clock, settings, hours=1)
    memory = json.dumps(await read_memory(database), default=str)
    assert "tabs" not in memory
    assert SECRET not in memory


async def test_only_who_may_write_changes_it(database: Database, settings: Settings) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await session.set_scratchpad("ours")
    phone = Viewer("phone", frozenset({"read"}), peer="ines")
    assert (await read_scratchpad(database, session.id, viewer=phone)).text == "ours"
    with pytest.raises(Forbidden):
        await change_scratchpad(database, session.id, ScratchpadEdit("replace", "x"), viewer=phone)
    with pytest.raises(NotFound):
        await read_scratchpad(database, session.id, viewer=Viewer("tv", frozenset({"read"}), peer="mara"))


async def test_an_ended_session_keeps_it_as_it_is(database: Database) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await session.end()
        with pytest.raises(UsageError, match="has ended"):
            await session.set_scratchpad("late")


async def test_the_command_line_shows_and_changes_it(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    async with ModelServer() as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
    (tmp_path / "notes.md").write_text("# Plan\n")
    (tmp_path / "editor").write_text('#!/bin/sh\nprintf "edited" >> "$1"\n')
    (tmp_path / "editor").chmod(0o755)
    own = {**environment, "EDITOR": str(tmp_path / "editor")}

    async def run(*options: str, code: int = 0) -> str:
        done = await in_thread(run_here, "session", "notes", session.id, *options, environment=own, code=code)
        return " ".join((done.stdout + done.stderr).split())

    assert "is empty" in await run()
    assert "6 of 8,000 characters" in await run("--set", str(tmp_path / "notes.md"))
    await run("--append", "- look")
    await run("--edit")
    shown = json.loads(await run("--json"))
    assert shown["text"] == "# Plan\n- look\nedited"
    assert "one of --set, --append and --edit" in await run("--append", "x", "--edit", code=2)
    log = await read_log(database, session.id)
    assert {event.principal for event in log if event.data.get("decision") == "scratchpad_set"} == {"user:cli"}
