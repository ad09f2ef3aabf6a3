"""Random trees of forks and restores: each reads what a straight copy of its past does; nothing is learned twice."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from consolidator.clock import FrozenClock
from consolidator.context.build import ContextRequest, advance_history, build_context
from consolidator.context.reader import STRATEGIES
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.jobs import retention
from consolidator.models.event import Event, NewEvent, with_principals
from consolidator.models.lineage import Lineage
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.runtime.lineage.checkpoints import create_checkpoint, restore_checkpoint
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.service.log.events import read_events
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import lineage, sessions
from consolidator.store.turns import lease
from tests.nights import query_number, run_next_night
from tests.support import FULL, assert_invariants, assistant_response, call_and_result, user_message

_numbers = itertools.count()
SMALL_WINDOW = 6  # events


@dataclass(frozen=True)
class Action:
    """What is done to one of the sessions there are; the numbers choose the session and the point."""

    kind: str  # talk | fork | restore
    session: int
    point: int
    seed: int


actions = st.lists(
    st.builds(
        Action,
        st.sampled_from(["talk", "talk", "fork", "restore"]),
        st.integers(0, 20),
        st.integers(0, 200),
        st.integers(0, 2**16),
    ),
    min_size=3,
    max_size=9,
)
bounded = examples(
    max_examples=100 if FULL else 12,
    deadline=None,
    derandomize=not FULL,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def turn_events(rng: random.Random, head: int) -> list[NewEvent]:
    """Return a turn after `head`: a message, perhaps a call that changes the state, an answer, perhaps a decision."""
    number = next(_numbers)
    turn = [user_message(f"message {number}")]
    if rng.random() < 0.6:
        call, result = call_and_result(f"c{number}", "look", {"number": number})
        patch = {rng.choice("abc"): number} if rng.random() < 0.7 else {}
        turn += [call, NewEvent(result.type, {**result.data, **({"state_patch": patch} if patch else {})})]
    turn.append(assistant_response(f"answer {number}"))
    if rng.random() < 0.3:
        turn.append(NewEvent(EventType.POLICY_DECISION, {"decision": "scratchpad_set", "text": f"note {number}"}))
    if rng.random() < 0.25 and head > 2:
        kept = {"kept_from": rng.randint(1, head), "summary": f"summary {number}", "next_steps": []}
        turn.append(NewEvent(EventType.POLICY_DECISION, {"decision": "compaction", **kept}))
    return turn


async def log(database: Database, session_id: str, new: list[NewEvent]) -> None:
    """Append events as the runtime does: changes of the state go into the row, too."""
    async with database.transaction() as conn:
        await events.append(conn, session_id, with_principals(new), now=database.clock.now())
        for event in new:
            if event.data.get("state_patch"):
                await lease.patch_state(conn, session_id, event.data["state_patch"])


async def load(database: Database, session_id: str) -> tuple[SessionRow, Lineage, list[Event]]:
    """Return a session, its lineage and its whole past."""
    async with database.connection() as conn:
        row = await sessions.get(conn, session_id)
        past = await lineage.load_lineage(conn, row.id, row)
        return row, past, await lineage.read_lineage(conn, past, upto=row.head)


async def grow_tree(database: Database, settings: Settings, root: str, todo: list[Action]) -> list[str]:
    """Do what is to be done, and return the ids of the sessions."""
    async with database.connection() as conn:
        await sessions.open_session(conn, {"id": root, "agent": "coder", "key": root}, now=database.clock.now())
    await log(database, root, [user_message("begin"), assistant_response("I begin.")])
    ids = [root]
    for action in todo:
        chosen = ids[action.session % len(ids)]
        row, _, past = await load(database, chosen)
        if action.kind == "talk":
            rng = random.Random(action.seed)
            await log(database, chosen, turn_events(rng, row.head))
            if rng.random() < 0.5:
                async with database.connection() as conn:
                    await advance_history(conn, chosen)  # as its turns do, now and then
            continue
        point: int | None = past[action.point % len(past)].seq
        while True:
            try:
                ids.append(await _create_child(database, settings, action.kind, chosen, point))
                break
            except UsageError:  # a call is under way there, or a checkpoint is of an ancestor's event
                point = None
    return ids


async def _create_child(database: Database, settings: Settings, kind: str, session_id: str, at: int | None) -> str:
    if kind == "fork":
        return (await create_child(database, settings, session_id, ChildRequest(kind="fork", at=at))).id
    checkpoint = await create_checkpoint(database, session_id, at=at)
    await log(database, session_id, turn_events(random.Random(1), checkpoint.seq))  # it goes on before the restore
    return (await restore_checkpoint(database, settings, checkpoint.id)).id


async def copy_straight(database: Database, past: list[Event], name: str) -> str:
    """Log a session's whole past as a session of its own."""
    async with database.connection() as conn:
        await sessions.open_session(conn, {"id": name, "agent": "copy"}, now=database.clock.now())
    await log(database, name, [NewEvent(event.type, event.data, principal=event.principal) for event in past])
    return name


async def contexts_of(database: Database, session_id: str) -> dict[str, Any]:
    """Return what a model is shown of a session, by strategy, once all of its past is folded."""
    async with database.connection() as conn:
        while await advance_history(conn, session_id):
            continue
        shown = {}
        for strategy in STRATEGIES:
            for budget in (400, 20_000):
                context = await build_context(conn, session_id, ContextRequest(strategy, budget, 7))
                shown[f"{strategy} {budget}"] = (context.messages, context.first_seq, context.truncated, context.tokens)
    return shown


@bounded
@given(todo=actions)
async def test_each_context_is_a_straight_copys(database: Database, settings: Settings, todo: list[Action]) -> None:
    root = f"main:test:{next(_numbers)}"
    for session_id in await grow_tree(database, settings, root, todo):
        row, _, past = await load(database, session_id)
        assert [event.seq for event in past] == list(range(1, row.head + 1))
        assert [event.seq async for event in read_events(database, session_id)] == [event.seq for event in past]
        copy = await copy_straight(database, past, f"copy of {session_id}")
        assert row.state == (await load(database, copy))[0].state
        assert await contexts_of(database, session_id) == await contexts_of(database, copy)
    await assert_invariants(database)


@bounded
@given(todo=actions)
async def test_a_night_learns_from_each_event_once(database: Database, settings: Settings, todo: list[Action]) -> None:
    clock = database.clock
    assert isinstance(clock, FrozenClock)
    await grow_tree(database, settings, f"main:test:{next(_numbers)}", todo)
    waiting = await query_number(database, "select count(*) from event where consolidated_at is null")
    night = await run_next_night(database, clock, settings)
    assert (night["seen"], night["deferred"]) == (waiting, 0)
    calls = await query_number(database, "select count(*) from event where event_type = 'ToolCall'")
    counted = "select coalesce(sum((summary -> 'tools' ->> 'look')::bigint), 0)::bigint from digest"
    assert await query_number(database, counted) == calls
    await assert_invariants(database)


@bounded
@given(todo=actions, quiet=st.lists(st.booleans(), min_size=10, max_size=10))
async def test_retention_breaks_no_live_child(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch, todo: list[Action], quiet: list[bool]
) -> None:
    monkeypatch.setattr(retention, "CONTEXT_WINDOW", SMALL_WINDOW)
    clock = database.clock
    assert isinstance(clock, FrozenClock)
    ids = await grow_tree(database, settings, f"main:test:{next(_numbers)}", todo)
    clock.advance(timedelta(days=40))
    live = [session_id for session_id, is_quiet in zip(ids, itertools.cycle(quiet), strict=False) if not is_quiet]
    for session_id in live:
        await log(database, session_id, [user_message("still here"), assistant_response("so am I")])
    await run_next_night(database, clock, settings)
    before = {session_id: await _live_part(database, session_id) for session_id in live}
    await retention.prune(database, older_than=timedelta(days=30))
    for session_id in live:
        assert await _live_part(database, session_id) == before[session_id]
    await assert_invariants(database)


async def _live_part(database: Database, session_id: str) -> Any:
    """Return what the next turn of a session reads: its window, its state, and its whole folded past."""
    await contexts_of(database, session_id)  # folds it
    async with database.connection() as conn:
        row = await sessions.get(conn, session_id)
        past = await lineage.load_lineage(conn, session_id, row)
        window = await lineage.read_lineage(conn, past, after=row.head - SMALL_WINDOW, upto=row.head)
        view = await (
            await conn.execute(
                "select upto, summary, compaction, scratchpad from session_view where session_id = %s", [session_id]
            )
        ).fetchone()
    return [(event.seq, event.type, dict(event.data)) for event in window], row.state, view
