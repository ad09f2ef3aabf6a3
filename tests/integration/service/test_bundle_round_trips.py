"""Random sessions with all that can belong to one: a bundle of each, imported and exported again, is the same bytes."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.database.jsonb import dumps
from consolidator.errors import UsageError
from consolidator.models.event import NewEvent, with_principals
from consolidator.models.payload import EventType
from consolidator.models.session import Seed
from consolidator.runtime.lineage.checkpoints import create_checkpoint, restore_checkpoint
from consolidator.runtime.lineage.children import ChildRequest, SpawnCall, create_child
from consolidator.service.sessions.bundles import load_bundle
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import seeds, sessions
from consolidator.store.turns import context, lease
from tests.conftest import NOON
from tests.integration.service.test_bundles import bundle_text, deliver, replayed, save, stream
from tests.support import FULL, assert_invariants, user_message

_numbers = itertools.count()
LARGE = 20_000  # characters, which the database keeps in a blob

texts = st.text(max_size=30) | st.sampled_from(["\0", "\ud800", "\ue000\u2028", "x" * LARGE])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
# What an event of each type must have; the rest of its payload is anything.
NEEDED: dict[EventType, dict[str, Any]] = {
    EventType.SESSION_START: {},
    EventType.SESSION_END: {},
    EventType.USER_MESSAGE: {"text": "hello"},
    EventType.ASSISTANT_RESPONSE: {"text": "an answer"},
    EventType.TOOL_CALL: {"call_id": "c", "tool": "look"},
    EventType.TOOL_RESULT: {"call_id": "c", "tool": "look"},
    EventType.THINKING_START: {},
    EventType.POLICY_DECISION: {"decision": "configuration_changed"},
    EventType.TASK_START: {"task_id": "t"},
    EventType.TASK_END: {"task_id": "t", "outcome": "success"},
    EventType.ERROR: {"message": "failed"},
    EventType.SUBAGENT_SPAWN: {},
    EventType.SUBAGENT_COMPLETE: {},
    EventType.APPROVAL_REQUESTED: {},
    EventType.APPROVAL_GRANTED: {},
    EventType.APPROVAL_DENIED: {},
}
OTHER = [
    "answer", "replaced answer", "steered answer", "state", "withdraw", "row", "view", "seed", "fork", "restore",
    "checkpoint", "sub-agent",
]  # fmt: skip


@dataclass(frozen=True)
class Action:
    """What is done to one of the sessions there are: an event's type, or one of OTHER."""

    kind: str
    session: int
    point: int
    text: str
    value: Any


actions = st.lists(
    st.builds(
        Action,
        st.sampled_from([kind.value for kind in EventType if kind is not EventType.SESSION_END] + OTHER * 2),
        st.integers(0, 9),
        st.integers(0, 99),
        texts,
        values,
    ),
    min_size=4,
    max_size=24,
)
bounded = examples(
    max_examples=80 if FULL else 8,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate, Phase.shrink) if FULL else (Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Family:
    """Sessions of one root, which are written as the runtime writes them."""

    database: Database
    settings: Settings
    ids: list[str] = field(default_factory=list)

    async def begin(self) -> None:
        """Open the root."""
        await self._tick()
        name = f"01ROOT{next(_numbers)}"
        columns = {"id": name, "agent": "main", "channel": "chat", "peer": "ann", "key": f"main:chat:{name}"}
        async with self.database.connection() as conn:
            await sessions.open_session(conn, columns, now=self.database.clock.now())
        self.ids.append(name)
        await self.log(name, user_message("begin"))

    async def _tick(self) -> None:
        assert isinstance(self.database.clock, FrozenClock)
        self.database.clock.advance(timedelta(seconds=1))

    async def log(self, session: str, *new: NewEvent) -> int:
        """Append events a moment later, and return the seq of the last."""
        await self._tick()
        now = self.database.clock.now()
        async with self.database.transaction() as conn:
            last = await events.append(conn, session, with_principals(new, "chat"), now=now)
        return last.last_seq

    async def do(self, action: Action) -> None:
        """Do what is to be done; what a session cannot have at that point is left out."""
        session = self.ids[action.session % len(self.ids)]
        if action.kind in OTHER:
            try:
                await getattr(self, f"do_{action.kind.replace(' ', '_').replace('-', '_')}")(session, action)
            except UsageError:  # something is open there
                return
        else:
            kind = EventType(action.kind)
            data = {"more": action.value, **NEEDED[kind]}
            data |= {"task_id": f"t{action.point % 3}"} if "task_id" in data else {}
            tool = action.text[:9] if action.point % 4 == 0 else None
            await self.log(session, NewEvent(kind, data, tool_name=tool))
        event(action.kind)

    async def do_answer(self, session: str, action: Action) -> None:
        """Stream an answer to two channels."""
        message = f"m{next(_numbers)}"
        started = await self.log(session, NewEvent(EventType.THINKING_START, {"message_id": message}))
        pieces = [action.text, "and ", "on"][: 1 + action.point % 3]
        await stream(self.database, session, message, started, *pieces)
        await deliver(self.database, session, message, started, 1, "chat")
        if action.kind == "steered answer":
            await self.log(session, user_message("stop", mode="steer"))
            await stream(self.database, session, message, started, "after it", after=len(pieces))
            pieces.append("after it")
        await deliver(self.database, session, message, started, len(pieces), f"screen {action.point}")
        if action.kind == "replaced answer":
            data = {"decision": "generation_replaced", "message_id": message}
            await self.log(session, NewEvent(EventType.POLICY_DECISION, data))
            return
        said = {"text": "".join(pieces), "message_id": message, "chunks": len(pieces)}
        await self.log(session, NewEvent(EventType.ASSISTANT_RESPONSE, said))

    do_replaced_answer = do_steered_answer = do_answer

    async def do_state(self, session: str, action: Action) -> None:
        """Change the state by a call's result."""
        patch = {action.text: action.value}
        result = {"call_id": "s", "tool": "look", "state_patch": patch}
        await self.log(session, NewEvent(EventType.TOOL_CALL, {"call_id": "s", "tool": "look"}))
        await self.log(session, NewEvent(EventType.TOOL_RESULT, result))
        async with self.database.transaction() as conn:
            await lease.patch_state(conn, session, patch)

    async def do_withdraw(self, session: str, action: Action) -> None:
        """Take back items, as another framework does."""
        item = {"decision": "item_recorded", "item": action.value}
        last = await self.log(session, NewEvent(EventType.POLICY_DECISION, item))
        taken = {"decision": "items_withdrawn", "after": last - 1, "upto": last}
        await self.log(session, NewEvent(EventType.POLICY_DECISION, taken))

    async def do_row(self, session: str, action: Action) -> None:
        """Set what a session's row says beside its log."""
        async with self.database.connection() as conn:
            await conn.execute(
                "update session set config = config || %s, details = %s, labels = %s, max_cost = %s, cost = 0.125, "
                "turns = %s, input_tokens = 7, output_tokens = 6, cached_tokens = 5, compactions = 4, "
                "trigger_type = 'cron', trigger_id = %s, context_window = %s, error = 'odd' where id = %s",
                [
                    Jsonb({"system": action.text}, dumps=dumps),
                    Jsonb({"more": action.value}, dumps=dumps),
                    Jsonb({"space_id": action.point}),
                    None if action.point % 2 else f"{action.point}.5",
                    action.point,
                    f"job {action.point}",
                    action.point or None,
                    session,
                ],
            )

    async def do_view(self, session: str, action: Action) -> None:
        """Fold the past up to a point."""
        async with self.database.connection() as conn:
            row = await sessions.get(conn, session)
            view = {
                "upto": row.base_seq + action.point % (row.head - row.base_seq + 1),
                "summary": {"tools": action.value},
                "compaction_seq": 0,
                "compaction": {"text": action.text},
                "scratchpad_seq": action.point % (row.head + 1),
                "scratchpad": action.text,
            }
            await context.save_view(conn, session, view)

    async def do_seed(self, session: str, action: Action) -> None:
        """Say what the model saw at the start."""
        async with self.database.connection() as conn:
            if not await seeds.read(conn, session):
                thread = [Seed("system", action.text), Seed("user", "x", True, NOON, {"more": action.value})]
                await seeds.add(conn, session, thread)

    async def do_fork(self, session: str, action: Action) -> None:
        """Fork at a point, or at the latest where something is open at that one."""
        async with self.database.connection() as conn:
            head = (await sessions.get(conn, session)).head
        request = ChildRequest(kind="fork", at=1 + action.point % head if action.point % 2 else None)
        await self.adopt((await create_child(self.database, self.settings, session, request)).id)

    async def do_checkpoint(self, session: str, action: Action) -> None:
        """Label a point."""
        label = f"{action.text[:20]} {next(_numbers)}"
        kept = timedelta(days=30)
        await create_checkpoint(self.database, session, label=label, metadata={"more": action.value}, time_to_live=kept)

    async def do_restore(self, session: str, action: Action) -> None:
        """Restore a checkpoint."""
        checkpoint = await create_checkpoint(self.database, session, time_to_live=timedelta(days=30))
        await self.adopt((await restore_checkpoint(self.database, self.settings, checkpoint.id)).id)

    async def do_sub_agent(self, session: str, action: Action) -> None:
        """Have a sub-agent."""
        call_id = f"spawn{next(_numbers)}"
        call = SpawnCall(
            call_id=call_id,
            trigger_type="agent",
            seeds=(Seed("user", action.text, is_new=True),),
            config={"result_mode": "full"},
            task=NewEvent(EventType.USER_MESSAGE, {"text": "look", "origin": "harness"}, principal="harness"),
            announce=lambda child: NewEvent(EventType.SUBAGENT_SPAWN, {"child": child, "call_id": call_id}),
            max_unfinished=99,
        )
        request = ChildRequest(kind="sub-agent", call=call)
        await self.adopt((await create_child(self.database, self.settings, session, request)).id)

    async def adopt(self, child: str) -> None:
        """Have a child be chosen, too."""
        self.ids.append(child)
        await self.log(child, user_message("only in the child"))


def lines_of(text: str) -> list[Any]:
    """Return a bundle's lines without its headers and its checksum."""
    lines = [json.loads(line) for line in text.split("\n") if line]
    return [line for line in lines if "consolidator" not in line and "end" not in line]


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@bounded
@given(todo=actions, ends=st.booleans())
async def test_each_bundle_comes_back_the_same(
    database: Database, other: Database, settings: Settings, tmp_path: Path, todo: list[Action], ends: bool
) -> None:
    family = Family(database, settings)
    await family.begin()
    for action in todo:
        await family.do(action)
    if ends:
        await family.log(family.ids[-1], NewEvent(EventType.SESSION_END, {"reason": "done"}))
    bundles = {name: await bundle_text(database, name) for name in family.ids}
    here = {}
    for name in reversed(family.ids):  # children come first, with what they read of their parents
        imported, report = await load_bundle(other, save(bundles[name], tmp_path))
        assert report.problems == []
        assert await bundle_text(other, imported.session_id) == bundles[name]
        here[name] = imported.session_id
    for name, there in here.items():
        again, _ = await load_bundle(other, save(bundles[name], tmp_path))
        assert (again.session_id, again.events, again.is_new) == (there, 0, False)
        assert await bundle_text(other, there) == bundles[name]
        assert await bundle_text(other, there, exact=False) == await bundle_text(database, name, exact=False)
        assert await replayed(other, there) == await replayed(database, name)
        copy, _ = await load_bundle(database, save(bundles[name], tmp_path), as_copy=True)
        assert lines_of(await bundle_text(database, copy.session_id)) == lines_of(bundles[name])
        async with database.connection() as conn, other.connection() as there_conn:
            original, moved = await sessions.get(conn, name), await sessions.get(there_conn, there)
        assert moved.parent_id == (here.get(original.parent_id) if original.parent_id else None)
        assert (moved.base_seq, moved.head, moved.kind) == (original.base_seq, original.head, original.kind)
        assert moved.open_task == original.open_task
    await assert_invariants(database)
    await assert_invariants(other)
