"""Runs a turn's open tool calls to their results. Each call has at most one effect, whatever died before.

A call that may have run runs again only if its tool allows that. Any other becomes uncertain, and a person decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal

from consolidator.database import Connection
from consolidator.formats.common.json_parsing import exceeds_max_depth
from consolidator.memory.procedures.compiled_procedure import ProcedureRun, StepRefused
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, name_principal
from consolidator.models.session import SessionRow
from consolidator.runtime.session.agent_defaults import SpawnRequest, SpawnResult
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.changes import SessionChange, plan_and_append
from consolidator.runtime.session.fold import OpenCall
from consolidator.runtime.session.lease import Lease, Steered, open_end
from consolidator.runtime.session.outcome import Outcome, truncate
from consolidator.runtime.session.turn_limits import MAX_NAME_LENGTH, RepeatNotes, TurnLimits, TurnUse
from consolidator.runtime.tools.tool import MAX_DEPTH, CallContext, Toolbox
from consolidator.runtime.turn.generation import StreamedAnswer
from consolidator.runtime.turn.harness import Guard, Harness
from consolidator.store.log import events
from consolidator.store.log.events import AppendStatement
from consolidator.store.turns import lease as store
from consolidator.store.turns import turns
from consolidator.telemetry import open_span

UNCERTAIN = "The process that ran this call ended before its result was recorded: it may have had its effect, or not."
CANCELLED = "This call was cancelled while it ran: it may have had its effect, or not."
NEVER_RAN = "This call was not run: the user wanted something else."
STOPPED = "This call was stopped: the user wanted something else."
Guards = Mapping[int, Guard]  # by the number of the call in its answer
SpawnFunction = Callable[[str, SpawnRequest], Awaitable[SpawnResult]]  # given a call's id
_STEP = "_s"  # in a call's id, before the number of a procedure's step
_MAX_ARGUMENT_BYTES = 500  # of a call that waits for a person, kept in the session's row


async def find_guards(harness: Harness, session: SessionRow, answer: StreamedAnswer, message_id: str) -> Guards:
    """Return what is done about the calls of an answer before they are logged, by their numbers."""
    if harness.guard is None:
        return {}
    guards = {}
    for number, index in enumerate(sorted(answer.tool_calls)):
        streamed = answer.tool_calls[index]
        tool, call_id = harness.tools_of(session).get(streamed.tool), _call_id(message_id, number)
        may_go_first = tool is not None and tool.idempotent and not tool.needs_approval
        guard = await harness.guard(
            session, streamed.tool, streamed.parsed_arguments(), call_id, may_go_first=may_go_first
        )
        if guard is not None:
            guards[number] = guard
    return guards


def _call_id(message_id: str, number: int) -> str:
    return f"call_{message_id}_{number}"


def call_events(
    tools: Toolbox, answer: StreamedAnswer, message_id: str, guards: Guards = MappingProxyType({})
) -> list[NewEvent]:
    """Return the calls of an answer as events, and after them the approval requests that some of them need.

    Consecutive calls that may run again form one group and run concurrently. Any other call is alone in its group.
    """
    calls: list[NewEvent] = []
    requests: list[NewEvent] = []
    group, previous_is_shared = 0, False
    for number, streamed in enumerate(answer.tool_calls[index] for index in sorted(answer.tool_calls)):
        tool = tools.get(streamed.tool)
        arguments, guard = streamed.parsed_arguments(), guards.get(number)
        if guard is not None and guard.arguments is not None:
            arguments = guard.arguments
        is_too_deep = exceeds_max_depth(arguments, MAX_DEPTH)
        refusal = f"Not run: its arguments are nested deeper than {MAX_DEPTH} levels." if is_too_deep else None
        is_alone = (
            tool is None or refusal is not None or tool.needs_approval or not tool.idempotent
            or tool.changes_session or tool.begins_procedure
        )  # fmt: skip
        group += 0 if previous_is_shared and not is_alone else 1
        previous_is_shared = not is_alone
        first = guard.first if guard is not None else None
        if first is not None and tool is not None:
            before = {"call_id": f"{_call_id(message_id, number)}_g", "tool": tool.name, "arguments": first}
            more = {"message_id": message_id, "group": group, "known": True, "guard": "run first, as known here"}
            calls.append(NewEvent(EventType.TOOL_CALL, {**before, **more}))
            group += 1
        call = {
            "call_id": _call_id(message_id, number),
            "tool": streamed.tool if tool is not None else streamed.tool[:MAX_NAME_LENGTH],
            "arguments": arguments if refusal is None else streamed.arguments,
        }
        more = {"message_id": message_id, "group": group, "known": tool is not None}
        more |= {} if refusal is None else {"refused": refusal}
        more |= {} if guard is None else {"guard": guard.note}
        more |= {"builtin": True} if tool is not None and (tool.changes_session or tool.begins_procedure) else {}
        calls.append(NewEvent(EventType.TOOL_CALL, {**call, **more}))
        if tool is not None and tool.needs_approval and refusal is None:
            requests.append(NewEvent(EventType.APPROVAL_REQUESTED, call))
    if answer.dropped_calls:
        # One call stands for all those that the answer had too many of; its result is the refusal.
        refusal = (
            f"{answer.dropped_calls} more calls of this answer were not run: one answer may have {answer.max_calls}. "
            "Make fewer calls at once."
        )
        dropped = {"call_id": f"call_{message_id}_more", "tool": "too_many_calls", "arguments": {}}
        more = {"message_id": message_id, "group": group + 1, "known": False, "refused": refusal}
        calls.append(NewEvent(EventType.TOOL_CALL, {**dropped, **more}))
    return [*calls, *requests]


def step_events(tools: Toolbox, after: OpenCall, run: ProcedureRun) -> list[NewEvent]:
    """Return the call of a procedure's step as events, to be logged with the result that it follows."""
    name, arguments = run.call()
    tool, began = tools.get(name), after.call_id.rpartition(_STEP)[0] or after.call_id
    call = {"call_id": f"{began}{_STEP}{run.number + 1}", "tool": name, "arguments": arguments}
    more = {"message_id": after.message_id, "group": after.group, "known": tool is not None, "procedure": run.to_json()}
    asks = tool is not None and tool.needs_approval
    return [
        NewEvent(EventType.TOOL_CALL, {**call, **more}),
        *([NewEvent(EventType.APPROVAL_REQUESTED, call)] if asks else []),
    ]


def approval_requests(calls: Sequence[NewEvent]) -> dict[str, dict[str, Any]]:
    """Return what a person must approve: call_id -> kind, tool and truncated arguments, which the log has in full."""
    requests = [event.data for event in calls if event.type == EventType.APPROVAL_REQUESTED]
    return {
        request["call_id"]: _waiting_call("approval", request["tool"], request["arguments"]) for request in requests
    }


def _waiting_call(kind: Literal["approval", "uncertain"], tool: str, arguments: Any) -> dict[str, Any]:
    return {"kind": kind, "tool": tool, "arguments": truncate(arguments, _MAX_ARGUMENT_BYTES)}


def unstarted_calls(calls: Sequence[NewEvent], first_seq: int) -> list[OpenCall]:
    """Return the calls that this process has just logged from `first_seq` on; nobody can have run them."""
    waiting = {event.data["call_id"] for event in calls if event.type == EventType.APPROVAL_REQUESTED}
    return [
        OpenCall(
            first_seq + number,
            event.data["call_id"],
            event.data["tool"],
            event.data["arguments"],
            event.data["message_id"],
            event.data["group"],
            "waiting" if event.data["call_id"] in waiting else "not_started",
            refusal=event.data.get("refused"),
            procedure=event.data.get("procedure"),
            guard=event.data.get("guard"),
        )
        for number, event in enumerate(calls)
        if event.type == EventType.TOOL_CALL
    ]


class ToolCallRunner:
    """Runs the open calls of a session whose lease this process holds."""

    def __init__(
        self, harness: Harness, lease: Lease, turn: TurnUse, limits: TurnLimits, spawn: SpawnFunction | None = None
    ) -> None:
        self.harness = harness
        self.spawn = spawn
        self.tools = harness.tools_of(lease.session)
        self.notes = RepeatNotes(turn, limits)
        self.lease = lease
        self.executed_count = 0
        self.to_seq = 0  # the last event that was appended
        self.rows: Sequence[list[Any]] | None = None  # of `open_end`, if they were read with the last results
        self.is_last_group = False
        self.following: list[OpenCall] = []  # steps of procedures that were logged with the last results

    async def run(self, calls: Sequence[OpenCall], *, steer: int = 0) -> bool:
        """Run calls to their results; False if one waits for a person. `steer` is the seq of an open steer, or 0."""
        steered = steer > 0
        groups = [list(group) for _, group in groupby(calls, key=lambda call: (call.message_id, call.group))]
        for members in groups:
            self.is_last_group = members is groups[-1]
            while members:
                self.following = []
                if steered:
                    members = [
                        call if call.state in ("maybe_ran", "denied") else replace(call, state="not_started")
                        for call in members
                    ]
                    never_ran = Outcome.failed(NEVER_RAN, "aborted")
                    if aborted := [(call, never_ran) for call in members if call.state == "not_started"]:
                        await self._log_results(aborted)
                    members = [call for call in members if call.state != "not_started"]
                if any(call.state == "waiting" for call in members):
                    return False
                steered = not await self._run_group(members) or steered
                members = self.following
        return True

    async def _run_group(self, group: Sequence[OpenCall]) -> bool:
        """Run a group to its results; False if a steer interrupted it."""
        granted = [call.call_id for call in group if call.state == "granted"]
        if granted:
            started = NewEvent(EventType.POLICY_DECISION, {"decision": "call_started", "call_ids": granted})
            with boundary("commit call started"):
                async with self.harness.database.connection() as conn:
                    await self._append(conn, [started])
        tasks = [asyncio.create_task(self._run_call(call)) for call in group]
        is_complete = True
        try:
            if tasks:
                await self.lease.run_unless_steered(asyncio.wait(tasks))
        except Steered:
            is_complete = False
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        results = [
            (call, _cancelled_outcome(self.tools, call) if task.cancelled() else task.result())
            for call, task in zip(group, tasks, strict=True)
        ]
        if results:
            await self._log_results(results)
        return is_complete

    async def _run_call(self, call: OpenCall) -> Outcome | None:
        """Return the outcome of a call; None if it is uncertain."""
        if call.refusal is not None:
            return Outcome.failed(call.refusal)
        tool = self.tools.get(call.tool)
        if call.state == "denied":
            because = f": {call.reason}" if call.reason else "."
            return Outcome.failed(f"A person did not allow this call{because}", "rejected")
        if call.state == "maybe_ran" and not call.tool_known:
            return Outcome.failed(f"There was no tool named {call.tool!r}.")
        if call.state == "maybe_ran" and (tool is None or not tool.idempotent):
            return None  # also if its tool is gone by now: it may have run while the tool was there
        context = CallContext(
            call.call_id,
            self.lease.session_id,
            self.lease.session.is_dry_run,
            is_retry=call.state == "maybe_ran",
            load_logged_result=partial(self._load_logged_result, call),
            spawn=None if self.spawn is None else partial(self.spawn, call.call_id),
        )
        self.executed_count += 1
        with boundary("tool"):
            self.lease.check_valid()
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.tool if tool is not None else "unknown",  # the model makes up others
                "gen_ai.tool.call.id": call.call_id,
                "gen_ai.tool.type": "function",
            }
            with open_span("tool", f"execute_tool {attributes['gen_ai.tool.name']}", attributes) as span:
                outcome = await self.tools.run(call.tool, call.arguments, context)
                span.attributes["consolidator.outcome"] = outcome.status
                return outcome

    async def _load_logged_result(self, call: OpenCall) -> Outcome | None:
        """Return the result that the log has of a call by now; None if it has none, or an uncertain one."""
        async with self.harness.database.connection() as conn:
            bounds = (self.lease.session.created_at, events.END)
            log = await events.read(conn, self.lease.session_id, after=call.seq, bounds=bounds)
        for event in log:
            data = event.data
            is_result = event.type is EventType.TOOL_RESULT and data["call_id"] == call.call_id
            if is_result and data["status"] in ("ok", "error"):
                return Outcome(data.get("content", ""), data["status"], data.get("reason"), data.get("state_patch"))
        return None

    async def _log_results(self, results: Sequence[tuple[OpenCall, Outcome | str | None]]) -> None:
        """Log results in the order of their calls, and their changes of the session's state.

        A result that is no Outcome is uncertain; a text says why.
        """
        uncertain = {
            call.call_id: _waiting_call("uncertain", call.tool, call.arguments)
            for call, outcome in results
            if not isinstance(outcome, Outcome)
        }
        patches = [outcome.patch for _, outcome in results if isinstance(outcome, Outcome) and outcome.patch]
        call, outcome = results[0]
        with boundary("commit results"):
            if isinstance(outcome, Outcome) and outcome.change is not None and len(results) == 1:
                async with self.harness.database.transaction() as conn:
                    await self._append_changing_result(conn, call, outcome, outcome.change)
                    await store.set_attention(conn, self.lease.session_id, requested={}, settled=[call.call_id])
                    if outcome.patch:
                        await store.patch_state(conn, self.lease.session_id, outcome.patch)
                return
            new = [event for call, outcome in results for event in self._with_next_step(call, outcome)]
            settled = [call.call_id for call, _ in results]
            statement = turns.results(requested=uncertain | approval_requests(new), settled=settled, patches=patches)
            statement = replace(statement, reads=open_end(self.lease.session_id) if self.is_last_group else ())
            async with self.harness.database.connection(for_step=True) as conn:
                await self._append(conn, new, statement)
            self.following = unstarted_calls(new, self.to_seq - len(new) + 1)

    def _with_next_step(self, call: OpenCall, outcome: Outcome | str | None) -> list[NewEvent]:
        """Return a result and the procedure's next call, which are logged together: each step is made at most once.

        None follows a step that does not count as done: its note hands over to the agent.
        """
        event = _result_event(call, outcome, self.notes)
        run = outcome.run if isinstance(outcome, Outcome) else None
        if run is None and call.procedure is None:
            return [event]
        result = dict(event.data)
        note = None
        if run is None:
            done = ProcedureRun.from_json(call.procedure)
            place = f"step {done.number + 1} of {len(done.procedure.steps)} of {done.procedure.name}"
            try:
                run = done.after(result["status"], result["content"])
                note = note if run is not None else f"{place}: all steps are done. {done.procedure.by_agent}".rstrip()
            except StepRefused as error:
                left = "".join(f"\n{line}" for line in done.describe()[1:])
                note = f"{place} does not count as done: {error}. The procedure ends here; go on yourself."
                note += f" These steps were not made:{left}" if left else ""
        if note:
            result["note"] = "\n".join(filter(None, (result.get("note"), note)))
        return [replace(event, data=result), *([] if run is None else step_events(self.tools, call, run))]

    async def _append_changing_result(
        self, conn: Connection, call: OpenCall, changing: Outcome, change: SessionChange
    ) -> None:
        """Append the result of a tool that changes its session, which runs alone, together with the change."""

        def create_result(answer: str | None, refusal: str | None) -> NewEvent:
            settled = Outcome.failed(refusal) if refusal is not None else replace(changing, content=answer)
            return _result_event(call, settled, deepcopy(self.notes))

        now = self.harness.database.clock.now()
        _, appended = await plan_and_append(
            conn, self.lease.session_id, change, Role.AGENT.value, now, self.lease.epoch, create_result
        )
        assert appended is not None  # the result is there in any case
        self.lease.open_task, self.to_seq, self.rows = appended.open_task, appended.last_seq, None

    async def _append(
        self, conn: Connection, new: Sequence[NewEvent], statement: AppendStatement | None = None
    ) -> None:
        appended = await self.lease.append(conn, new, now=self.harness.database.clock.now(), statement=statement)
        self.to_seq, self.rows = appended.last_seq, appended.rows or None


def _cancelled_outcome(tools: Toolbox, call: OpenCall) -> Outcome | str:
    """Return the outcome of a call that was cancelled while it ran; a text if that is uncertain."""
    tool = tools.get(call.tool)
    return Outcome.failed(STOPPED, "aborted") if tool is None or tool.idempotent else CANCELLED


def _result_event(call: OpenCall, outcome: Outcome | str | None, notes: RepeatNotes) -> NewEvent:
    data: dict[str, Any] = {"call_id": call.call_id, "tool": call.tool}
    if isinstance(outcome, Outcome):
        data |= {"status": outcome.status, "content": outcome.content}
        data |= {} if outcome.reason is None else {"reason": outcome.reason}
        data |= {"state_patch": dict(outcome.patch)} if outcome.patch else {}
    else:
        data |= {"status": "uncertain", "content": outcome or UNCERTAIN}
    notes_told = [notes.count(call.tool, call.arguments, data["status"], data["content"]), call.guard]
    note = "\n".join(filter(None, notes_told))
    data |= {"note": note} if note else {}
    is_of_tool = isinstance(outcome, Outcome) and outcome.reason is None
    principal = name_principal(Role.TOOL, call.tool) if is_of_tool else Role.HARNESS.value
    return NewEvent(EventType.TOOL_RESULT, data, principal=principal)
