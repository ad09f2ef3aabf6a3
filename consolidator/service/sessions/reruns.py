"""Sessions run again, replayed, and compared: a recorded session with another model, prompt or tools, two side by side.

What a page compares is bounded: the beginnings of two long sessions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from consolidator.database import Database
from consolidator.errors import ModelError, RequestUnderWay, UsageError
from consolidator.llm.client import create_client
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.runtime.rerun.branches import SessionComparison, compare_rows
from consolidator.runtime.rerun.recording import (
    ChangeReplay,
    RecordedRun,
    RecordedToolbox,
    find_own_start,
    read_recording,
    say_again,
    stand_in,
)
from consolidator.runtime.rerun.replay import ReplayedItem, replay
from consolidator.runtime.rerun.turns import Comparison, compare_runs, read_turns
from consolidator.runtime.session.access import find_session, read_past
from consolidator.runtime.session.agent_defaults import NO_OVERRIDES, Overrides
from consolidator.runtime.session.safe_points import find_safe_before
from consolidator.runtime.tools.builtin import BUILTIN_GROUPS, builtin_tools
from consolidator.runtime.tools.tool import Tool
from consolidator.runtime.turn.harness import Harness
from consolidator.runtime.turn.sessions import create_message
from consolidator.runtime.turn.sub_agents import find_failure
from consolidator.runtime.turn.wake import step_session, wake_session
from consolidator.service.sessions.bundles import load_bundle
from consolidator.settings import Settings
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import count_events, load_lineage

GO_ON = "Go on."  # said to a model that is asked anew in the midst of a turn
MAX_EVENTS = 2000  # of each session that a page compares
_MAX_REQUESTED, _MAX_REMEMBERED = 2, 100  # reruns of a service at once, and those that it can still tell of


@dataclass(frozen=True, slots=True)
class Rerun:
    """What came of running a session again."""

    session_id: str  # of the session that was run: simulated, never evidence
    recorded_id: str  # of the one that it repeats
    from_seq: int
    finish_reason: str  # of its last turn: stop, or why it ended before the last message
    answered: int  # calls that the recording answered
    unanswered: int  # calls that it did not have
    comparison: Comparison

    def as_json(self) -> dict[str, Any]:
        """Return the rerun as JSON can hold it."""
        return {
            "session": self.session_id,
            "recorded": self.recorded_id,
            "from": self.from_seq,
            "finish_reason": self.finish_reason,
            "calls_answered": self.answered,
            "calls_unanswered": self.unanswered,
            "diff": self.comparison.as_json(),
        }


async def compare_sessions(database: Database, left: str, right: str, *, viewer: Viewer = OWNER) -> Comparison:
    """Compare two sessions, or bundles by their paths, turn by turn. Raises NotFound and Forbidden."""
    sources = [await open_source(database, name, viewer=viewer) for name in (left, right)]
    return compare_runs(*[await read_turns(database, session.id) for session in sources])


async def open_source(database: Database, name: str, *, viewer: Viewer = OWNER) -> SessionRow:
    """Return the session of a name, or a copy of the one in a bundle, by its path. Raises NotFound and Forbidden."""
    path = Path(name)  # whoever asks by network names no files of this machine
    if viewer == OWNER and await asyncio.to_thread(path.is_file):
        imported, _ = await load_bundle(database, path, as_copy=True, viewer=viewer)
        if imported.erased:
            raise UsageError(f"{path}: session {imported.origin} was erased here, and is not looked at again")
        async with database.connection() as conn:
            return await sessions.get(conn, imported.session_id)
    async with database.connection() as conn:
        return await find_session(conn, viewer, name, "read")


@dataclass(frozen=True, slots=True)
class BegunRerun:
    """A rerun whose session is there, in which nothing is said yet."""

    harness: Harness
    session_id: str
    recorded_id: str
    run: RecordedRun

    async def finish(self) -> Rerun:
        """Answer the message that it begins with and say the others, each where the turn before it has ended."""
        upcoming = deque(self.run.messages)
        first = upcoming.popleft()
        replay = ChangeReplay(self.harness.database, self.session_id, self.run.list_repeated(after=first.seq))
        self.run.calls.advance = replay.advance
        try:
            while True:
                replay.turn_end = upcoming[0].seq if upcoming else None
                result = await wake_session(self.harness, self.session_id)
                turn = None
                if result.finish_reason == "stop":  # a steer is left where the model asked for no call before it
                    turn = replay.take_steer() or (upcoming.popleft() if upcoming else None)
                if turn is None:
                    break
                await replay.advance(turn.seq)
                await say_again(self.harness.database, self.session_id, turn)
        finally:
            await self.harness.client.close()
        repeated = await read_turns(self.harness.database, self.session_id, after=first.seq - 1)
        calls, comparison = self.run.calls, compare_runs(self.run.turns, repeated)
        return Rerun(
            self.session_id, self.recorded_id, first.seq, result.finish_reason, calls.used, calls.missed, comparison
        )


async def begin_rerun(
    database: Database,
    settings: Settings,
    source: str,
    *,
    from_seq: int | None = None,
    overrides: Overrides = NO_OVERRIDES,
    tools: Sequence[Tool] | None = None,
    live_tools: bool = False,
    viewer: Viewer = OWNER,
) -> BegunRerun:
    """Begin to run a session, or the one in a bundle, again from the message at a seq or after it, to compare them.

    By default from the first that it answered itself: what a fork reads of its ancestors, others answered.

    It runs in a branch that is never evidence. Calls that the recording has are answered from it, others are dry runs;
    with `live_tools` those of tools without side effects are run. Without `tools` the recorded names stand in for them.
    What people and programs changed in its scratchpad and tasks is changed again, where they did; a steer comes again
    where it came, between the calls of its turn.
    Raises NotFound, Forbidden, and UsageError for a seq after which no person's message stands.
    """
    viewer.check_may("write")
    recorded = await open_source(database, source, viewer=viewer)
    start = await find_own_start(database, recorded) if from_seq is None else from_seq
    if start is None:
        hint = f"; from_seq (--from) names one of its ancestors', up to {recorded.base_seq}"
        raise UsageError(
            f"session {recorded.id} answered no person's message: there is nothing to run again"
            f"{hint if recorded.base_seq else ''}"
        )
    run = await read_recording(database, recorded.id, after=start - 1)
    if not run.messages:
        raise UsageError("no person's message comes there: there is nothing to run again")
    first = run.messages[0]
    if first.seq > start:  # without the calls of the turn before
        run = await read_recording(database, recorded.id, after=first.seq - 1)
    offered = list(tools) if tools is not None else await _offered_tools(database, recorded)
    toolbox = RecordedToolbox(offered, run.calls, live=live_tools)
    request = ChildRequest(kind="branch", branch_kind="sim", at=first.seq, overrides=overrides, is_rerun=True)
    harness, child_id = await _open_branch(database, settings, recorded, request, toolbox)
    return BegunRerun(harness, child_id, recorded.id, run)


async def _open_branch(
    database: Database, settings: Settings, recorded: SessionRow, request: ChildRequest, toolbox: RecordedToolbox
) -> tuple[Harness, str]:
    """Return a branch with recorded tools alone, and what drives it; no model sees credentials of another's log.

    A recorded session names a model, but not a server that may be sent it: without one, raises UsageError.
    """
    if settings.openai_api_key is None and settings.openai_base_url is None:
        raise UsageError("no model's server is configured: set OPENAI_BASE_URL or OPENAI_API_KEY; nothing was sent")
    overrides = replace(request.overrides, tools=list(toolbox.names))
    request = replace(request, overrides=overrides)
    child = await create_child(database, settings, recorded.id, request, driver_tools=toolbox.names)
    harness = Harness(database, settings, create_client(settings), toolbox, redacts=recorded.is_driven_elsewhere)
    return harness, child.id


async def try_again(
    database: Database, settings: Settings, session_id: str, seq: int, *, overrides: Overrides, model_calls: int
) -> list[Event]:
    """Ask a model anew what a recorded session did at an event, and return what it did in place of it.

    It is a branch that is never evidence, from the last point before the event where nothing was open, with a word to
    go on. Calls are answered from the recording, else not run; it ends with the calls of its last answer. Raises
    ModelError where the model gave none.
    """
    async with database.connection() as conn:
        recorded = await sessions.get(conn, session_id)
        at = await find_safe_before(conn, recorded, await load_lineage(conn, session_id, recorded), seq)
    run = await read_recording(database, session_id, after=at)
    toolbox = RecordedToolbox(await _offered_tools(database, recorded), run.calls)
    request = ChildRequest(
        kind="branch", branch_kind="sim", at=at, overrides=overrides, is_rerun=True, message=create_message(GO_ON)
    )
    harness, child_id = await _open_branch(database, settings, recorded, request, toolbox)
    try:
        for _ in range(model_calls):
            result = await step_session(harness, child_id)
            if result.finish_reason not in ("stop", "tool_calls"):
                why = await find_failure(database, child_id, result) or result.finish_reason
                raise ModelError(f"the model gave no answer in place of event {seq} of session {session_id}: {why}")
            if result.finish_reason == "stop":
                break
    finally:
        await harness.client.close()
    return [event async for event in read_past(database, child_id, after=at)]


async def rerun_session(database: Database, settings: Settings, source: str, **options: Any) -> Rerun:
    """Run a session again, and compare; the options are those of `begin_rerun`."""
    return await (await begin_rerun(database, settings, source, **options)).finish()


@dataclass(slots=True)
class RequestedRerun:
    """A rerun that goes on after the request that began it."""

    session_id: str
    messages: int  # that are said again, in all
    task: asyncio.Task[Rerun]

    @property
    def status(self) -> Literal["running", "done", "failed"]:
        """How it is."""
        if not self.task.done():
            return "running"
        return "failed" if self.task.cancelled() or self.task.exception() else "done"


@dataclass(slots=True)
class RequestedReruns:
    """The reruns that a service was asked for: a few at once, without any tool of this machine."""

    database: Database
    settings: Settings
    _reruns: dict[str, RequestedRerun] = field(default_factory=dict)  # by the session that is run, the latest last
    _beginning: int = 0  # requests whose session is not there yet

    async def start(
        self, source: str, *, from_seq: int | None, overrides: Overrides, viewer: Viewer = OWNER
    ) -> RequestedRerun:
        """Begin a rerun. Raises what `begin_rerun` does, and RequestUnderWay beside too many."""
        running = sum(rerun.status == "running" for rerun in self._reruns.values())
        if running + self._beginning >= _MAX_REQUESTED:
            raise RequestUnderWay(f"{_MAX_REQUESTED} reruns are under way here: ask again when one has ended")
        self._beginning += 1
        try:
            begun = await begin_rerun(
                self.database, self.settings, source, from_seq=from_seq, overrides=overrides, viewer=viewer
            )
        finally:
            self._beginning -= 1
        rerun = RequestedRerun(begun.session_id, len(begun.run.messages), asyncio.create_task(begun.finish()))
        rerun.task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # read by clients
        self._reruns[rerun.session_id] = rerun
        for name in list(self._reruns)[:-_MAX_REMEMBERED]:
            del self._reruns[name]
        return rerun

    def find(self, session_id: str) -> RequestedRerun | None:
        """Return a rerun of this process that is remembered."""
        return self._reruns.get(session_id)


async def _offered_tools(database: Database, recorded: SessionRow) -> list[Tool]:
    """Return stand-ins for the tools of a recorded session, and our own as they were."""
    own = {tool.name: tool for tool in builtin_tools(BUILTIN_GROUPS)}
    names = dict.fromkeys(str(name) for name in recorded.config.get("tools") or ())
    async with database.connection() as conn:
        lineage = await load_lineage(conn, recorded.id, recorded)
        counts = await count_events(conn, lineage, after=lineage.readable_after, upto=recorded.head)
    names |= dict.fromkeys(count.tool_name for count in counts if count.tool_name)
    return [own.get(name) or stand_in(name) for name in names]


async def compare_pair(
    database: Database, left: str, right: str, *, limit: int = MAX_EVENTS, viewer: Viewer = OWNER
) -> SessionComparison:
    """Compare the beginnings of two sessions, by ids or names; one that came of the other only from there on.

    Without `right`, `left` is compared with what it came from. Raises NotFound, Forbidden, and UsageError where there
    is nothing to compare with.
    """
    async with database.connection() as conn:
        first = await find_session(conn, viewer, left, "read")
        other_name = right or first.parent_id
        if not other_name:
            raise UsageError(f"session {first.id} came of no other: name a second one to compare it with")
        second = await find_session(conn, viewer, other_name, "read")
    if first.id == second.id:
        raise UsageError("this is one session twice: name another one")
    if first.parent_id == second.id:
        first, second = second, first
    return await compare_rows(database, first, second, are_related=second.parent_id == first.id, limit=limit)


async def replay_session(database: Database, session_name: str) -> AsyncIterator[ReplayedItem]:
    """Yield what people saw of a session on its channel, in order."""
    async with database.connection() as conn:
        async for item in replay(conn, await sessions.find_session_id(conn, session_name)):
            yield item
