"""Opens and creates sessions: what a caller asks for, merged with the defaults of the session's agent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any, cast

from ulid import ULID

from consolidator.database import Connection, Database
from consolidator.database.jsonb import escape
from consolidator.errors import SessionDiffers, UsageError
from consolidator.llm.prices import context_window
from consolidator.models.agent import AUTO, AgentRow
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role
from consolidator.models.seed import Seed, SeedRole
from consolidator.models.session import SessionRow
from consolidator.models.session_key import SessionKey, has_controls
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.budget import check_cap
from consolidator.runtime.session.routing import candidate_models
from consolidator.runtime.session.session_request import (
    SessionRequest,
    SessionSetup,
    changed_config,
    changed_metadata,
    set_up_session,
)
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import agents, seeds, sessions

_MAX_KEY_LENGTH = 300
_OPERATOR = Role.OPERATOR.value


def parse_key(key: str) -> tuple[str, str | None, str | None]:
    """Return agent, channel and peer of a key. Raises UsageError for an invalid key."""
    parsed = SessionKey.parse(key)
    if not parsed.agent.strip() or len(key) > _MAX_KEY_LENGTH or not _is_name(key):
        raise UsageError(f"{key[:80]!r} is not a valid session key, such as main:cli:mara")
    return parsed.agent, parsed.channel or None, parsed.peer or None


def _is_name(text: str) -> bool:
    return escape(text) == text and not has_controls(text)  # NUL and lone surrogates, which no database holds


async def open_session(
    database: Database,
    settings: Settings,
    key: str,
    request: SessionRequest,
    *,
    tools: tuple[str, ...] | None = None,
    principal: str = _OPERATOR,
) -> SessionRow:
    """Return the session that a key names now; create it if there is none. What the request names is set on it.

    `tools` are those that drive it here, where the session has no list of its own. Raises UsageError for an invalid
    key, for a cap in money that cannot be enforced, and for parameters that do not fit the agent's template, and
    SessionDiffers where the session began with another project, conversation, trigger or seeds.
    """
    agent_name, channel, peer = parse_key(key)
    values = {"id": str(ULID()), "key": key, "agent": agent_name, "channel": channel, "peer": peer}
    async with database.connection() as conn:
        agent = await agents.get_effective(conn, agent_name)
        current = await sessions.get_current(conn, key)
    setup = set_up_session(request, agent) if current is None else None
    model = request.model or (current.model if current else None) or (setup.model if setup else None)
    check_affordable(settings, model, setup.max_cost if setup else request.max_cost)
    new = {"project": request.project, "conversation_id": request.conversation_id}
    with boundary("commit session"):
        async with database.connection() as conn:
            session_id = await sessions.open_current(conn, values | new, now=database.clock.now())
    with boundary("commit configuration"):
        async with database.transaction() as conn:
            await sessions.lock(conn, [session_id])  # so that two concurrent openings do not overwrite each other
            session = await sessions.get(conn, session_id)
            await _check_beginning(conn, session, request)
            if session.head == 0:
                setup = setup or set_up_session(request, agent)
                await _begin(conn, database, session, request, _with_tools(setup, tools), principal)
            else:
                await _change(conn, database, session, request, agent, tools, principal)
            return await sessions.get(conn, session_id)


async def create_session(
    database: Database,
    settings: Settings,
    request: SessionRequest,
    *,
    agent: str | None = None,
    channel: str | None = None,
    peer: str | None = None,
    key: str | None = None,
    tools: tuple[str, ...] | None = None,
    principal: str = _OPERATOR,
) -> SessionRow:
    """Create a session in any case. A key names it from now on; the one that it named stays open, without the key.

    A run of the same key continues its conversation. Raises UsageError as `open_session` does, and for an agent,
    channel or peer that the key does not name.
    """
    owner = _owner_of(key, agent, channel, peer)
    values = {"id": str(ULID()), "key": key, **owner, "project": request.project}
    with boundary("commit session"):
        async with database.transaction() as conn:
            defaults = await agents.get_effective(conn, str(owner["agent"]))
            setup = set_up_session(request, defaults)
            check_affordable(settings, setup.model, setup.max_cost)
            values["conversation_id"] = request.conversation_id
            now = database.clock.now()
            await sessions.create_current(conn, values, now=now)
            session = await sessions.get(conn, str(values["id"]))
            await _begin(conn, database, session, request, _with_tools(setup, tools), principal)
            return await sessions.get(conn, session.id)


async def _begin(
    conn: Connection,
    database: Database,
    session: SessionRow,
    request: SessionRequest,
    setup: SessionSetup,
    principal: str,
) -> None:
    """Store what a new session begins with, log its start, and move its marks past it: nobody has to answer that."""
    now = database.clock.now()
    config = setup.config | ({"seeds": session.id} if setup.thread else {})
    await sessions.configure(conn, session.id, model=setup.model, max_cost=setup.max_cost, config=config)
    columns = {
        "context_window": find_window(setup.model, config),
        "trigger_type": request.trigger_type,
        "trigger_id": request.trigger_id,
        "labels": setup.labels,
        "metadata": dict(request.metadata or {}),
        "ttl_seconds": setup.ttl_seconds,
    }
    await sessions.describe(conn, session.id, columns, now=now)
    await seeds.add(conn, session.id, setup.seeds)
    start = NewEvent(EventType.SESSION_START, setup.start, principal=principal)
    appended = await events.append(conn, session.id, [start], now=now)
    await sessions.mark_started(conn, session.id, appended.last_seq)


async def _change(
    conn: Connection,
    database: Database,
    session: SessionRow,
    request: SessionRequest,
    agent: AgentRow | None,
    tools: tuple[str, ...] | None,
    principal: str,
) -> None:
    """Set what a request names and that differs, and log it; labels and metadata are added to those that stand."""
    wanted = changed_config(request, agent)
    if tools is not None and "allowed_tools" not in {**session.config, **wanted}:
        wanted["tools"] = list(tools)
    changed = {name: value for name, value in wanted.items() if session.config.get(name) != value}
    model, max_cost = request.model, request.max_cost
    if model is not None and model != session.model:
        changed["model"] = model
    if max_cost is not None and max_cost != session.max_cost:
        changed["max_cost"] = str(max_cost)
    labels = {name: value for name, value in (request.labels or {}).items() if session.labels.get(name) != value}
    if labels:
        changed["labels"] = labels
    metadata = changed_metadata(request, session.details.get("metadata") or {})
    if metadata:
        changed["metadata"] = metadata
    if not changed:
        return
    config = {**session.config, **wanted}
    await sessions.configure(conn, session.id, model=model, max_cost=max_cost, config=config)
    columns: dict[str, Any] = {
        "context_window": find_window(model or session.model, config),
        "labels": labels,
        "metadata": metadata,
        "ttl_seconds": request.session_ttl_seconds,
    }
    now = database.clock.now()
    await sessions.describe(conn, session.id, columns, now=now)
    decision = {"decision": "configuration_changed", "changed": changed}
    await events.append(conn, session.id, [NewEvent(EventType.POLICY_DECISION, decision, principal=principal)], now=now)


async def _check_beginning(conn: Connection, session: SessionRow, request: SessionRequest) -> None:
    """Raise SessionDiffers for what a request names of a session's beginning and that is not what stands."""
    wanted: dict[str, object] = {"project": request.project, "conversation_id": request.conversation_id}
    if session.head > 0 and session.kind == "root":  # others have no trigger of their own
        wanted |= {name: getattr(request, name) for name in ("trigger_type", "trigger_id", "policy")}
    stands = {name: getattr(session, name, session.config.get(name)) for name in wanted}
    differing = [name for name, value in wanted.items() if value is not None and value != stands[name]]
    if session.head > 0 and request.seeds:
        thread = [
            Seed(cast(SeedRole, row.role), row.content, row.is_new, row.occurred_at, row.details)
            for row in await seeds.read(conn, session.config.get("seeds") or session.id)
            if row.role != "system"
        ]
        if thread != [_as_stored(seed) for seed in request.seeds]:
            differing.append("seeds")
    if differing:
        raise SessionDiffers(
            f"session {session.id} began with other values of {', '.join(differing)}, and these stay: leave them out "
            "to go on with it, or create a new session, which the key names from then on (`POST /v1/sessions` with "
            "`new`, `agent.create(key=...)` or `consolidator session create --key`)"
        )


def _as_stored(seed: Seed) -> Seed:
    """Return a seed as it comes back from the database: a time without a zone is in UTC."""
    at = seed.occurred_at
    at = at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)
    return replace(seed, occurred_at=at, details=dict(seed.details or {}))


def check_affordable(settings: Settings, model: str | None, cap: Any) -> None:
    """Raise UsageError for a cap that cannot be enforced with every model that the session may be given."""
    model = model or settings.model
    for candidate in candidate_models(settings) if model == AUTO else (model,):
        check_cap(candidate, cap)


def _with_tools(setup: SessionSetup, tools: tuple[str, ...] | None) -> SessionSetup:
    """Return a setup that names the tools of whoever drives the session here, unless it has a list of its own."""
    if tools is None or "allowed_tools" in setup.config:
        return setup
    return replace(setup, config={**setup.config, "tools": list(tools)})


def find_window(model: str | None, config: dict[str, Any]) -> int | None:
    """Return the context window of a session's model, where it is known; a policy's choice has one of its own."""
    window: int | None = config.get("context_window")
    if window is not None or model is None or model == AUTO:
        return window
    return context_window(model)


def _owner_of(key: str | None, agent: str | None, channel: str | None, peer: str | None) -> dict[str, str | None]:
    """Return agent, channel and peer: by the key where there is one, which must not contradict what is named."""
    if key is None:
        if agent is None:
            raise UsageError("a session needs an agent, or a key such as main:cli:mara")
        for what, name in (("agent", agent), ("channel", channel), ("peer", peer)):
            if name is not None and (not name.strip() or len(name) > _MAX_KEY_LENGTH or not _is_name(name)):
                raise UsageError(f"{name[:80]!r} is no {what}")
        return {"agent": agent, "channel": channel, "peer": peer}
    named = dict(zip(("agent", "channel", "peer"), parse_key(key), strict=True))
    for what, name in (("agent", agent), ("channel", channel), ("peer", peer)):
        if name is not None and name != named[what]:
            raise UsageError(f"key {key[:80]!r} names {what} {named[what] or 'nobody'}, not {name}")
    return named
