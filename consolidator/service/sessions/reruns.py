"""Sessions run again, replayed, and compared: a recorded session with another model, prompt or tools, two side by side.

What a page compares is bounded: the beginnings of two long sessions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from consolidator.database import Database
from consolidator.errors import RequestUnderWay, UsageError
from consolidator.llm.client import create_client
from consolidator.models.session import SessionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.runtime.rerun import branches
from consolidator.runtime.rerun.recording import (
    REPEATER,
    ChangeReplay,
    Comparison,
    RecordedMessage,
    RecordedToolbox,
    Repeated,
    compare_runs,
    find_own_start,
    read_recording,
    read_turns,
    stand_in,
)
from consolidator.runtime.rerun.replay import ReplayedItem, replay
from consolidator.runtime.session.access import find_session
from consolidator.runtime.session.agent_defaults import Overrides
from consolidator.runtime.tools.builtin import BUILTIN_GROUPS, builtin_tools
from consolidator.runtime.tools.tool import Tool
from consolidator.runtime.turn.harness import Harness, StepResult
from consolidator.runtime.turn.sessions import send_message
from consolidator.runtime.turn.wake import wake_session
from consolidator.service.sessions.bundles import load_bundle
from consolidator.settings import Settings
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import count_events, load_lineage

MAX_EVENTS = 2000  # of each session that a page compares
_MAX_REQUESTED, _MAX_REMEMBERED = 2, 100  # reruns of a service at once, and those that it can still tell of
_ON_BEGIN: ContextVar[Callable[[SessionRow, int], None]] = ContextVar("on_begin", default=lambda child, messages: None)


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


async def rerun_session(
    database: Database,
    settings: Settings,
    source: str,
    *,
    from_seq: int | None = None,
    overrides: Overrides | None = None,
    tools: Sequence[Tool] | None = None,
    live_tools: bool = False,
    viewer: Viewer = OWNER,
) -> Rerun:
    """Run a session, or the one in a bundle, again from a person's message on (at a seq or after it), and compare.

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
    messages, recording = run.messages, run.calls
    offered = await _offered_tools(database, settings, recorded, tools)
    toolbox = RecordedToolbox(offered, recording, live=live_tools)
    rerun_overrides = replace(overrides or Overrides(), tools=list(toolbox.names))
    request = ChildRequest(kind="branch", branch_kind="sim", at=first.seq, overrides=rerun_overrides, is_rerun=True)
    child = await create_child(database, settings, recorded.id, request, driver_tools=toolbox.names)
    _ON_BEGIN.get()(child, len(messages))
    everything: list[Repeated] = [*run.changes, *run.steers]
    replay = ChangeReplay(database, child.id, (change for change in everything if change.seq > first.seq))
    recording.advance = replay.advance
    client = create_client(settings)
    try:
        harness = Harness(database, settings, client, toolbox)
        result = await _repeat(harness, child.id, messages[1:], replay)
    finally:
        await client.close()
    left = await read_turns(database, recorded.id, after=first.seq - 1)
    right = await read_turns(database, child.id, after=first.seq - 1)
    comparison = compare_runs(left, right)
    return Rerun(child.id, recorded.id, first.seq, result.finish_reason, recording.used, recording.missed, comparison)


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
        """Begin a rerun. Raises what `rerun_session` does before it begins, and RequestUnderWay beside too many."""
        running = sum(rerun.status == "running" for rerun in self._reruns.values())
        if running + self._beginning >= _MAX_REQUESTED:
            raise RequestUnderWay(f"{_MAX_REQUESTED} reruns are under way here: ask again when one has ended")
        begun: asyncio.Future[tuple[SessionRow, int]] = asyncio.get_running_loop().create_future()

        async def work() -> Rerun:
            _ON_BEGIN.set(lambda *started: begun.set_result(started))  # in this task's own context
            return await rerun_session(
                self.database, self.settings, source, from_seq=from_seq, overrides=overrides, viewer=viewer
            )

        task = asyncio.create_task(work())
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # read by clients
        self._beginning += 1
        try:
            await asyncio.wait((task, begun), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._beginning -= 1
        if not begun.done():
            await task  # raises why
        child, messages = begun.result()
        self._reruns[child.id] = rerun = RequestedRerun(child.id, messages, task)
        for name in list(self._reruns)[:-_MAX_REMEMBERED]:
            del self._reruns[name]
        return rerun

    def find(self, session_id: str) -> RequestedRerun | None:
        """Return a rerun of this process that is remembered."""
        return self._reruns.get(session_id)


async def _repeat(
    harness: Harness, session_id: str, messages: Sequence[RecordedMessage], replay: ChangeReplay
) -> StepResult:
    """Answer the message that a rerun begins with, then the others, each where the turn before it has ended."""
    upcoming = deque(messages)
    while True:
        replay.turn_end = upcoming[0].seq if upcoming else None
        result = await wake_session(harness, session_id)
        if result.finish_reason != "stop":
            return result
        message = replay.take_steer()  # the model asked for no call before it
        if message is None:
            if not upcoming:
                return result
            message = upcoming.popleft()
        await replay.advance(message.seq)
        await send_message(harness.database, session_id, message.text, speaker=message.speaker, viewer=REPEATER)


async def _offered_tools(
    database: Database, settings: Settings, recorded: SessionRow, tools: Sequence[Tool] | None
) -> list[Tool]:
    """Return the tools of a rerun: those given, else stand-ins for the recorded ones, and our own as they were."""
    own = {tool.name: tool for tool in builtin_tools(BUILTIN_GROUPS)}
    if tools is not None:
        return list(tools)
    names = dict.fromkeys(str(name) for name in recorded.config.get("tools") or ())
    async with database.connection() as conn:
        lineage = await load_lineage(conn, recorded.id, recorded)
        counts = await count_events(conn, lineage, after=lineage.readable_after, upto=recorded.head)
    names |= dict.fromkeys(count.tool_name for count in counts if count.tool_name)
    return [own.get(name) or stand_in(name) for name in names]


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Two sessions side by side: a branch or a rerun stands right of what it came from."""

    left: SessionRow
    right: SessionRow
    after: int  # the position of both from which they are compared; 0 for whole sessions
    comparison: Comparison
    is_whole: bool  # whether both have no more events than are compared
    is_pruned: bool  # whether events of one of them are gone that would be compared


async def compare_pair(
    database: Database, left: str, right: str, *, limit: int = MAX_EVENTS, viewer: Viewer = OWNER
) -> ComparedPair:
    """Compare the beginnings of two sessions, by ids or names; one that came of the other only from there on.

    Without `right`, `left` is compared with what it came from. Of each at most `limit` events are read. Raises NotFound
    and Forbidden, and UsageError where there is nothing to compare with.
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
        begin = None
        if second.parent_id == first.id:
            begin = await branches.find_begin(conn, second) if second.kind == "branch" else second.base_seq
    both = (first, second)
    comparison = compare_runs(*[await read_turns(database, row.id, after=begin, limit=limit) for row in both])
    is_whole = all(row.head - max(begin or 0, row.pruned_to) <= limit for row in both)
    is_pruned = any(row.pruned_to > max(begin or 0, row.base_seq) for row in both)
    return ComparedPair(first, second, 0 if begin is None else second.base_seq, comparison, is_whole, is_pruned)


async def replay_session(
    database: Database, session_name: str, *, channel: str | None = None
) -> AsyncIterator[ReplayedItem]:
    """Yield what people saw of a session, in order: on `channel`, else on the session's own."""
    async with database.connection() as conn:
        async for item in replay(conn, await sessions.find_session_id(conn, session_name), channel=channel):
            yield item
