"""Branches: runs beside a session that show what would come of something, and are never evidence of anything.

A branch reads its session's log up to a safe point; tools with side effects are dry runs in it, unless it is asked for
otherwise. A `sim` tries anything, a `pre_steer` a steer before it is sent, a `dream` goes without the session's state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, get_args

from ulid import ULID

from consolidator.database import Connection, Database
from consolidator.errors import NotFound, SessionBusy, StaleEpoch, UsageError
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.principal import Role
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Scope, Viewer
from consolidator.runtime.lineage.children import BranchKind, ChildRequest, create_child
from consolidator.runtime.rerun.turns import Comparison, compare_runs, read_turns
from consolidator.runtime.session.access import find_session, get_session
from consolidator.runtime.session.agent_defaults import NO_OVERRIDES, Overrides
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.changes import apply_change, check_open
from consolidator.runtime.session.creation import pin_template
from consolidator.runtime.turn.harness import Harness
from consolidator.runtime.turn.sessions import EndSession, append_message, create_message, end_session
from consolidator.runtime.turn.wake import wake_session
from consolidator.settings import Settings
from consolidator.store.sessions import lineage as store
from consolidator.store.sessions import sessions

BRANCH_KINDS: tuple[BranchKind, ...] = get_args(BranchKind)
MAX_COMPARED = 20_000  # events after the point, of each side
DRIVERS_WAIT = timedelta(minutes=1)  # whoever asks for a preview drives it; after this, any driver may
_POLL_SECONDS = 0.2  # between two looks at a branch that another process drives
_PREVIEW = "pre_steer"
BranchStatus = Literal["running", "waiting", "failed", "ready", "committed", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRequest:
    """What is to be tried, and from where.

    `at` is the last event before the branch's own ones; by default the latest at which nothing is open. `message` is
    what it begins with, as said by `speaker`; a preview's is the steer. With `live_tools` tools with side effects run.
    A `name` has one branch, however often it is asked for.
    """

    kind: BranchKind = "sim"
    message: str | None = None
    at: int | None = None
    overrides: Overrides = NO_OVERRIDES
    live_tools: bool = False
    speaker: str | None = None
    name: str | None = None
    state: Mapping[str, Any] | None = None  # with which a dream begins, instead of none

    def __post_init__(self) -> None:
        if self.kind not in BRANCH_KINDS:
            raise UsageError(f"{self.kind!r} is no kind of branch: {', '.join(BRANCH_KINDS)}")
        if self.state is not None and self.kind != "dream":
            raise UsageError("only a dream begins with another state than its session's")
        if self.kind == _PREVIEW and self.message is None:
            raise UsageError("a pre_steer branch shows what would come of a steer: give its message")
        if self.kind == _PREVIEW and self.at is not None:
            raise UsageError("a steer comes where the session stands: a pre_steer branch takes no `at`")


@dataclass(frozen=True, slots=True)
class SessionComparison:
    """Two sessions side by side: a branch, rerun or fork stands right of what it came from."""

    left: SessionRow
    right: SessionRow
    after: int  # the position of both from which they are compared; 0 for whole sessions
    comparison: Comparison
    is_cut: bool  # whether one of them has more events than are compared
    is_pruned: bool  # whether events of one of them are gone that would be compared

    @property
    def branch(self) -> SessionRow:
        """The right side."""
        return self.right

    @property
    def is_whole(self) -> bool:
        """Whether all is compared."""
        return not (self.is_cut or self.is_pruned)

    def as_json(self) -> dict[str, Any]:
        """Return how a branch compares as JSON can hold it."""
        return {
            "branch": self.branch.id,
            "main": self.left.id,
            "kind": branch_kind(self.branch),
            "status": branch_status(self.branch),
            "after": self.after,
            "is_whole": self.is_whole,
            "diff": self.comparison.as_json(),
        }


def branch_kind(session: SessionRow) -> BranchKind:
    """Return what kind of branch a session is. Raises UsageError for one that is none."""
    kind = session.config.get("branch_kind")
    if session.kind != "branch":
        raise UsageError(
            f"session {session.id} is no branch, but a {session.kind}: `consolidator session branch` makes one"
        )
    return next((each for each in BRANCH_KINDS if each == kind), "sim")


def branch_status(branch: SessionRow) -> BranchStatus:
    """Return how far a branch is.

    `running` (something is to be answered), `waiting` (for a person), `failed` (its last turn ended in an error),
    `ready`; `committed` (its steer was sent), `ended` (it was discarded, or has expired).
    """
    if committed_seq(branch) is not None:
        return "committed"
    if branch.status != "open":
        return "ended"
    if branch.attention:
        return "waiting"
    if branch.error:
        return "failed"
    return "running" if branch.pending else "ready"


def committed_seq(branch: SessionRow) -> int | None:
    """Return the seq that a preview's steer has in the main session; None if it was not sent."""
    seq = branch.config.get("committed_seq")
    return seq if isinstance(seq, int) else None


async def create_branch(
    database: Database,
    settings: Settings,
    session_id: str,
    request: BranchRequest,
    *,
    driver_tools: Collection[str] | None = None,
    drivers_wait: timedelta | None = None,
    viewer: Viewer = OWNER,
) -> SessionRow:
    """Create a branch of a session, which is untouched, and return it. Whoever drives sessions answers its message.

    `driver_tools` names the tools of what is to drive it. With `drivers_wait` others leave it to the caller for so
    long. Raises what `create_child` does, and SessionClosed for a steer of a session that has ended.
    """
    viewer.check_speaker(request.speaker)
    async with database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "write")
    if request.kind == _PREVIEW:
        check_open(session)
    message = None
    if request.message is not None:
        mode: Literal["steer", "message"] = "steer" if request.kind == _PREVIEW else "message"
        message = create_message(request.message, mode=mode, speaker=request.speaker, viewer=viewer)
    child = ChildRequest(
        kind="branch",
        branch_kind=request.kind,
        at=request.at,
        overrides=request.overrides,
        message=message,
        name=request.name,
        live_tools=request.live_tools,
        state=request.state,
        wake_after=None if drivers_wait is None else database.clock.now() + drivers_wait,
    )
    return await create_child(database, settings, session_id, child, driver_tools=driver_tools, viewer=viewer)


async def run_branch(
    harness: Harness,
    session_id: str,
    request: BranchRequest,
    *,
    is_stopping: Callable[[], bool] = lambda: False,
    viewer: Viewer = OWNER,
) -> SessionComparison:
    """Try something in a branch of a session, to its end, and return how it compares with the session.

    The session goes on meanwhile: it is not held. After a crash the same request goes on with the branch that is there:
    the one of its name or, without a name, an unfinished preview of the same steer; so does a wake of the branch.
    The comparison shows what the log says, so it needs the scope `read`, too. Raises as `create_branch` does, and
    UsageError where no model or a tool of the session is missing here.
    """
    viewer.check_may("read")
    viewer.check_speaker(request.speaker)
    request = await _check_can_run(harness, session_id, request, viewer)
    branch = None if request.name else await _find_unfinished(harness.database, session_id, request)
    if branch is None:
        named = replace(request, name=request.name or str(ULID()))
        branch = await create_branch(
            harness.database, harness.settings, session_id, named, driver_tools=harness.tools.names,
            drivers_wait=DRIVERS_WAIT, viewer=viewer,
        )  # fmt: skip
    branch = await _drive(harness, branch, is_stopping)
    return await compare_with(harness.database, branch, session_id)


async def _check_can_run(harness: Harness, session_id: str, request: BranchRequest, viewer: Viewer) -> BranchRequest:
    """Return a request with its template; raise UsageError where this process could not run it, before a branch is."""
    async with harness.database.connection() as conn:
        session = await get_session(conn, viewer, session_id, "write")
        request = replace(request, overrides=await pin_template(conn, viewer, request.overrides))
    if (request.overrides.model or session.model or harness.settings.model) is None:
        raise UsageError("no model is configured, so nothing can be tried: set CONSOLIDATOR_MODEL, or name one")
    missing = harness.missing_tools(request.overrides.apply_to_config(session.config))
    if missing:
        raise UsageError(f"session {session_id} uses tools that are missing here: {', '.join(missing)}")
    return request


async def _find_unfinished(database: Database, session_id: str, request: BranchRequest) -> SessionRow | None:
    """Return the preview of the same steer that a crash left; None if there is none."""
    if request.kind != _PREVIEW:
        return None
    requested = (request.overrides.named(), request.message, request.speaker, not request.live_tools)
    async with database.connection() as conn:
        for branch in await sessions.get_each(conn, await store.list_unfinished_steers(conn, session_id)):
            lineage = await store.load_lineage(conn, branch.id, branch)
            start, steer = await store.find_event(conn, lineage, branch.base_seq + 1), await _read_steer(conn, branch)
            if start is not None and steer is not None:
                words = steer.data.get("text"), steer.data.get("speaker")
                if (start.data.get("overrides"), *words, branch.is_dry_run) == requested:
                    return branch
    return None


async def _drive(harness: Harness, branch: SessionRow, is_stopping: Callable[[], bool]) -> SessionRow:
    """Wake a branch until nothing is left to do in it, or whoever else drives it is done; return it then."""
    async with harness.sub_agent_slots:
        while branch.status == "open" and branch.pending and not is_stopping():
            woken = True
            try:
                await wake_session(harness, branch.id, is_stopping=is_stopping)
            except (SessionBusy, StaleEpoch):
                woken = False
            async with harness.database.connection() as conn:
                branch = await sessions.get(conn, branch.id)
            if woken:
                break
            await asyncio.sleep(_POLL_SECONDS)
    return branch


async def compare_branch(
    database: Database, branch: str, *, main: str | None = None, viewer: Viewer = OWNER
) -> SessionComparison:
    """Compare a branch with its session, from the branch's point on; `main` is the session that it must be one of.

    The branch is named by its id or the beginning of it. Raises Forbidden, NotFound, and UsageError for no branch.
    """
    async with database.connection() as conn:
        row = await _get_branch(conn, viewer, branch, "read", main)
    return await compare_with(database, row)


async def compare_with(database: Database, branch: SessionRow, main_id: str | None = None) -> SessionComparison:
    """Compare a branch with its session, or one that reads that one's log. Raises UsageError for no branch."""
    branch_kind(branch)
    main = main_id or branch.parent_id
    assert main is not None
    async with database.connection() as conn:
        row = await sessions.get(conn, main)
    return await compare_rows(database, row, branch, are_related=True)


async def compare_rows(
    database: Database, left: SessionRow, right: SessionRow, *, are_related: bool, limit: int = MAX_COMPARED
) -> SessionComparison:
    """Compare the beginnings of two sessions, of related ones only what came after the point of the right one.

    That is messages, calls, tokens and cost, of at most `limit` events of each, without what is pruned.
    """
    begin, after = None, 0
    if are_related:
        begin = after = right.base_seq
        async with database.connection() as conn:
            lineage = await store.load_lineage(conn, right.id, right)
            at_point = await store.find_event(conn, lineage, after)
        if right.kind == "branch" and at_point is not None and at_point.type is EventType.USER_MESSAGE:
            begin -= 1  # both answer the message there
    sides = (left, right)
    comparison = compare_runs(*[await read_turns(database, row.id, after=begin, limit=limit) for row in sides])
    is_cut = any(row.head - max(begin or 0, row.pruned_to) > limit for row in sides)
    is_pruned = any(row.pruned_to > max(after, row.base_seq) for row in sides)
    return SessionComparison(left, right, after, comparison, is_cut, is_pruned)


async def commit_steer(
    database: Database, name: str, *, main: str | None = None, viewer: Viewer = OWNER
) -> tuple[SessionRow, int]:
    """Send the steer of a preview to its session, once; return the branch, which has ended, and the steer's seq.

    Raises Forbidden, NotFound, UsageError for a branch of another kind and for one that has ended, and SessionClosed if
    the session has.
    """
    with boundary("commit message"):
        async with database.transaction() as conn:
            branch = await _get_branch(conn, viewer, name, "write", main)
            if (kind := branch_kind(branch)) != _PREVIEW:
                raise UsageError(f"branch {branch.id} is a {kind}: only the steer of a pre_steer branch can be sent")
            main_id = branch.parent_id
            assert main_id is not None
            await sessions.lock(conn, [branch.id, main_id])
            branch = await sessions.get(conn, branch.id)
            if (seq := committed_seq(branch)) is not None:
                return branch, seq
            if branch.status != "open":
                raise UsageError(f"branch {branch.id} has ended, and its steer was not sent: propose it again")
            steer = await _read_steer(conn, branch)
            assert steer is not None
            text, speaker = str(steer.data["text"]), steer.data.get("speaker")
            message = create_message(text, mode="steer", speaker=speaker, viewer=viewer)
            data = {**message.data, "previewed_in": branch.id}
            now = database.clock.now()
            seq = (await append_message(conn, main_id, replace(message, data=data), now=now)).last_seq
            await store.mark_committed(conn, branch.id, seq)
            end = EndSession(f"its steer was sent: event {seq} of {main_id}")
            await apply_change(conn, branch.id, end, principal=Role.OPERATOR.value, now=now)
            await sessions.retire(conn, branch.id, hide=False)
            return await sessions.get(conn, branch.id), seq


async def discard_branch(
    database: Database, name: str, *, main: str | None = None, viewer: Viewer = OWNER
) -> SessionRow:
    """End a branch, and return it; one that has ended stays as it is, and all can still be read.

    Raises Forbidden, NotFound, and UsageError for what is no branch.
    """
    async with database.connection() as conn:
        branch = await _get_branch(conn, viewer, name, "write", main)
    return branch if branch.status != "open" else await end_session(database, branch.id, reason="it was discarded")


async def _get_branch(conn: Connection, viewer: Viewer, name: str, scope: Scope, main: str | None) -> SessionRow:
    """Return a branch within the viewer's reach; with `main`, one of that session."""
    if main is None:
        row = await find_session(conn, viewer, name, scope)
    else:
        session = await get_session(conn, viewer, main, scope)
        row = await get_session(conn, viewer, name, scope)
        if row.parent_id != session.id:
            raise NotFound(f"session {session.id} has no branch {name!r}: GET .../branches lists them")
    branch_kind(row)
    return row


async def _read_steer(conn: Connection, branch: SessionRow) -> Event | None:
    """Return the message that a branch began with: the event after its SessionStart."""
    lineage = await store.load_lineage(conn, branch.id, branch)
    event = await store.find_event(conn, lineage, branch.base_seq + 2)
    return event if event is not None and event.type is EventType.USER_MESSAGE else None
