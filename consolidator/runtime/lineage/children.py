"""Children: the one way in which a session comes from another one: a fork, a branch, a sub-agent, from a checkpoint.

A child reads its parent's log up to a safe point as its own past, and continues its numbering; nothing is copied. What
it inherits is found before anything is locked; under the lock of the parent, only the child's few rows are written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from psycopg.types.json import Jsonb
from ulid import ULID

from consolidator.context.history import SessionHistory, apply_decision
from consolidator.database import Connection, Database
from consolidator.database.jsonb import dumps, escape
from consolidator.errors import NotFound, UsageError
from consolidator.models.event import NewEvent
from consolidator.models.lineage import MAX_RANGES, Lineage, LineageRange
from consolidator.models.payload import EventType
from consolidator.models.principal import Role
from consolidator.models.session import Seed, SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session.access import get_session
from consolidator.runtime.session.agent_defaults import NO_OVERRIDES, Overrides
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.creation import check_affordable, find_window, pin_template
from consolidator.runtime.session.safe_points import SafePoint, find_safe_point
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.log.seals import hash_child_id, hash_session_id
from consolidator.store.sessions import lineage as store
from consolidator.store.sessions import seeds, sessions
from consolidator.store.sessions.tasks import find_open_task
from consolidator.store.turns import context as views
from consolidator.store.turns.context import SessionView

_FIRST_PATCHES, _MAX_PATCHES = 8, 256  # read at once


@dataclass(frozen=True, slots=True)
class InheritedFold:
    """A session's past at a point, folded: what a child need not read again."""

    history: SessionHistory
    state: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the fold as JSON can hold it."""
        return {**asdict(self.history), "state": dict(self.state)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> InheritedFold:
        """Return the fold that `as_json` returned."""
        return cls(SessionHistory(**{name: stored[name] for name in SessionHistory.__slots__}), stored["state"])


async def fold_past(conn: Connection, session: SessionRow, lineage: Lineage, point: int) -> InheritedFold:
    """Return a session's past as it stood after the event at a point; `session` and what is read may be newer."""
    view = await views.load_view(conn, session.id)
    return InheritedFold(
        await _find_history(conn, view, lineage, point), await _find_state(conn, session, lineage, point)
    )


async def _find_history(conn: Connection, view: SessionView, lineage: Lineage, point: int) -> SessionHistory:
    """Return the view at a point; its summary ends earlier where the stored one goes further than the point."""
    history = SessionHistory(lineage.readable_after)
    if view.learned is not None and view.consolidated_to <= point:
        history.upto, history.summary = view.consolidated_to, view.learned
    elif view.upto is not None and view.upto <= point:
        history.upto, history.summary = view.upto, view.summary or {}
    is_folded = view.upto is not None
    if is_folded and view.compaction_seq <= point:
        history.compaction_seq, history.compaction = view.compaction_seq, view.compaction or {}
    elif (event := await store.find_mark(conn, lineage, "compaction", upto=point)) is not None:
        apply_decision(history, event)
    if is_folded and view.scratchpad_seq <= point:
        history.scratchpad_seq, history.scratchpad = view.scratchpad_seq, view.scratchpad
    elif (event := await store.find_mark(conn, lineage, "scratchpad_set", upto=point)) is not None:
        apply_decision(history, event)
    return history


async def _find_state(conn: Connection, session: SessionRow, lineage: Lineage, point: int) -> dict[str, Any]:
    """Return the state at a point: the row's, but for the keys that were changed later.

    What a key was before its later changes is said by the latest change up to the point; changes that are pruned are
    needed only for such keys.
    """
    if session.is_driven_elsewhere:  # its row has no state, whatever its log says
        summed: dict[str, Any] = {}
        async for patch in _patches_before(conn, lineage, after=lineage.readable_after, upto=point):
            summed = {**patch, **summed}
        return summed
    if point >= session.head:
        return dict(session.state)
    changed: set[str] = set()
    async for patch in _patches_before(conn, lineage, after=point, upto=session.head):
        changed |= patch.keys()
        if changed >= session.state.keys():
            break
    state = {key: value for key, value in session.state.items() if key not in changed}
    if not changed:
        return state
    async for patch in _patches_before(conn, lineage, after=lineage.readable_after, upto=point):
        state |= {key: value for key, value in patch.items() if key in changed}
        changed -= patch.keys()
        if not changed:
            break
    return state


async def _patches_before(
    conn: Connection, lineage: Lineage, *, after: int, upto: int
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the changes of the state with after < position <= upto, the latest first."""
    limit = _FIRST_PATCHES
    while patches := await store.read_state_patches(conn, lineage, after=after, upto=upto, limit=limit):
        for event in patches:
            yield event.data["state_patch"]
        upto, limit = patches[-1].seq - 1, min(limit * 2, _MAX_PATCHES)


ChildKind = Literal["fork", "resume", "branch", "sub-agent"]
BranchKind = Literal["sim", "pre_steer", "dream"]
SUB_AGENT_CHANNEL = "sub-agent"  # nobody but the parent hears a sub-agent
RERUN_SECONDS = 24 * 3600  # after which a rerun is ended by the nights
ONE_LEVEL = ("branch", "sub-agent")  # kinds that have no children
_PARENTS_OWN = ("system", "template", "seeds", "policy")  # of a configuration: what a sub-agent does not see
_NOTHING = InheritedFold(SessionHistory())


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnCall:
    """The call by which a sub-agent comes to be: a call has at most one, however often it is made."""

    call_id: str
    trigger_type: str
    seeds: tuple[Seed, ...]
    config: Mapping[str, Any]
    task: NewEvent  # the message that the sub-agent answers
    announce: Callable[[str], NewEvent]  # the event of the parent's log, given the child's id
    max_unfinished: int  # sub-agents of one parent at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """What kind of child is wanted of a session, and from where.

    `at` is the last event before the child's own ones; None is the latest safe point. A sub-agent reads nothing of its
    parent's log, and a dream nothing of its state. `is_current` makes the child the session that its key names. `fold`
    is what stood at the point, where the log no longer says it.
    """

    kind: ChildKind
    at: int | None = None
    branch_kind: BranchKind | None = None
    overrides: Overrides = NO_OVERRIDES
    is_current: bool = False
    checkpoint_id: str | None = None
    fold: InheritedFold | None = None
    is_rerun: bool = False  # driven only by who asked for it: others do not have the recorded results
    call: SpawnCall | None = None  # of a sub-agent
    message: NewEvent | None = None  # of a branch: what it begins with, to be answered
    name: str | None = None  # of a branch: a name has one branch, however often it is asked for
    same_conversation: bool = False  # of a fork: whether it is one more run of its parent's
    state: Mapping[str, Any] | None = None  # of a dream, which begins with it, and else with none
    live_tools: bool = False  # of a branch: whether tools with side effects run in it
    wake_after: datetime | None = None  # until then, who asked for the child drives it

    @property
    def reads_parent(self) -> bool:
        """Whether the parent's log up to the point is the child's past."""
        return self.kind != "sub-agent"


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a child begins: the session that holds the point, and what stood there."""

    session: SessionRow  # whose configuration the child inherits
    parent: SessionRow  # whose log has the point: an ancestor's, where that is asked for
    point: SafePoint
    ranges: tuple[LineageRange, ...]
    fold: InheritedFold
    open_task: str | None = None


FORK = ChildRequest(kind="fork")


async def create_child(
    database: Database,
    settings: Settings,
    session_id: str,
    request: ChildRequest = FORK,
    *,
    driver_tools: Collection[str] | None = None,
    viewer: Viewer = OWNER,
) -> SessionRow:
    """Create a child of a session, and return it; the parent is untouched. The only way to make one.

    By default it begins at the latest event after which nothing is open. At a person's message, the child has that
    message to answer. `driver_tools` names the tools of what is to drive it, where that is known. Raises Forbidden,
    NotFound, and UsageError for tools that are missing there, for a point that is not there or in the middle of a call
    or an answer, naming the nearest ones that are not, for a child of a branch or of a sub-agent, and for overrides
    that make no sense.
    """
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "write")
        check_tools(driver_tools, session, request.overrides)
        request = replace(request, overrides=await pin_template(conn, viewer, request.overrides))
        origin = await _find_origin(conn, session, request)

    plan = _plan_child(settings, origin, request)  # all of it before anything is locked
    with boundary("commit child"):
        async with database.transaction() as conn:
            now = database.clock.now()
            await events.store_blobs(conn, [events.prepare(event) for event in plan.events + plan.announced], now)
            existing = await _find_existing(conn, origin, request)
            if existing is not None:
                return await sessions.get(conn, existing)
            await _insert_child(conn, origin, request, plan, now)
            return await sessions.get(conn, plan.id)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a child is, from its parent and from what is asked for."""

    id: str
    values: dict[str, Any]  # its row
    description: dict[str, Any]
    seeds: tuple[Seed, ...]
    events: list[NewEvent]  # what it begins with: its start, then a message or a task
    announced: list[NewEvent]  # of a sub-agent, in its parent's log


def _plan_child(settings: Settings, origin: _Origin, request: ChildRequest) -> _Plan:
    overrides, call, parent = request.overrides, request.call, origin.session
    own = _PARENTS_OWN if request.kind == "sub-agent" else ()
    config = overrides.apply_to_config({name: value for name, value in parent.config.items() if name not in own})
    model = overrides.model or parent.model
    cap = parent.max_cost if overrides.max_cost is None else overrides.max_cost
    check_affordable(settings, model, cap)

    child_id = str(ULID())
    data = _start_data(origin, request, model, config.get("system"))
    if call is not None:
        config |= {**call.config, **({"seeds": child_id} if call.seeds else {})}

    values = _child_columns(origin, request, child_id)
    if request.kind == "branch" or (request.kind == "fork" and not request.same_conversation):
        config["parent_conversation_id"], values["conversation_id"] = values["conversation_id"], child_id
    flags = {"rerun": request.is_rerun, "branch_kind": request.branch_kind, "live_tools": request.live_tools}
    config |= {name: value for name, value in flags.items() if value}
    values |= {"config": Jsonb(config, dumps=dumps), "max_cost": cap, "model": model}

    system = (Seed("system", config["system"], is_new=True),) if config.get("system") else ()
    role = Role.OPERATOR if call is None else Role.HARNESS
    first = request.message if call is None else call.task
    return _Plan(
        child_id,
        values,
        _description(parent, request, model, config),
        (*system, *(call.seeds if call is not None else ())),
        [NewEvent(EventType.SESSION_START, data, principal=role.value), *([] if first is None else [first])],
        [] if call is None else [call.announce(child_id)],
    )


async def _find_existing(conn: Connection, origin: _Origin, request: ChildRequest) -> str | None:
    """Return the id of the child that a call or a name has already; if there is none, nobody makes one meanwhile."""
    if request.call is not None and (called := await _find_called(conn, origin.session.id, request.call)) is not None:
        return called
    return None if request.name is None else await store.find_named_branch(conn, origin.parent.id, request.name)


async def _insert_child(conn: Connection, origin: _Origin, request: ChildRequest, plan: _Plan, now: datetime) -> None:
    # Ancestors stay as long as a child reads them: an erasure waits for this lock, or was first.
    needed = [origin.parent.id, *(part.session_id for part in origin.ranges if part.pruned_to is not None)]
    if origin.parent.id not in await store.lock_ancestors(conn, needed):
        raise NotFound(f"session {origin.parent.id} was erased meanwhile")
    chain_hash, point = None, origin.point.seq
    if request.reads_parent:  # what the child's chain begins with; the parent's log is locked
        chain_hash = hash_session_id(plan.id)
        if point:
            whole = Lineage(LineageRange(origin.parent.id, 0, 2**62, 0, origin.parent.ingest_bounds)).own
            chain_hash = hash_child_id(await store.find_hash(conn, whole, point), plan.id)

    async with conn.pipeline():  # one round trip
        await store.create_child(conn, {**plan.values, "chain_hash": chain_hash, "now": now})
        await store.inherit_past(conn, plan.id)
        await views.save_view(conn, plan.id, asdict(origin.fold.history))
        await sessions.describe(conn, plan.id, plan.description, now=now)
        await seeds.add(conn, plan.id, plan.seeds)
    await events.append(conn, plan.id, plan.events, now=now)
    if plan.announced:
        await events.append(conn, origin.session.id, plan.announced, now=now, open_task=origin.session.open_task)

    # A message before the point without an answer is the child's to answer.
    has_open_end = request.reads_parent and origin.point.has_open_end
    settled_to = origin.point.settled_to if has_open_end else plan.values["base_seq"] + 1
    is_pending = has_open_end or len(plan.events) > 1
    await store.set_marks(conn, plan.id, settled_to=settled_to, pending=is_pending, wake_after=request.wake_after)
    if request.is_current:
        await sessions.make_current(conn, plan.id)


def check_tools(driver_tools: Collection[str] | None, session: SessionRow, overrides: Overrides) -> None:
    """Raise UsageError for tools that a child of a session is to have, but not what drives sessions here.

    Where it is not known what that has (None), a session that was opened with tools has no child with others.
    """
    if driver_tools is not None:
        overrides.check_tools(driver_tools)
        return
    opened_with = session.config.get("tools")
    missing = [name for name in overrides.tools or () if opened_with is not None and name not in opened_with]
    if missing:
        raise UsageError(
            f"session {session.id} was opened without the tools {', '.join(missing)}: name others, or say where they "
            "are (--tools)"
        )


async def _find_called(conn: Connection, parent_id: str, call: SpawnCall) -> str | None:
    """Return the sub-agent that a call has already; else make sure that the parent may have one more. Locks the parent.

    Raises UsageError for a parent that has ended, and for one with too many sub-agents at work.
    """
    await sessions.lock(conn, [parent_id])
    parent = await sessions.get(conn, parent_id)
    existing = await store.find_called(conn, parent_id, call.call_id)
    if existing is not None:
        return existing
    if parent.status != "open":
        raise UsageError(f"session {parent_id} has ended: it has no new sub-agents")
    at_work = len(await store.list_unfinished(conn, parent_id))
    if at_work >= call.max_unfinished:
        raise UsageError(
            f"session {parent_id} has {at_work} sub-agents at work, and may have {call.max_unfinished}: wait for one"
        )
    return None


async def _find_origin(conn: Connection, session: SessionRow, request: ChildRequest) -> _Origin:
    if session.kind in ONE_LEVEL:
        raise UsageError(f"session {session.id} is a {session.kind}, which has no children: take its parent's")
    if not request.reads_parent:
        return _Origin(session, session, SafePoint(session.head, session.head), (), _NOTHING)
    parent, lineage, point = session, await store.load_lineage(conn, session.id, session), None
    at, stored_fold = request.at, request.fold
    if at is None:
        point = await find_safe_point(conn, session, lineage)
        at = point.seq
    part = lineage.locate(at)
    if part is not None and part.session_id != session.id:  # an ancestor's event
        if part.pruned_to is None:
            raise UsageError(f"session {session.id}: event {at} is of session {part.session_id}, which is gone")
        parent, at, point = await sessions.get(conn, part.session_id), at - part.shift, None
        stored_fold = stored_fold if part.shift == 0 else None  # its numbers are not the child's
        lineage = await store.load_lineage(conn, parent.id, parent)
    point = point or await find_safe_point(conn, parent, lineage, at)
    ranges = lineage.inherit(point.seq)
    if len(ranges) > MAX_RANGES:
        raise UsageError(f"session {session.id} has {len(ranges)} ancestors already: begin a session of its own")
    fold = stored_fold or await fold_past(conn, parent, lineage, point.seq)
    if request.branch_kind == "dream":
        fold = replace(fold, state=dict(request.state or {}))
    return _Origin(session, parent, point, ranges, fold, await find_open_task(conn, parent, lineage, point.seq))


def _child_columns(origin: _Origin, request: ChildRequest, child_id: str) -> dict[str, Any]:
    parent = origin.session
    return {
        "id": child_id,
        "key": parent.key if request.kind in ("fork", "resume") else None,
        "conversation_id": parent.conversation_id or parent.root_id,
        "agent": parent.agent,
        "channel": parent.channel if request.reads_parent else SUB_AGENT_CHANNEL,
        "peer": parent.peer,
        "project": parent.project,
        "parent_id": origin.parent.id,
        "parent_seq": origin.point.seq,
        "root_id": parent.root_id,
        "kind": request.kind,
        "simulated": parent.simulated or request.kind == "branch",  # nothing in it is evidence of anything
        "state": Jsonb(dict(origin.fold.state), dumps=dumps),
        "open_task": None if origin.open_task is None else escape(origin.open_task),
        "base_seq": origin.point.seq if request.reads_parent else 0,
        "expires_at": None,  # a time to live of the configuration goes before it
    }


def _description(
    parent: SessionRow, request: ChildRequest, model: str | None, config: dict[str, Any]
) -> dict[str, Any]:
    """Return what a child is for: as its parent; another model has another window."""
    window = parent.context_window if model == parent.model else find_window(model, config)
    ttl = RERUN_SECONDS if request.is_rerun else config.get("session_ttl_seconds")  # also of one that was killed
    description = {"context_window": window, "labels": parent.labels, "ttl_seconds": ttl}
    if request.name is not None:
        description |= {"trigger_type": request.branch_kind, "trigger_id": request.name}
    if request.call is not None:
        description |= {"trigger_type": request.call.trigger_type, "trigger_id": request.call.call_id}
    return description


def _start_data(origin: _Origin, request: ChildRequest, model: str | None, system_prompt: str | None) -> dict[str, Any]:
    """Return the payload of the child's SessionStart: what it is, where it comes from, and what is different in it."""
    named = {
        "model": model,
        "system_prompt": system_prompt,
        "cwd": origin.session.project,
        "branch_kind": request.branch_kind,
        "live_tools": True if request.live_tools else None,
        "state": None if request.state is None else dict(request.state),
        "checkpoint": request.checkpoint_id,
        "call_id": None if request.call is None else request.call.call_id,
    }
    start = {"kind": request.kind, "parent": origin.parent.id, "point": origin.point.seq}
    overrides = request.overrides.named()
    return {**start, "overrides": overrides} | {name: value for name, value in named.items() if value is not None}
