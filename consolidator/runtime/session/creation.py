"""Opens and creates sessions: what a caller asks for, merged with the defaults of the session's agent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any, TypedDict, TypeVar, cast

from ulid import ULID

from consolidator.database import Connection, Database
from consolidator.database.jsonb import escape
from consolidator.errors import NotFound, SessionDiffers, UsageError
from consolidator.llm.prices import context_window
from consolidator.models.agent import AUTO, AgentRow, NamedTemplate
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import check_name
from consolidator.models.session import Seed, SeedRole, SessionKey, SessionRow, has_controls
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session.access import check_reach, get_session
from consolidator.runtime.session.agent_defaults import (
    MAX_SECONDS,
    ModelOptions,
    Overrides,
    check_prompt,
    check_values,
    name_template,
    parse_amount,
    render_template,
)
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.budget import check_cap
from consolidator.runtime.session.outcome import to_text
from consolidator.runtime.session.routing import candidate_models
from consolidator.runtime.session.webhooks import check_webhook
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import agents, seeds, sessions

MAX_SEEDS, MAX_SEED_CHARACTERS = 1000, 1_000_000  # of a session, in all
MAX_LABELS, MAX_LABEL_LENGTH = 50, 500
MAX_METADATA_BYTES = 65_536
_MAX_ID_LENGTH = 1000  # of a trigger or conversation
_SEED_ROLES = ("user", "assistant", "tool")
# What a session's configuration takes from its agent where the caller names nothing else, by the names of both.
_CONFIG = (
    "max_steps", "answer_tokens", "strategy", "budget", "last", "compaction_threshold", "session_ttl_seconds",
    "checkpoint_ttl_seconds",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest(ModelOptions):
    """What a caller asks for of a session; None leaves it to the agent's defaults, and these to the settings.

    The last block belongs to a session's beginning: one that exists is not opened with other values of it. Raises
    UsageError for what no session could run with.
    """

    system: str | None = None  # the prompt as it is; else it is the agent's
    pinned: NamedTemplate | None = None  # which agent's the template is, where it was named
    context_window: int | None = None  # of a model whose window is not known, in tokens
    session_ttl_seconds: int | None = None
    checkpoint_ttl_seconds: int | None = None
    before_compact: str | None = None  # name of a webhook that is asked before a compaction
    labels: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None

    project: str | None = None
    conversation_id: str | None = None
    trigger_type: str | None = None
    trigger_id: str | None = None
    policy: Mapping[str, Any] | None = None  # what the trigger's policy extraction decided
    tool_names: Sequence[str] | None = None  # of what is to drive it, where the session has no list of its own
    seeds: Sequence[Seed] = ()  # the earlier thread, in order

    def __post_init__(self) -> None:
        if self.system is not None and (self.template is not None or self.parameters is not None):
            raise UsageError("a system prompt is taken as it is: leave the template and its parameters out")
        check_prompt(self.system or "")
        check_values(self)
        window = self.context_window
        if window is not None and (type(window) is not int or not 1 <= window <= MAX_SECONDS):
            raise UsageError(f"context_window takes a number of tokens, not {window!r}")
        _check_labels(self.labels or {})
        if self.trigger_type is not None:
            check_name(self.trigger_type)
        elif self.trigger_id is not None:
            raise UsageError("a trigger's id needs its type, such as email")
        for what, name in (("trigger", self.trigger_id), ("conversation", self.conversation_id)):
            if name is not None and (not name.strip() or len(name) > _MAX_ID_LENGTH or escape(name) != name):
                raise UsageError(f"{name[:80]!r} is no id of a {what}: at most {_MAX_ID_LENGTH} characters")
        _check_metadata(self.metadata or {})
        _check_metadata(self.policy or {}, "policy")
        _check_seeds(self.seeds)


class SessionArguments(TypedDict, total=False):
    """What a program may name of a session, beside its model and cap; `SessionRequest` says what each is."""

    system: str | None
    template: str | None
    parameters: Mapping[str, Any] | None
    tools: Sequence[str] | None
    max_steps: int | None
    answer_tokens: int | None
    strategy: str | None
    budget: int | None
    last: int | None
    compaction_threshold: float | None
    context_window: int | None
    ttl: timedelta | None
    checkpoint_ttl: timedelta | None
    before_compact: str | None
    labels: Mapping[str, Any] | None
    project: str | None
    conversation: str | None
    trigger: tuple[str, str | None] | None  # type and id
    policy: Mapping[str, Any] | None
    seeds: Sequence[Seed]
    metadata: Mapping[str, Any] | None


def session_request(
    model: str | None, max_cost_usd: float | Decimal | str | None, arguments: SessionArguments
) -> SessionRequest:
    """Return a program's arguments as a request.

    Raises UsageError for what no session could run with, and for arguments that there are not.
    """
    unknown = [name for name in arguments if name not in SessionArguments.__annotations__]
    if unknown:
        names = ", ".join(SessionArguments.__annotations__)
        raise UsageError(f"a session is opened with no {', '.join(unknown)}: there are {names}")
    values: dict[str, Any] = dict(arguments)
    spans = (("ttl", "session_ttl_seconds"), ("checkpoint_ttl", "checkpoint_ttl_seconds"))
    for name, column in spans:
        span = values.pop(name, None)
        values[column] = None if span is None else int(span.total_seconds())
    values["conversation_id"] = values.pop("conversation", None)
    values["trigger_type"], values["trigger_id"] = values.pop("trigger", None) or (None, None)
    tools, system = values.get("tools"), values.get("system")
    values["tools"] = None if tools is None else tuple(tools)
    values["system"] = None if system is None else to_text(system)
    cap = None if max_cost_usd is None else parse_amount(max_cost_usd)
    return SessionRequest(model=model, max_cost=cap, **values)


@dataclass(frozen=True, slots=True)
class _Setup:
    """What a new session begins with."""

    model: str | None
    max_cost: Decimal | None
    config: dict[str, Any]
    start: dict[str, Any]  # of its SessionStart
    seeds: tuple[Seed, ...]  # the rendered system prompt, then the earlier thread


def _set_up(request: SessionRequest, agent: AgentRow | None, tools: tuple[str, ...] | None) -> _Setup:
    """Return what a new session begins with: what the caller asks for, else its agent's defaults.

    `tools` are those of whoever drives it here, where it has no list of its own. Raises UsageError for parameters that
    do not fit the template.
    """
    system, model = render_system(request, agent), _first(request.model, agent, "model")
    config = _name_config(request, agent) | {
        "system": system,
        "template": None if request.pinned is None else name_template(request.pinned, request.parameters),
        "policy": None if request.policy is None else dict(request.policy),
        "agent_version": None if agent is None else agent.version,
    }
    if "tools" not in config and request.tool_names is not None:
        config["tool_names"] = list(request.tool_names)

    start = {"model": model, "system_prompt": system, "cwd": request.project}
    start |= {name: config.get(name) for name in ("policy", "tool_names")}
    start |= _describe_prompt(request, agent)
    if request.trigger_type is not None:
        start["trigger"] = {"type": request.trigger_type, "id": request.trigger_id}

    if request.seeds:
        rows = [
            [seed.role, seed.content, seed.is_new, str(seed.occurred_at or ""), seed.details or {}]
            for seed in request.seeds
        ]
        text = json.dumps(rows, sort_keys=True, separators=(",", ":"), default=str)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        start["seeds"] = {"count": len(request.seeds), "sha256": digest}

    if tools is not None and "allowed_tools" not in config:
        config["tools"] = list(tools)
    return _Setup(
        model,
        _first(request.max_cost, agent, "max_cost"),
        {name: value for name, value in config.items() if value is not None},
        {name: value for name, value in start.items() if value is not None},
        (*([Seed("system", system, is_new=True)] if system else ()), *request.seeds),
    )


def render_system(request: SessionRequest, agent: AgentRow | None) -> str | None:
    """Return the system prompt: the caller's, or the rendered template, or the agent's."""
    if request.system is not None:
        return request.system
    if isinstance(request.template, NamedTemplate):
        raise UsageError(f"the template of {request.template.name!r} was named, and not looked up")
    if request.template is not None:
        return render_template(request.template, dict(request.parameters or {}))
    if agent is not None and agent.template is not None:
        return render_template(agent.template, {**agent.parameters, **(request.parameters or {})})
    if request.parameters:
        raise UsageError("parameters are those of a template, and neither the request nor the agent has one")
    return None if agent is None else agent.system_prompt


def _first(value: Any, agent: AgentRow | None, name: str) -> Any:
    """Return the caller's value, or else the agent's."""
    return value if value is not None or agent is None else getattr(agent, name)


def _name_config(request: SessionRequest, agent: AgentRow | None) -> dict[str, Any]:
    """Return the configuration by name: what the caller asks for, or else its agent; tools that are named are a limit.

    Those are needed, and no other is shown or run.
    """
    config = {name: _first(getattr(request, name), agent, name) for name in _CONFIG}
    tools = _first(request.tools, agent, "tools")
    limit = {} if tools is None else {"tools": list(tools), "allowed_tools": list(tools)}
    own = {name: getattr(request, name) for name in ("context_window", "before_compact")}
    return config | limit | own


def _describe_prompt(request: SessionRequest, agent: AgentRow | None) -> dict[str, Any]:
    """Return which agent's version, which version of its template and which parameters made the prompt."""
    data: dict[str, Any] = {} if agent is None else {"agent_version": agent.version}
    if request.pinned is not None:
        data["template"] = asdict(request.pinned)
    if agent is not None and request.system is None and request.template is None and agent.template is not None:
        data["template_version"] = agent.template_version
        data["parameters"] = {**agent.parameters, **(request.parameters or {})}
    elif request.parameters:
        data["parameters"] = dict(request.parameters)
    return data


def _check_labels(labels: Mapping[str, Any]) -> None:
    if len(labels) > MAX_LABELS:
        raise UsageError(f"a session has at most {MAX_LABELS} labels")
    for name, value in labels.items():
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        is_plain = value is not None and isinstance(value, (str, int, float, bool))
        if not name.strip() or len(name) > 100 or not is_plain or len(text) > MAX_LABEL_LENGTH:
            raise UsageError(f"label {name[:80]!r}: a name, and a text or number of at most {MAX_LABEL_LENGTH}")


def _check_metadata(metadata: Mapping[str, Any], what: str = "metadata") -> None:
    if len(json.dumps(dict(metadata), default=str)) > MAX_METADATA_BYTES:
        raise UsageError(f"the {what} is larger than {MAX_METADATA_BYTES:,} bytes")


def _check_seeds(seeds: Sequence[Seed]) -> None:
    if len(seeds) > MAX_SEEDS or sum(len(seed.content) for seed in seeds) > MAX_SEED_CHARACTERS:
        raise UsageError(
            f"an earlier thread of {len(seeds)} messages is too long: at most {MAX_SEEDS}, and "
            f"{MAX_SEED_CHARACTERS:,} characters in all; leave the oldest out"
        )
    for seed in seeds:
        if seed.role not in _SEED_ROLES:
            raise UsageError(f"a seed is of {', '.join(_SEED_ROLES)}, not {seed.role!r}: `system` takes the prompt")
        if len(json.dumps(dict(seed.details or {}), default=str)) > MAX_METADATA_BYTES:
            raise UsageError("the details of a seed are too large")


_MAX_KEY_LENGTH = 300
R = TypeVar("R", SessionRequest, Overrides)


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
    viewer: Viewer = OWNER,
) -> SessionRow:
    """Return the session that a key names now; create it if there is none. What the request names is set on it.

    `tools` are those that drive it here, where the session has no list of its own. Raises Forbidden, NotFound for what
    is out of the viewer's reach, UsageError for an invalid key, for a cap in money that cannot be enforced, and for
    parameters that do not fit the agent's template, and SessionDiffers where the session began with another project,
    conversation, trigger or seeds.
    """
    viewer.check_may("write")
    agent_name, channel, peer = parse_key(key)
    check_webhook(settings, request.before_compact)
    values = {"id": str(ULID()), "key": key, "agent": agent_name, "channel": channel, "peer": peer}
    request = _within(viewer.narrow(agent=agent_name, project=request.project, peer=peer or ""), request)

    async with database.connection() as conn:
        await _check_conversation(conn, viewer, request.conversation_id)
        agent = await agents.get_effective(conn, agent_name)
        current = await sessions.get_current(conn, key)
        if current is not None:
            try:
                await check_reach(conn, viewer, current.id, "write")
            except NotFound as error:  # it would name a session that is not the viewer's
                raise NotFound("this key names a session that this credential does not reach: take another") from error
        request = await pin_template(conn, viewer, request)

    setup = _set_up(request, agent, tools) if current is None else None
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
                setup = setup or _set_up(request, agent, tools)
                await _begin(conn, database, session, request, setup, viewer.operator)
            else:
                await _change(conn, database, session, request, agent, tools, viewer.operator)
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
    viewer: Viewer = OWNER,
) -> SessionRow:
    """Create a session in any case. A key names it from now on; the one that it named stays open, without the key.

    A run of the same key continues its conversation. Raises as `open_session` does, and UsageError for an agent,
    channel or peer that the key does not name, and for another one than the credential's.
    """
    viewer.check_may("write")
    if key is not None:
        named_agent, _, named_peer = parse_key(key)
        viewer.narrow(agent=named_agent, peer=named_peer or "")
    reach = viewer.narrow(agent=agent, project=request.project, peer=peer)
    request = _within(reach, request)
    if key is None:
        agent, peer = reach.agent, reach.peer or None
    owner = find_owner(key, agent, channel, peer)
    check_webhook(settings, request.before_compact)
    values = {"id": str(ULID()), "key": key, **owner, "project": request.project}
    with boundary("commit session"):
        async with database.transaction() as conn:
            await _check_conversation(conn, viewer, request.conversation_id)
            request = await pin_template(conn, viewer, request)
            defaults = await agents.get_effective(conn, str(owner["agent"]))
            setup = _set_up(request, defaults, tools)
            check_affordable(settings, setup.model, setup.max_cost)
            values["conversation_id"] = request.conversation_id
            now = database.clock.now()
            await sessions.create_current(conn, values, now=now)
            session = await sessions.get(conn, str(values["id"]))
            await _begin(conn, database, session, request, setup, viewer.operator)
            return await sessions.get(conn, session.id)


def _within(reach: Viewer, request: SessionRequest) -> SessionRequest:
    """Return a request with the project that its caller is narrowed to."""
    project = reach.project or None
    return request if project == request.project else replace(request, project=project)


async def _check_conversation(conn: Connection, viewer: Viewer, conversation_id: str | None) -> None:
    """Raise NotFound for the conversation of a session that is not within the viewer's reach; other names are free."""
    if viewer.is_narrowed and conversation_id is not None and await sessions.get_each(conn, [conversation_id]):
        await get_session(conn, viewer, conversation_id, "write")


async def pin_template(conn: Connection, viewer: Viewer, request: R) -> R:
    """Return a request with the text of the agent's template that it names, which is its own from then on.

    Raises UsageError, which lists what there is, for a template or version that is not there or out of reach.
    """
    named = request.template
    if not isinstance(named, NamedTemplate):
        return request
    versions = await agents.list_templates(conn, named.name) if viewer.agent in (None, named.name) else []
    version = next((row for row in versions if named.version is None or str(named.version) == str(row.version)), None)
    if version is None:
        has = [str(row.version) for row in versions] or await agents.list_template_names(conn, viewer.agent)
        what = f"no version {named.version} of its template" if versions else "no template"
        raise UsageError(f"agent {named.name!r} has {what}; there are: {', '.join(has) or 'none'}")
    parameters = {**version.parameters, **(request.parameters or {})}
    pinned = NamedTemplate(named.name, version.version)
    return replace(request, template=version.template, parameters=parameters, pinned=pinned)


async def _begin(
    conn: Connection, database: Database, session: SessionRow, request: SessionRequest, setup: _Setup, principal: str
) -> None:
    """Store what a new session begins with, log its start, and move its marks past it: nobody has to answer that."""
    now = database.clock.now()
    config = setup.config | ({"seeds": session.id} if request.seeds else {})
    await sessions.configure(conn, session.id, model=setup.model, max_cost=setup.max_cost, config=config)
    columns = {
        "context_window": find_window(setup.model, config),
        "trigger_type": request.trigger_type,
        "trigger_id": request.trigger_id,
        "labels": dict(request.labels or {}),
        "metadata": dict(request.metadata or {}),
        "ttl_seconds": config.get("session_ttl_seconds"),
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
    requested = _name_config(request, None)
    if request.system is not None or request.template is not None or request.parameters is not None:
        requested["system"] = render_system(request, agent)
    requested = {name: value for name, value in requested.items() if value is not None}
    if tools is not None and "allowed_tools" not in {**session.config, **requested}:
        requested["tools"] = list(tools)
    if "system" in requested and request.pinned is not None:
        requested["template"] = name_template(request.pinned, request.parameters)
    elif "system" in requested and "template" in session.config:
        requested["template"] = None

    changed = {name: value for name, value in requested.items() if session.config.get(name) != value}
    model, max_cost = request.model, request.max_cost
    if model is not None and model != session.model:
        changed["model"] = model
    if max_cost is not None and max_cost != session.max_cost:
        changed["max_cost"] = str(max_cost)
    labels = {name: value for name, value in (request.labels or {}).items() if session.labels.get(name) != value}
    if labels:
        changed["labels"] = labels
    stored = session.details.get("metadata") or {}
    metadata = {name: value for name, value in (request.metadata or {}).items() if stored.get(name, ...) != value}
    if metadata:
        _check_metadata({**stored, **metadata})
        changed["metadata"] = metadata

    if not changed:
        return
    config = {**session.config, **requested}
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
    requested: dict[str, object] = {"project": request.project, "conversation_id": request.conversation_id}
    if session.head > 0 and session.kind == "root":  # others have no trigger of their own
        requested |= {name: getattr(request, name) for name in ("trigger_type", "trigger_id", "policy")}
    stands = {name: getattr(session, name, session.config.get(name)) for name in requested}
    differing = [name for name, value in requested.items() if value is not None and value != stands[name]]
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


def find_window(model: str | None, config: dict[str, Any]) -> int | None:
    """Return the context window of a session's model, where it is known; a policy's choice has one of its own."""
    window: int | None = config.get("context_window")
    if window is not None or model is None or model == AUTO:
        return window
    return context_window(model)


def find_owner(key: str | None, agent: str | None, channel: str | None, peer: str | None) -> dict[str, str | None]:
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
