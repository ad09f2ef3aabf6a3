"""A hydrated session is of one moment, and says what is open in it."""

from __future__ import annotations

from pathlib import Path

from consolidator.database import Database
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.session import hydration
from consolidator.service.sessions.listing import hydrate_session
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from consolidator.testing import ModelServer
from tests.conftest import NOON
from tests.runtime import KEY, open_agent
from tests.support import user_message


async def test_what_is_committed_meanwhile_is_not_seen_in_part(database: Database, tmp_path: Path) -> None:
    """P14."""
    async with ModelServer(["Hello"]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY, "gpt-4o-mini")
        await session.set_scratchpad("first")
    settings = Settings(home=tmp_path)
    async with database.snapshot() as conn:
        row = await sessions.get(conn, session.id)
        async with ModelServer(["Hello"]) as server, open_agent(database, server) as agent:
            again = await agent.session(session.id)
            await again.set_scratchpad("second")
            await again.fork()
        shown = await hydration.hydrate_session(conn, settings, row, now=NOON)
    assert (shown.scratchpad.text, shown.children, shown.session.head) == ("first", [], row.head)
    later = await hydrate_session(database, settings, session.id)
    assert (later.scratchpad.text, len(later.children)) == ("second", 1)


async def test_an_answer_under_way_is_named(database: Database) -> None:
    async with ModelServer(["Hello"]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY, "gpt-4o-mini")
        async with database.transaction() as conn:
            thinking = NewEvent(EventType.THINKING_START, {"message_id": "m-1", "upto_seq": 2}, principal="agent")
            new = [user_message("Hi"), thinking]
            await events.append(conn, session.id, new, now=NOON)
        shown = await session.hydrate(limit=1)
        assert (shown.answering, shown.earlier_before) == ("m-1", None)
        assert [event.data["text"] for event in shown.messages] == ["Hi"]
