"""Tasks of native sessions: the nights read up to a closed one at once, and count how procedures went."""

from __future__ import annotations

from typing import Any

from consolidator import Consolidator, tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.nights import query_number, query_rows, run_next_night
from tests.runtime import open_agent, send_and_collect
from tests.support import run_job


@tool(idempotent=True)
async def get_user(user: str) -> dict[str, Any]:
    """Look a user up."""
    return {"user": user, "booking": f"BK-{user}"}


@tool(idempotent=True)
async def get_booking(booking: str) -> dict[str, Any]:
    """Look a booking up."""
    return {"booking": booking, "cabin": "economy"}


@tool(idempotent=True)
async def move_booking(booking: str) -> str:
    """Move a booking."""
    return f"moved {booking}"


def move_booking_of(request: dict[str, Any]) -> ScriptedReply:
    """Look the user up, then the booking, then move it, and say how it went."""
    messages = request["messages"]
    last = max(place for place, message in enumerate(messages) if message["role"] == "user")
    user = messages[last]["content"].split()[-1]
    steps: list[tuple[str, dict[str, Any]]] = [
        ("start_task", {"title": "Move a booking"}),
        ("get_user", {"user": user}),
        ("get_booking", {"booking": f"BK-{user}"}),
        ("move_booking", {"booking": f"BK-{user}"}),
        ("finish_task", {"outcome": "failure" if user == "bad" else "success"}),
    ]
    done = sum(message["role"] == "tool" for message in messages[last:])
    return ScriptedReply.calling(steps[done]) if done < len(steps) else ScriptedReply(text="Moved.")


async def move_bookings(agent: Consolidator, *users: str) -> None:
    """Let the agent move a booking of each user, each in a session of its own."""
    for user in users:
        session = await agent.open(f"main:test:{user}", project="shop")
        await send_and_collect(session, f"move the booking of {user}")


async def test_a_procedure_counts_how_its_tasks_went(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    tools = [get_user, get_booking, move_booking]
    async with (
        ModelServer(answers=move_booking_of) as server,
        open_agent(database, server, tools, builtin=["tasks"]) as agent,
    ):
        await move_bookings(agent, "ines", "mara", "joe", "bad")
    await run_next_night(database, clock, settings, hours=1)
    rows = await query_rows(database, "select title, body from procedure where support = 4")
    assert rows
    success = {"alpha": 4.0, "beta": 2.0, "mean": 4 / 6, "basis": "tasks"}  # three succeeded, one failed
    assert all(row["body"]["success"] == success for row in rows)
    assert not any("task" in row["title"] for row in rows)  # keeping books is no step


async def test_a_closed_task_is_read_at_once(database: Database, settings: Settings) -> None:
    tools = [get_user, get_booking, move_booking]
    async with (
        ModelServer(answers=move_booking_of) as server,
        open_agent(database, server, tools, builtin=["tasks"]) as agent,
    ):
        await move_bookings(agent, "ines")
    await run_job(database, settings)  # nothing was quiet yet
    ended = await query_number(database, "select max(seq) from event where event_type = 'TaskEnd'")
    assert await query_number(database, "select consolidated_to from session") == ended
    assert await query_number(database, "select head from session") > ended
