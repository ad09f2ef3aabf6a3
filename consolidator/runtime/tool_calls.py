"""Runs a turn's open tool calls to their results: each has one effect at most, whatever died before.

What may have run is run again only where its tool allows that; any other becomes uncertain, and a person decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.boundaries import Boundary, around
from consolidator.runtime.fold import OpenCall
from consolidator.runtime.generation import Generated
from consolidator.runtime.harness import Harness
from consolidator.runtime.lease import Lease, Steered
from consolidator.runtime.tools.outcome import Outcome, cut
from consolidator.runtime.tools.tool import CallContext
from consolidator.store.log import events
from consolidator.store.log import lease as store

UNCERTAIN = "The process that ran this call ended before its result was recorded: it may have had its effect, or not."
CANCELLED = "This call was cancelled while it ran: it may have had its effect, or not."
_SHOWN = 500  # bytes
NEVER_RAN = "This call was not run: the user wanted something else."
STOPPED = "This call was stopped: the user wanted something else."


def called(harness: Harness, heard: Generated, message_id: str) -> list[NewEvent]:
    """Return the calls of an answer as events, and the requests to a person that some of them need.

    Calls that may run again run at once, in one group; any other is alone in its group.
    """
    calls: list[NewEvent] = []
    asking: list[NewEvent] = []
    group, together = 0, False
    for number, asked in enumerate(heard.calls[n] for n in sorted(heard.calls)):
        tool = harness.tools.get(asked.tool)
        alone = tool is None or tool.needs_approval or not tool.idempotent
        group += 0 if together and not alone else 1
        together = not alone
        call_id, arguments = f"call_{message_id}_{number}", asked.told()
        told = {"call_id": call_id, "tool": asked.tool, "arguments": arguments}
        more = {"message_id": message_id, "group": group, "known": tool is not None}
        calls.append(NewEvent(EventType.TOOL_CALL, {**told, **more}))
        if tool is not None and tool.needs_approval:
            asking.append(NewEvent(EventType.APPROVAL_REQUESTED, told))
    return [*calls, *asking]


def asking(calls: Sequence[NewEvent]) -> dict[str, dict[str, Any]]:
    """Return what a person is asked about calls: by call, its tool and arguments, of which the log has the whole."""
    told = [one.data for one in calls if one.type == EventType.APPROVAL_REQUESTED]
    return {
        one["call_id"]: {"kind": "approval", "tool": one["tool"], "arguments": cut(one["arguments"], _SHOWN)}
        for one in told
    }


def unstarted(calls: Sequence[NewEvent], first_seq: int) -> list[OpenCall]:
    """Return calls that this process has just logged, and that nobody can have run."""
    asked = {one.data["call_id"] for one in calls if one.type == EventType.APPROVAL_REQUESTED}
    return [
        OpenCall(
            first_seq + n, one.data["call_id"], one.data["tool"], one.data["arguments"], one.data["message_id"],
            one.data["group"], "waiting" if one.data["call_id"] in asked else "fresh",
        )
        for n, one in enumerate(calls) if one.type == EventType.TOOL_CALL
    ]  # fmt: skip


class ToolCallRunner:
    """Works through the calls of a session that is held."""

    def __init__(self, harness: Harness, lease: Lease) -> None:
        self.harness = harness
        self.lease = lease
        self.ran = 0
        self.to_seq = 0

    async def settle(self, calls: Sequence[OpenCall], *, steer: int = 0) -> bool:
        """Bring calls to their results; False where one waits for a person. `steer` is a steer not yet heeded."""
        steered = steer > 0
        for _, group in groupby(calls, key=lambda one: (one.message_id, one.group)):
            members = list(group)
            if steered:
                members = [one if one.state in ("begun", "denied") else replace(one, state="fresh") for one in members]
                await self._give_up([one for one in members if one.state == "fresh"])
                members = [one for one in members if one.state != "fresh"]
            if any(one.state == "waiting" for one in members):
                return False
            steered = not await self._settle(members) or steered
        return True

    async def _settle(self, group: Sequence[OpenCall]) -> bool:
        """Bring a group to its results; False where a steer cut it short."""
        granted = [one.call_id for one in group if one.state == "granted"]
        if granted:
            started = NewEvent(EventType.POLICY_DECISION, {"decision": "call_started", "call_ids": granted})
            await self._log([started], "commit call started")
        works = [asyncio.create_task(self._outcome(one)) for one in group]
        whole = True
        try:
            await self.lease.unless_steered(_all(works))
        except Steered:
            whole = False
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
        results = [
            (call, _cancelled(self.harness, call) if work.cancelled() else work.result())
            for call, work in zip(group, works, strict=True)
        ]
        if results:
            await self._log_results(results)
        return whole

    async def _outcome(self, call: OpenCall) -> Outcome | None:
        """Return what came of a call; None where nobody can tell."""
        tool = self.harness.tools.get(call.tool)
        if call.state == "denied":
            because = f": {call.reason}" if call.reason else "."
            return Outcome.failed(f"A person did not allow this call{because}", "rejected")
        if call.state == "begun" and not call.known:
            return Outcome.failed(f"There was no tool named {call.tool!r}.")
        if call.state == "begun" and (tool is None or not tool.idempotent):
            return None  # also where its tool is gone by now: it may have run while that was there
        told = CallContext(
            call.call_id, self.lease.session_id, bool(self.lease.row["simulated"]), again=call.state == "begun",
            look=partial(self._logged, call),
        )  # fmt: skip
        self.ran += 1
        with around("tool"):
            self.lease.check()
            return await self.harness.tools.run(call.tool, call.arguments, told)

    async def _logged(self, call: OpenCall) -> Outcome | None:
        """Return the result that a call has in the log by now, if it has one that says how it went."""
        async with self.harness.database.connection() as conn:
            bounds = (self.lease.row["created_at"], events.END)
            log = await events.read(conn, self.lease.session_id, after=call.seq, bounds=bounds)
        for event in log:
            data = event.data
            known = event.type is EventType.TOOL_RESULT and data["call_id"] == call.call_id
            if known and data["status"] in ("ok", "error"):
                return Outcome(data.get("content", ""), data["status"], data.get("reason"), data.get("state_patch"))
        return None

    async def _give_up(self, calls: Sequence[OpenCall]) -> None:
        if calls:
            await self._log_results([(one, Outcome.failed(NEVER_RAN, "aborted")) for one in calls])

    async def _log_results(self, results: Sequence[tuple[OpenCall, Outcome | str | None]]) -> None:
        """Log results in the order of their calls, with what they change of the session's state."""
        uncertain = {
            call.call_id: {"kind": "uncertain", "tool": call.tool, "arguments": cut(call.arguments, _SHOWN)}
            for call, outcome in results if not isinstance(outcome, Outcome)
        }  # fmt: skip
        patches = [one.patch for _, one in results if isinstance(one, Outcome) and one.patch]
        new = [_result(call, outcome) for call, outcome in results]
        with around("commit results"):
            async with self.harness.database.transaction() as conn:
                await self._append(conn, new)
                await store.heed(
                    conn, self.lease.session_id, asked=uncertain, settled=[call.call_id for call, _ in results]
                )
                for patch in patches:
                    await store.patch(conn, self.lease.session_id, patch)

    async def _log(self, new: Sequence[NewEvent], boundary: Boundary) -> None:
        with around(boundary):
            async with self.harness.database.connection() as conn:
                await self._append(conn, new)

    async def _append(self, conn: Any, new: Sequence[NewEvent]) -> None:
        now = self.harness.database.clock.now()
        done = await events.append(conn, self.lease.session_id, new, now=now, epoch=self.lease.epoch)
        self.to_seq = done.last_seq


async def _all(works: Sequence[asyncio.Task[Any]]) -> None:
    if works:
        await asyncio.wait(works)


def _cancelled(harness: Harness, call: OpenCall) -> Outcome | str:
    """Return what is known of a call that was cancelled while it ran."""
    tool = harness.tools.get(call.tool)
    return Outcome.failed(STOPPED, "aborted") if tool is None or tool.idempotent else CANCELLED


def _result(call: OpenCall, outcome: Outcome | str | None) -> NewEvent:
    told: dict[str, Any] = {"call_id": call.call_id, "tool": call.tool}
    if isinstance(outcome, Outcome):
        told |= {"status": outcome.status, "content": outcome.content}
        told |= {} if outcome.reason is None else {"reason": outcome.reason}
        told |= {"state_patch": dict(outcome.patch)} if outcome.patch else {}
    else:
        told |= {"status": "uncertain", "content": outcome or UNCERTAIN}
    return NewEvent(EventType.TOOL_RESULT, told)
