"""From a call to the lines of memory that stood before it, and from a file to who changed it and what failed there."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound, UsageError
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.payload import EventType
from consolidator.service.log.record import record_events
from consolidator.service.memory.blame import blame_call, blame_path
from consolidator.service.memory.explain import explain
from consolidator.service.memory.lessons import forget_lesson
from consolidator.service.memory.proving import replay_blamed
from consolidator.service.memory.remember import remember
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.integration.nights.test_worth import LESSON, RIGHT, SHOP, WRONG, log_session, minutes_later, tell
from tests.nights import run_next_night
from tests.runtime import create_settings
from tests.support import call_and_result, log_events, user_message

TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"
BLOCK = "<recalled-memory>\n- `make` is at fault [lesson:l_0123456789]\n</recalled-memory>"


async def log_calls(database: Database, name: str, *events: NewEvent) -> None:
    await log_events(database, name, [user_message("go"), *events], agent="claude-code", project=SHOP)


async def test_a_call_is_traced_to_the_lines_that_its_session_was_told(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(3):
        await log_session(database, f"u{number}", WRONG, RIGHT)
    await run_next_night(database, clock, settings)
    await tell(database, "t", "fact:f_gone", f"lesson:{LESSON}")
    minutes_later(database)
    await log_calls(
        database,
        "t",
        *call_and_result("a", "WebFetch", {"url": "https://page.example"}, BLOCK),  # a page that blames a lesson
        *call_and_result("b", "mcp__consolidator__recall", {"query": "tests"}, BLOCK.replace("012345", "abcdef")),
        NewEvent(EventType.THINKING_START, {"message_id": "m1", "recalled": ["f_0123abcd"]}),
        *call_and_result("c", "Bash", {"command": "pnpm run test --token " + TOKEN}, "12"),
    )
    minutes_later(database)
    await tell(database, "t", "fact:f_later")
    blamed = await blame_call(database, "t", 7)
    first, *others = blamed["lines"]
    assert (first["id"], first["moment"], first["agent"]) == (LESSON, "session_start", "claude-code")
    assert {"pnpm", "run", "test"} <= set(first["words"])
    assert first["quote"] == WRONG[0]
    assert first["text"] == (await explain(database, LESSON))["title"]
    assert [(line["id"], line["moment"], line["text"]) for line in others] == [
        ("f_gone", "session_start", None),
        ("l_abcdef6789", "recall", None),
        ("f_0123abcd", "recall", None),
    ]
    assert "ghp_" not in blamed["call"]
    await forget_lesson(database, LESSON)
    assert [line["words"] for line in (await blame_call(database, "t", 7))["lines"]] == [[], [], [], []]
    with pytest.raises(UsageError):
        await blame_call(database, "t", 3)
    with pytest.raises(NotFound):
        await blame_call(database, "nobody", 3)


@pytest.mark.parametrize("recalled", [["l_0123456789"], "l_0123456789", {"a": 1}, [["x"], None, {}], 7, None])
async def test_what_a_client_says_was_recalled_is_no_line_of_memory(database: Database, recalled: Any) -> None:
    thought: dict[str, Any] = {"type": "ThinkingStart", "data": {"message_id": "m1", "recalled": recalled}}
    call = {"type": "ToolCall", "data": {"call_id": "a", "tool": "Bash", "arguments": {"command": "make"}}}
    recorded = await record_events(database, "main:cli:mara", [thought, call])
    blamed = await blame_call(database, recorded["session"], recorded["first_seq"] + 1)
    assert (blamed["call"], blamed["lines"]) == ("make", [])
    await log_calls(
        database, "t", NewEvent(EventType.THINKING_START, thought["data"]), *call_and_result("b", "Bash", {})
    )
    await blame_call(database, "t", 3)  # of our runtime, whatever form it has


async def test_a_file_is_traced_to_its_changes_decisions_and_failures(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    edit = {"file_path": f"{SHOP}/src/cart.py", "old_string": "a", "new_string": "b"}
    await log_calls(
        database,
        "one",
        *call_and_result("a", "Edit", edit, "done"),
        *call_and_result("b", "Bash", {"command": "python src/cart.py"}, "SyntaxError: invalid syntax", "error"),
        *call_and_result("c", "Edit", edit, "done"),
        *call_and_result("d", "Edit", edit | {"file_path": f"{SHOP}/src/other/my_cart.py"}, "done"),
    )
    await remember(database, "In src/cart.py prices are integers.", MemoryScope("claude-code", SHOP))
    await run_next_night(database, clock, settings)
    known = await blame_path(database, f"{SHOP}/src/cart.py", SHOP)
    assert [(row["session_id"], row["changes"], row["title"]) for row in known["sessions"]] == [("one", 2, "go")]
    assert [(row["seq"], row["reason"]) for row in known["failures"]] == [(4, "SyntaxError: invalid syntax")]
    assert [row["text"] for row in known["decisions"]] == ["In src/cart.py prices are integers."]
    assert known == await blame_path(database, "src/cart.py", SHOP)


async def test_a_replay_shows_what_a_call_becomes_without_a_line_and_forgets_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(3):
        await log_session(database, f"u{number}", WRONG, RIGHT)
    await run_next_night(database, clock, settings)
    await tell(database, "t", f"lesson:{LESSON}", "fact:f_0123abcd")
    minutes_later(database)
    await log_session(database, "t", RIGHT)
    blamed = await blame_call(database, "t", 2)
    line = blamed["lines"][0]["text"]

    def answer(request: dict[str, Any]) -> ScriptedReply:
        is_told = line in str(request["messages"][0])
        return ScriptedReply.calling(("Bash", {"command": RIGHT[0] if is_told else f"{WRONG[0]} --token {TOKEN}"}))

    async with ModelServer(answers=answer) as server:
        told, untold = await replay_blamed(database, create_settings(server, settings.home), blamed, LESSON)
    assert set(told) == {RIGHT[0]}
    assert all(call.startswith(WRONG[0]) and TOKEN not in call for call in untold)
    with pytest.raises(UsageError, match="none of the lines"):
        await replay_blamed(database, settings, blamed, "f_0123abcd", model="m")
    with pytest.raises(UsageError, match="no model is configured"):
        await replay_blamed(database, settings.model_copy(update={"model": None}), blamed, LESSON)
    assert (await explain(database, LESSON))["title"] == line
