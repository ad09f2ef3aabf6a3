"""Items of an agent that another framework drives: added, read, and withdrawn, in a session of the framework's own.

Nothing is deleted: what is withdrawn is no longer given back, and stays in the log as something that happened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import InvalidEvent
from consolidator.formats.common.drafts import Draft
from consolidator.formats.common.json_parsing import MAX_DEPTH, exceeds_max_depth
from consolidator.formats.openai.responses import Origin, draft_item
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, check_name, name_principal
from consolidator.models.session import SessionRow
from consolidator.runtime.session.creation import parse_key
from consolidator.runtime.turn.sessions import LIBRARY
from consolidator.store.log import events, items
from consolidator.store.sessions import sessions

# No credential can have a name with a colon: nobody else appends to these sessions.
_RECORDER = "library:"


class ItemLog:
    """A framework's session under a key (`agent:channel:peer`): the latest that it opened and that has not ended.

    `framework` names who drives the agent; `surface` is where people type, and `origin` says whether the messages of
    role user are theirs or a program's. Raises UsageError for a key or a surface that is not valid.
    """

    def __init__(
        self, key: str, *, framework: str, surface: str = LIBRARY, origin: Origin = "user", project: str | None = None
    ) -> None:
        agent, channel, peer = parse_key(key)
        self.key = key
        self._columns = {"key": key, "agent": agent, "channel": channel, "peer": peer, "project": project}
        self._framework = framework
        self._recorder = _RECORDER + framework
        self._surface = check_name(surface)
        self._origin: Origin = origin

    async def add(self, database: Database, added: Sequence[Mapping[str, Any]], *, idempotency_key: str) -> None:
        """Append items, all or none; open the session if there is none. A repeated idempotency key writes nothing.

        Raises TypeError for what JSON cannot hold, and InvalidEvent for an item that is no object, or nested too deep.
        """
        new = self._build_events(added)
        values = {**self._columns, "recorded_by": self._recorder}
        async with database.transaction() as conn:
            now = database.clock.now()
            answered = await sessions.find_answered(conn, self.key, self._recorder, idempotency_key)
            session_id = answered or await sessions.open_current(conn, values, now=now)
            await events.append(conn, session_id, new, now=now, key=idempotency_key)

    async def read(self, database: Database, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the latest items that stand, the oldest first; none where there is no open session."""
        async with database.connection() as conn:
            session = await self._find(conn)
            stored = [] if session is None else await items.read_items(conn, session, limit)
        return [row.item for row in stored]

    async def pop(self, database: Database) -> dict[str, Any] | None:
        """Withdraw the latest item and return it; None if there is none."""
        async with database.transaction() as conn:
            session = await self._lock(conn)
            latest = [] if session is None else await items.read_items(conn, session, 2)
            if session is None or not latest:
                return None
            after = latest[0].seq if len(latest) > 1 else 0
            await self._withdraw(conn, database, session, after, "pop_item")
        return latest[-1].item

    async def clear(self, database: Database) -> None:
        """Withdraw all items."""
        async with database.transaction() as conn:
            session = await self._lock(conn)
            if session is not None and await items.read_items(conn, session, 1):
                await self._withdraw(conn, database, session, 0, "clear_session")

    async def _find(self, conn: Connection) -> SessionRow | None:
        return await items.find_recorded(conn, self.key, self._recorder)

    async def _lock(self, conn: Connection) -> SessionRow | None:
        """Lock the session, so that two that withdraw do not take the same item; return it as it is then."""
        session = await self._find(conn)
        if session is None:
            return None
        await sessions.lock(conn, [session.id])
        return await self._find(conn)

    async def _withdraw(
        self, conn: Connection, database: Database, session: SessionRow, after: int, operation: str
    ) -> None:
        data = {"decision": items.WITHDRAWN, "after": after, "upto": session.head, "operation": operation}
        new = NewEvent(EventType.POLICY_DECISION, data, principal=name_principal(Role.HARNESS, self._framework))
        await events.append(conn, session.id, [new], now=database.clock.now(), expected_head=session.head)

    def _build_events(self, added: Sequence[Mapping[str, Any]]) -> list[NewEvent]:
        new: list[NewEvent] = []
        tools: dict[str, str] = {}
        for number, item in enumerate(added, 1):
            if not isinstance(item, Mapping):
                raise InvalidEvent(f"item {number} is a {type(item).__name__}, not an object")
            if exceeds_max_depth(item):
                raise InvalidEvent(f"item {number} is nested deeper than {MAX_DEPTH} levels")
            copied = json.loads(json.dumps(item))
            *others, (last_type, last) = draft_item(copied, tools, self._origin)
            drafts: list[Draft] = [*others, (last_type, {**last, items.KEY: items.dump_item(copied)})]
            new += [NewEvent(kind, data, principal=self._name_principal(kind, data)) for kind, data in drafts]
        return new

    def _name_principal(self, event_type: EventType, data: Mapping[str, Any]) -> str:
        """Return who says an event: a person at the surface, or the framework, as a harness or as one who records."""
        if event_type is EventType.USER_MESSAGE and data.get("origin") == "user":
            return name_principal(Role.USER, self._surface)
        is_decision = event_type is EventType.POLICY_DECISION
        return name_principal(Role.HARNESS if is_decision else Role.CLIENT, self._framework)
