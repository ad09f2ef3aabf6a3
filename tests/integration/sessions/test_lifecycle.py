"""The life of a session: created with all that is said, found again by it, its end and its errors in its row."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import Forbidden, NotFound, SessionDiffers, UsageError
from consolidator.models.session import Seed, SessionFilter, SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.runtime.session.creation import SessionRequest, create_session, open_session
from consolidator.runtime.turn import sessions
from consolidator.runtime.turn.sessions import end_session
from consolidator.service.sessions.listing import list_sessions, session_status, show_session
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.reuse import dsn, emptied
from tests.runtime import SECRET, open_agent, read_log, send_and_collect
from tests.support import log_events, user_message

__all__ = ["dsn", "emptied"]  # fixtures
SETTINGS = Settings(home=Path("/nonexistent"), model="gpt-4o-mini")
NAIVE = datetime(2026, 3, 1, 12, tzinfo=UTC).replace(tzinfo=None)
MAIL: dict[str, Any] = {
    "trigger_type": "email",
    "trigger_id": "<42@example.org>",
    "labels": {"mailbox_id": "m7", "space_id": 3},
}


async def create(database: Database, key: str | None = None, agent: str | None = "desk", **wanted: Any) -> SessionRow:
    """Create a session."""
    request = SessionRequest(**wanted)
    return await create_session(database, SETTINGS, request, agent=None if key else agent, key=key)


async def list_ids(database: Database, viewer: Viewer = OWNER, **wanted: Any) -> set[str]:
    """Return the ids of the sessions that a filter selects."""
    page = await list_sessions(database, SessionFilter(**wanted), viewer=viewer)
    return {session.id for session in page.sessions}


async def test_a_session_is_created_with_all_that_its_caller_says(database: Database) -> None:
    """P4."""
    session = await create(
        database, **MAIL, model="gpt-4o", max_cost=Decimal(1), project="/src", metadata={"subject": "Invoice"},
        context_window=5000, conversation_id="thread-9",
    )  # fmt: skip
    assert (session.trigger_type, session.trigger_id) == ("email", "<42@example.org>")
    assert (session.labels, session.details["metadata"]) == (
        {"mailbox_id": "m7", "space_id": 3},
        {"subject": "Invoice"},
    )
    assert (session.conversation_id, session.context_window, session.current) == ("thread-9", 5000, False)
    start = (await read_log(database, session.id))[0]
    assert start.data["trigger"] == {"type": "email", "id": "<42@example.org>"}
    assert start.principal == "operator"
    assert (session.head, session.settled_to, session.pending) == (1, 1, False)


async def test_a_session_that_exists_is_not_opened_with_another_beginning(database: Database) -> None:
    key = "desk:email:ines"
    seeds = [
        Seed("user", "Where is my invoice?", occurred_at=NAIVE, details={"speaker": "Ines"}),
        Seed("assistant", "Which one?", is_new=True, occurred_at=datetime(2026, 3, 1, 13, tzinfo=UTC)),
    ]
    begun: dict[str, Any] = {
        "project": "/src", "conversation_id": "thread-9", "trigger_type": "email", "trigger_id": "42", "seeds": seeds,
    }  # fmt: skip
    first = await open_session(database, SETTINGS, key, SessionRequest(**begun))
    for wanted in (begun, {}, {"project": "/src"}, {"trigger_type": "email"}):  # what stands, or nothing
        same = await open_session(database, SETTINGS, key, SessionRequest(**wanted))
        assert (same.id, same.head) == (first.id, first.head)
    others: dict[str, Any] = {
        "project": "/doc", "conversation_id": "thread-1", "trigger_type": "cron", "seeds": seeds[:1],
    }  # fmt: skip
    for name, value in others.items():
        with pytest.raises(SessionDiffers, match=f"other values of {name}, and these stay: leave them out to go on"):
            await open_session(database, SETTINGS, key, SessionRequest(**{name: value}, max_steps=7))
    with pytest.raises(SessionDiffers, match=r"project, conversation_id, trigger_type, trigger_id, seeds, and"):
        await open_session(database, SETTINGS, key, SessionRequest(**others, trigger_id="43"))
    assert await open_session(database, SETTINGS, key, SessionRequest()) == same  # nothing of it was set
    new = await create(database, key, **others)
    assert (new.id != first.id, new.project, new.conversation_id) == (True, "/doc", "thread-1")


async def test_a_fork_that_took_over_a_key_is_opened_as_the_session_before_it(database: Database) -> None:
    key = "desk:email:ines"
    seeds = [Seed("user", "Where is my invoice?")]
    begun: dict[str, Any] = {"project": "/src", "trigger_type": "email", "trigger_id": "42", "seeds": seeds}
    first = await open_session(database, SETTINGS, key, SessionRequest(**begun))
    fork = await create_child(database, SETTINGS, first.id, ChildRequest(kind="fork", is_current=True))
    assert (await open_session(database, SETTINGS, key, SessionRequest(**begun))).id == fork.id
    with pytest.raises(SessionDiffers, match="other values of seeds"):
        await open_session(database, SETTINGS, key, SessionRequest(seeds=[Seed("user", "Something else")]))


async def test_metadata_is_added_name_by_name_and_logged(database: Database) -> None:
    key = "desk:email:ines"
    await open_session(database, SETTINGS, key, SessionRequest(metadata={"subject": "Invoice", "tries": 1}))
    await open_session(database, SETTINGS, key, SessionRequest(metadata={"subject": "Invoice"}))
    session = await open_session(database, SETTINGS, key, SessionRequest(metadata={"tries": 2, "open": None}))
    assert session.details["metadata"] == {"subject": "Invoice", "tries": 2, "open": None}
    [_, change] = await read_log(database, session.id)
    assert change.data["changed"] == {"metadata": {"tries": 2, "open": None}}
    half = {"a": "x" * 40_000}
    await open_session(database, SETTINGS, key, SessionRequest(metadata=half))
    with pytest.raises(UsageError, match="the metadata is larger"):
        await open_session(database, SETTINGS, key, SessionRequest(metadata={"b": half["a"]}))


async def test_a_run_of_a_key_continues_its_conversation_and_its_runs_are_listed_in_order(
    database: Database, clock: FrozenClock
) -> None:
    key = "desk:email:ines"
    first = await open_session(database, SETTINGS, key, SessionRequest())
    clock.advance(timedelta(minutes=1))
    second = await create(database, key)
    clock.advance(timedelta(minutes=1))
    await end_session(database, second.id)
    third = await open_session(database, SETTINGS, key, SessionRequest())
    assert first.conversation_id == first.id
    assert [second.conversation_id, third.conversation_id] == [first.id] * 2
    page = await list_sessions(database, SessionFilter(conversation=first.id), order="runs")
    assert [session.id for session in page.sessions] == [first.id, second.id, third.id]
    assert [session.current for session in page.sessions] == [False, False, True]


async def test_of_sessions_created_at_once_under_a_key_one_is_current_and_all_are_one_conversation(
    database: Database,
) -> None:
    await create(database, "desk:cron:nightly")
    made = await asyncio.gather(*(create(database, "desk:cron:nightly") for _ in range(6)))
    page = await list_sessions(database, SessionFilter(key="desk:cron:nightly"))
    assert len({session.id for session in made}) == 6
    assert [session.current for session in page.sessions].count(True) == 1
    assert len({session.conversation_id for session in page.sessions}) == 1


async def test_a_conversation_that_a_person_deleted_is_not_continued(database: Database) -> None:
    first = await create(database, "desk:chat:ines")
    await end_session(database, first.id, hide=True)
    assert (await create(database, "desk:chat:ines")).conversation_id != first.conversation_id


async def test_sessions_are_found_by_what_they_are_for(database: Database) -> None:
    mail = await create(database, **MAIL)
    await create(database, trigger_type="cron", labels={"mailbox_id": "m8"})
    assert await list_ids(database, trigger_type="email") == {mail.id}
    assert await list_ids(database, trigger_type="email", trigger_id="<42@example.org>") == {mail.id}
    assert await list_ids(database, labels={"mailbox_id": "m7"}) == {mail.id}
    assert await list_ids(database, labels={"mailbox_id": "m7", "space_id": 4}) == set()
    assert await list_ids(database, agent="nobody") == set()


@pytest.mark.parametrize("order", ["latest", "created", "runs"])
async def test_pages_hold_each_session_once(database: Database, clock: FrozenClock, order: Any) -> None:
    made = []
    for number in range(7):
        made.append((await create(database)).id)
        clock.advance(timedelta(seconds=number % 2))  # some at the same moment
    seen: list[str] = []
    after = None
    while True:
        page = await list_sessions(database, order=order, after=after, limit=2)
        seen += [session.id for session in page.sessions]
        if (after := page.next) is None:
            break
    assert sorted(seen) == sorted(made)
    assert seen == (made if order == "runs" else made[::-1])


async def test_a_status_says_what_a_session_is_doing(database: Database, clock: FrozenClock) -> None:
    session = await create(database)
    await sessions.send_message(database, session.id, "hello")
    ended = await create(database)
    row = await end_session(database, ended.id, reason="done")
    assert (row.status, row.completed_at) == ("ended", clock.now())
    shown = await show_session(database, SETTINGS, session.id)
    assert (shown.status, session_status(row, clock.now())) == ("pending", "ended")
    assert shown.context is not None
    assert (shown.context.window, shown.context.tokens > 0) == (128_000, True)
    assert await list_ids(database, status="pending") == {session.id}
    assert await list_ids(database, status="ended") == {ended.id}


async def test_the_error_of_a_turn_is_noted_without_secrets_and_cleared_by_the_next_good_one(
    database: Database,
) -> None:
    replies: list[ScriptedReply | str] = [ScriptedReply(status=400, text=f"bad key {SECRET}"), "Fine."]
    async with ModelServer(answers=replies) as server, open_agent(database, server) as agent:
        session = await agent.open("desk:test:ines")
        await send_and_collect(session, "one")
        failed = await session.info()
        assert await list_ids(database, status="failed") == {session.id}
        await send_and_collect(session, "two")
        row = await session.info()
    assert failed.error
    assert SECRET not in failed.error
    assert (row.error, row.completed_at, row.turns) == (None, None, 1)


async def test_a_persons_message_moves_the_end_on(database: Database, clock: FrozenClock) -> None:
    session = await create(database, session_ttl_seconds=3600)
    clock.advance(timedelta(minutes=50))
    await sessions.send_message(database, session.id, "still here")
    async with database.connection() as conn:
        row = await (await conn.execute("select expires_at from session where id = %s", [session.id])).fetchone()
    assert row == (clock.now() + timedelta(hours=1),)


async def test_a_credential_creates_and_sees_sessions_within_its_reach_alone(database: Database) -> None:
    mine = Viewer("laptop", frozenset({"read", "write"}), agent="desk", project="/src", peer="ines")
    session = await create_session(database, SETTINGS, SessionRequest(), viewer=mine)
    assert (session.agent, session.project, session.peer) == ("desk", "/src", "ines")
    assert (await read_log(database, session.id))[0].principal == "operator:laptop"
    other = await create(database, "desk:chat:omar")
    foreign = await create(database, "desk:chat:ines", project="/elsewhere")
    assert await list_ids(database, viewer=mine) == {session.id}
    for key in ("desk:chat:omar", "spy:chat:ines", "desk"):
        with pytest.raises(UsageError):
            await create_session(database, SETTINGS, SessionRequest(), key=key, viewer=mine)
    with pytest.raises(NotFound):
        await open_session(database, SETTINGS, "desk:chat:ines", SessionRequest(max_steps=1), viewer=mine)
    for name in (other.id, foreign.id):
        with pytest.raises(NotFound):
            await end_session(database, name, viewer=mine)
        with pytest.raises(NotFound):
            await show_session(database, SETTINGS, name, viewer=mine)
    reader = Viewer("eyes", frozenset({"read"}))
    with pytest.raises(Forbidden):
        await create_session(database, SETTINGS, SessionRequest(), agent="desk", viewer=reader)
    with pytest.raises(Forbidden):
        await end_session(database, session.id, viewer=reader)


async def test_what_another_harness_drives_is_not_ended_here(database: Database) -> None:
    await log_events(database, "theirs", [user_message("hi")], origin="codex:theirs")
    with pytest.raises(UsageError, match="imported"):
        await end_session(database, "theirs")
