"""How often a turn asks the database, counted on the wire: what one more statement costs shows on every network."""

from __future__ import annotations

import pytest

from benchmarks.harness.round_trips import count_round_trips
from consolidator import tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.runtime.session import lease
from consolidator.testing import ModelServer, ScriptedReply
from tests.runtime import KEY, Replies, open_agent, send_and_collect

MAX_ROUND_TRIPS = 7


@tool(idempotent=True)
async def look(what: str) -> str:
    """Look at something."""
    return f"a view of {what}"


async def test_a_turn_with_a_tool_call_takes_few_round_trips(
    dsn: str, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "POLL_SECONDS", 3600)  # a heartbeat is no part of a turn
    turns = 4
    answers: Replies = [ScriptedReply.calling(("look", {"what": "a"})), "Done."] * turns
    counts = []
    async with count_round_trips(dsn) as counter:
        database = Database(counter.dsn, clock)
        try:
            async with ModelServer(answers=answers) as server, open_agent(database, server, [look]) as agent:
                session = await agent.open(KEY)
                for _ in range(turns):
                    before = counter.round_trips
                    assert await send_and_collect(session, "go") == "Done."
                    counts.append(counter.round_trips - before)
        finally:
            await database.close()
    assert min(counts) <= MAX_ROUND_TRIPS, counts  # others opened a connection
