"""One step of a session: load, decide, act, append. The result of a step is committed before it is returned.

A step needs no state of its process, so that any worker or durable engine can drive a session; what a process keeps of
a log spares it reading that again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ulid import ULID

from consolidator.errors import ModelError, ModelUnavailable, NotFound, UsageError
from consolidator.llm.redaction.redact import redact
from consolidator.models.agent import AUTO
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.runtime.session import budget
from consolidator.runtime.session.boundaries import Boundary, boundary
from consolidator.runtime.session.budget import Usage
from consolidator.runtime.session.fold import OpenState, fold_open_state
from consolidator.runtime.session.lease import Lease, Steered, open_end
from consolidator.runtime.session.routing import compared_model
from consolidator.runtime.session.turn_limits import TurnLimits, TurnStop, session_limits
from consolidator.runtime.turn.delivery import ChannelDelivery, tells_people
from consolidator.runtime.turn.generation import StreamedAnswer, stream_answer
from consolidator.runtime.turn.harness import FinishReason, Harness, StepResult
from consolidator.runtime.turn.planning import RequestPlan, plan_request, with_prefill, withheld_messages
from consolidator.runtime.turn.tool_calls import (
    SpawnFunction,
    ToolCallRunner,
    approval_requests,
    call_events,
    find_guards,
    unstarted_calls,
)
from consolidator.store.log import events
from consolidator.store.log.blobs import refs_of
from consolidator.store.log.events import AppendRefused, AppendStatement
from consolidator.store.queries import fetch_together
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage, read_lineage
from consolidator.store.turns import generation as store
from consolidator.store.turns import spend, turns
from consolidator.store.turns.context import SessionView

MAX_ATTEMPTS = 3  # to call the model within one step
MAX_CALLS = 64  # of one answer that are run
MAX_RETRY_WAIT = 20.0  # seconds between two attempts


@dataclass(slots=True)
class PartialMessage:
    """A message under way: what of it is committed."""

    message_id: str
    started_seq: int  # its ThinkingStart
    upto_seq: int  # the last event that its context could hold
    last_chunk_seq: int = 0
    text: str = ""
    withheld: tuple[int, ...] = ()  # seqs of messages up to `upto_seq` that wait for the end of the turn
    rest: str = ""  # its end, which is not committed yet: the answer came whole, and takes it along


@dataclass(slots=True)
class SessionStepper:
    """Takes the steps of a session whose lease this process holds."""

    harness: Harness
    lease: Lease
    spawn: SpawnFunction | None = None  # runs the sub-agent of a call
    delivery: ChannelDelivery = field(init=False)
    sub_agents_to_wake: list[str] = field(default_factory=list)  # once this session is released
    _rows: Sequence[list[Any]] | None = None  # of `open_end`, read with the last write; used by the next load
    _open_state: OpenState | None = None  # None: it must be loaded
    _view: SessionView | None = None  # of the same moment; None: it must be loaded
    _loaded: SessionRow | None = None  # a load that no step has used yet
    _read_after: int = 0  # the last load read the log after this event
    _told_to: int = 0  # and this is the last event in it that people are told of

    def __post_init__(self) -> None:
        self.delivery = ChannelDelivery(self.harness, self.lease)
        self._rows = self.lease.rows

    async def step(self) -> StepResult:
        """Do the one thing that the open end of the log asks for next."""
        session, state = await self.load()

        # A process died while it wrote: what people saw of the message decides whether it goes on.
        if state.generation is not None:
            message = await self._recover_generation(session, state)
            if message is not None:
                return await self._generate(session, state, message)
            session, state = await self.load()

        # Calls before answers: the model is asked only where each of its calls has a result.
        if state.calls:
            self._open_state = None
            runner = ToolCallRunner(self.harness, self.lease, state.turn, self._limits(session), self.spawn)
            all_have_results = await runner.run(state.calls, steer=state.steer_seq)
            self._rows = runner.rows
            to_seq = max(state.head, runner.to_seq)
            reason: FinishReason = "tool_calls" if all_have_results else "approval"
            return StepResult(to_seq, reason, executed_tool_count=runner.executed_count)

        if not state.needs_model or session.status != "open":
            return StepResult(state.head, "idle")
        stop = state.turn.find_stop(self._limits(session))
        if stop is not None:
            return await self._end_turn_unasked(state, None, stop)
        return await self._generate(session, state, None)

    def _limits(self, session: SessionRow) -> TurnLimits:
        return session_limits(session, self.harness.tools.polled_names)

    async def open_state(self) -> OpenState:
        """Return what is open in the log now."""
        if self._open_state is None:
            await self.load()
        assert self._open_state is not None
        return self._open_state

    async def load(self) -> tuple[SessionRow, OpenState]:
        """Read the session and fold the open end of its log."""
        # A wake has loaded the session already to see whether there is something to deliver.
        loaded, self._loaded = self._loaded, None
        if loaded is not None and self._open_state is not None:
            return loaded, self._open_state

        async with self.harness.database.connection() as conn:
            read, self._rows = self._rows, None
            views, rows = read or await fetch_together(conn, open_end(self.lease.session_id))
            if not views:
                raise NotFound(sessions.MISSING.format(self.lease.session_id))
            session = self._view = views[0]
            lineage = await load_lineage(conn, session.id, session)
            after = max(session.settled_to, lineage.readable_after)
            if self.lease.session.may_read_ancestors:
                log = await read_lineage(conn, lineage, after=after, upto=session.head)
            else:
                is_whole = not any(map(refs_of, rows))  # a context reads but the ends of what is in blobs
                end = [row for row in rows if row.seq <= session.head and (is_whole or row.seq > after)]
                newest = await events.complete(conn, end)
                log = [event for event in newest if event.seq > after]
                newest = newest if is_whole else []
                self.harness.tails.follow(lineage, self.harness.tools_of(session).result_limits(), newest)

            # What was read also tells whether people wait for a message of an earlier holder.
            self._told_to = max((event.seq for event in log if tells_people(event)), default=0)
            self._read_after = after
            self._open_state = fold_open_state(log, settled_to=after, head=session.head)
            state = self._open_state  # of `auto`, the model may have been chosen before what was read
            lacks_route = session.model == AUTO and state.routed_model is None and bool(state.unseen_results)
            begins_here = state.turn.has_beginning and not lacks_route
            if not (begins_here or self._open_state.is_settled):  # the turn began before
                earlier = await store.read_turn(conn, lineage, upto=after)
                self._open_state = fold_open_state(log, settled_to=after, head=session.head, earlier=earlier)

        # A steer up to here is part of the state: it interrupts nothing that begins now.
        self.lease.mark_seen(session.head)
        self.lease.open_task = session.open_task
        return session, self._open_state

    async def deliver_backlog(self) -> None:
        """Deliver what earlier holders left undelivered of finished messages; the load shows whether there is any."""
        session, _ = await self.load()
        delivery = self.delivery
        if delivery.sender is not None and delivery.delivered_to < max(self._told_to, self._read_after):
            await delivery.deliver_backlog()
            return
        self._loaded = session
        if delivery.sender is not None:
            delivery.delivered_to = session.head

    async def _recover_generation(self, session: SessionRow, state: OpenState) -> PartialMessage | None:
        """Decide what becomes of a generation that a dead process left, and log it.

        Return the message if it is to be resumed; None if it was ended or replaced.
        """
        generation = state.generation
        assert generation is not None

        # The dead process cannot say what its call cost: its whole reserve is spent.
        async with self.harness.database.connection() as conn:
            chunks = await store.read_chunks(conn, session.id, generation.message_id, low=session.created_at)
            delivered = await store.get_delivered_seq(conn, session.id, generation.message_id, self.delivery.channel)
            with boundary("commit spend"):
                await spend.settle_open(conn, session.id, self.harness.database.clock.now())
        text, last_chunk_seq = "".join(chunk.delta for chunk in chunks), chunks[-1].seq if chunks else 0
        message = PartialMessage(
            generation.message_id, generation.seq, generation.upto_seq, last_chunk_seq, text, generation.withheld
        )

        # A person steered meanwhile: what is committed stays, and the steer is answered next.
        if text and state.steer_seq > generation.upto_seq:
            await self.delivery.deliver_rest(message.message_id, after=delivered)
            self._mark_delivered(await self._append([_interruption(message, session.model)], "commit interruption"))
            return None

        # The model can go on with its own words only where it has seen all that was said since.
        has_newer_message = any(event.seq > generation.upto_seq for event in state.unanswered)
        if text and not has_newer_message and with_prefill(self.harness, []) is not None:
            await self.delivery.deliver_rest(message.message_id, after=delivered)
            await self._append_decision("generation_resumed", message)
            return message

        await self._replace(message)
        return None

    async def _replace(self, message: PartialMessage) -> None:
        """Log that another message replaces this one, and tell the channel if any of it may have been shown."""
        seq = await self._append_decision("generation_replaced", message)
        if message.last_chunk_seq:
            await self.delivery.deliver_void(message.message_id)
        self._mark_delivered(seq)

    async def _generate(self, session: SessionRow, state: OpenState, message: PartialMessage | None) -> StepResult:
        """Generate a message, or the rest of one, and run the tool calls that it asks for."""
        self._open_state, route = None, None
        for attempt in range(MAX_ATTEMPTS):
            # The money is reserved and the call is in the log before the model is asked: a crash finds both.
            try:
                prefill = message.text if message else None
                view, self._view = self._view, None
                plan = await plan_request(self.harness, session, state, prefill, self.lease.epoch, route, view)
                message, call_id = await self._begin_call(session, plan, message)
                route = plan.route
            except (budget.BudgetStop, UsageError) as error:
                return await self._end_turn_unasked(state, message, error)

            answer = StreamedAnswer(max_calls=MAX_CALLS)
            try:
                commit = partial(self._commit_batch, message)
                await self.lease.run_unless_steered(stream_answer(self.harness.client, plan.body, answer, commit))
            except Steered:  # what was streamed until now has its price
                usage = plan.usage(answer)
                await self._settle(call_id, usage)
                interruption = _interruption(message, answer.model or plan.model, usage)
                seq = await self._append([interruption], "commit interruption")
                if message.text:  # what of it was committed stays: the person has read it
                    self._mark_delivered(seq)
                return StepResult(seq, "interrupted")
            except ModelError as error:
                # At its reserve if it may have been charged and nothing was reported.
                may_be_charged = isinstance(error, ModelUnavailable) and error.may_be_charged
                is_free = not answer.pieces and not may_be_charged
                await self._settle(call_id, Usage() if is_free else plan.usage(answer) if answer.usage else None)
                if attempt == MAX_ATTEMPTS - 1 or not _is_retryable(error):
                    return await self._end_turn_failed(message, error, state.last_error)
                message = await self._prepare_retry(message, error)
                if message is None:  # it may have waited: look for newer events
                    session, state = await self.load()
                    if not state.needs_model:  # a person stopped the turn
                        return StepResult(state.head, "interrupted")
                    self._open_state, route = None, None
                continue
            return await self._finish(session, plan, message, answer, call_id, state)
        raise AssertionError("the last attempt returns")

    async def _begin_call(
        self, session: SessionRow, plan: RequestPlan, message: PartialMessage | None
    ) -> tuple[PartialMessage, str]:
        """Reserve money for a call and log its start, in one statement. Return the message and the call's id."""
        now = self.harness.database.clock.now()
        message_id = message.message_id if message else str(ULID())
        reserve = budget.plan_reserve(
            session.id,
            model=plan.model,
            input_tokens=plan.tokens,
            now=now,
            max_tokens=plan.max_tokens,
            session_model=compared_model(self.harness.settings, session),
            epoch=self.lease.epoch,
        ) | {"message": message_id, "strategy": plan.strategy}

        # A message that goes on has its ThinkingStart already; each call of the model has a reserve of its own.
        with boundary("commit thinking"):
            async with self.harness.database.connection(for_step=True) as conn:
                if message is None:
                    new = [] if plan.route is None else [plan.route.event(plan.purpose)]
                    new.append(NewEvent(EventType.THINKING_START, plan.log_data(message_id)))
                    begin_call = turns.begin_call(reserve, plan.fold)
                    try:
                        appended = await self.lease.append(conn, new, now=now, statement=begin_call)
                    except AppendRefused as refused:
                        raise await budget.explain_refusal(conn, reserve) from refused
                    message = PartialMessage(message_id, appended.last_seq, plan.upto_seq, withheld=plan.withheld)
                else:
                    await budget.reserve_spend(conn, reserve)
        self.lease.mark_seen(plan.upto_seq)
        return message, str(reserve["call"])

    async def _commit_batch(self, message: PartialMessage, text: str, is_last: bool) -> None:
        """Commit a batch of an answer as a chunk of the message and deliver it; the last one stays its rest."""
        if is_last:
            message.rest = text
            return
        with boundary("commit chunk"):
            async with self.harness.database.connection() as conn:
                message.last_chunk_seq = await store.append_chunks(
                    conn,
                    self.lease.session_id,
                    message.message_id,
                    [text],
                    after=message.last_chunk_seq,
                    started=message.started_seq,
                    epoch=self.lease.epoch,
                    now=self.harness.database.clock.now(),
                )
        message.text += text
        await self.delivery.deliver_chunk(message.message_id, message.last_chunk_seq, text, started=message.started_seq)

    async def _finish(
        self,
        session: SessionRow,
        plan: RequestPlan,
        message: PartialMessage,
        answer: StreamedAnswer,
        call_id: str,
        state: OpenState,
    ) -> StepResult:
        """Log a whole answer with its tool calls, and run these."""
        usage = plan.usage(answer)
        guards = await find_guards(self.harness, session, answer, message.message_id)
        calls = call_events(self.harness.tools_of(session), answer, message.message_id, guards)
        requests = approval_requests(calls)
        notice = None if calls else _cut_notice(message.text + message.rest, answer.finish_reason, plan.max_tokens)
        rest, chunk = message.rest, None
        if rest and notice:  # which is a message of its own after this one
            await self._commit_batch(message, rest, is_last=False)
        elif rest:
            message.text, message.last_chunk_seq = message.text + rest, message.last_chunk_seq + 1
            chunk = (message.message_id, message.last_chunk_seq, message.started_seq, rest)
        response = _response(message, answer.model or plan.model, answer.finish_reason, usage)
        now = self.harness.database.clock.now()
        end_call = turns.end_call(
            call_id,
            cost=budget.usage_cost(plan.model, usage),
            tokens=(usage.input_tokens, usage.cached_tokens, usage.output_tokens),
            requested=requests,
            turns=0 if calls else 1,
            chunk=chunk,
        )
        if notice:
            new = [response, NewEvent(EventType.ERROR, {"message": notice, "kind": "cut"})]
            return StepResult(await self._append_notice(new, notice, statement=end_call), "stop", usage)
        with boundary("commit response"):
            async with self.harness.database.connection(for_step=True) as conn:
                appended = await self.lease.append(conn, [response, *calls], now=now, statement=end_call)
        if chunk is not None:
            await self.delivery.deliver_chunk(*chunk[:2], rest, started=message.started_seq, ends_turn=not calls)
        self._mark_delivered(appended.first_seq)
        if not calls:
            started_seq = plan.upto_seq + (1 if plan.route is None else 2)
            is_alone = message.started_seq == started_seq and appended.first_seq == started_seq + 1
            if is_alone and not plan.withheld:  # no other event came meanwhile
                self._open_state = OpenState(head=appended.last_seq, settled_to=appended.last_seq)
            return StepResult(appended.last_seq, "stop", usage)
        runner = ToolCallRunner(self.harness, self.lease, state.turn, self._limits(session), self.spawn)
        all_have_results = await runner.run(unstarted_calls(calls, appended.first_seq + 1))
        self._rows = runner.rows
        reason: FinishReason = "tool_calls" if all_have_results else "approval"
        return StepResult(max(appended.last_seq, runner.to_seq), reason, usage, runner.executed_count)

    def _mark_delivered(self, seq: int) -> None:
        """Note that the channel, unless it failed, has the whole message that an event ended."""
        if self.delivery.sender is not None:
            self.delivery.delivered_to = seq

    async def _settle(self, call_id: str, usage: Usage | None) -> None:
        now = self.harness.database.clock.now()
        with boundary("commit spend"):
            async with self.harness.database.connection() as conn:
                await budget.settle_spend(conn, call_id, usage, now=now)

    async def _prepare_retry(self, message: PartialMessage, error: ModelError) -> PartialMessage | None:
        """Return the message if it can be resumed after a failed call; else replace it, wait, and return None."""
        if message.text and with_prefill(self.harness, []) is not None:
            await self._append_decision("generation_resumed", message)
            return message
        await self._replace(message)
        wait = error.retry_after if isinstance(error, ModelUnavailable) else None
        await self.harness.sleep(min(1.0 if wait is None else wait, MAX_RETRY_WAIT))
        return None

    async def _end_turn_failed(self, message: PartialMessage, error: ModelError, last_error: str | None) -> StepResult:
        """End the turn with an error and tell the person. If the error is retryable, the next wake asks again.

        `last_error` is what the person was told last in the same turn.
        """
        is_retryable = _is_retryable(error)
        data = {"message": str(error), "message_id": message.message_id, "kind": "model", "again": is_retryable}
        if message.last_chunk_seq:
            await self.delivery.deliver_void(message.message_id)
        if is_retryable and str(error) == last_error:  # do not repeat the same notice at every wake
            seq = await self._append([NewEvent(EventType.ERROR, data)], "commit notice")  # the row has the error, too
            self._mark_delivered(seq)
        else:
            seq = await self._append_notice([NewEvent(EventType.ERROR, data)], str(error))
        return StepResult(seq, "error")

    async def _end_turn_unasked(
        self, state: OpenState, message: PartialMessage | None, error: budget.BudgetStop | TurnStop | UsageError
    ) -> StepResult:
        """End the turn, and a message that was to be resumed, without a call of the model; tell the person why."""
        if isinstance(error, (budget.BudgetStop, TurnStop)):
            seen: dict[str, Any] = {"upto_seq": state.head}
            if isinstance(error, TurnStop) and (held := withheld_messages(state)):
                seen["held"] = list(held)  # they begin the next turn
            new = [NewEvent(event.type, {**event.data, **seen}) for event in error.events()]
        else:
            new = [NewEvent(EventType.ERROR, {"message": str(error), "kind": "context", "upto_seq": state.head})]
        if message is not None:
            new = [_interruption(message, None), *new]
        seq = await self._append_notice(new, str(error))
        return StepResult(seq, "error" if isinstance(error, UsageError) else "budget")

    async def _append_notice(
        self, new: Sequence[NewEvent], text: str, *, statement: AppendStatement | None = None
    ) -> int:
        """Append events and deliver a notice of the last one to the person, as a message of its own.

        The session has the error, too; but not where `statement` ends the turn with an answer.
        """
        notice_id, now = str(ULID()), self.harness.database.clock.now()
        with_notice = [*new[:-1], NewEvent(new[-1].type, {**new[-1].data, "notice_id": notice_id})]
        with boundary("commit notice"):
            async with self.harness.database.transaction() as conn:
                appended = await self.lease.append(conn, with_notice, now=now, statement=statement)
                await store.append_chunks(
                    conn,
                    self.lease.session_id,
                    notice_id,
                    [text],
                    after=0,
                    started=appended.last_seq,
                    epoch=self.lease.epoch,
                    now=now,
                )
                if statement is None:
                    await sessions.set_error(conn, self.lease.session_id, redact(text))
        await self.delivery.deliver_chunk(notice_id, 1, text, started=appended.last_seq)
        self._mark_delivered(appended.last_seq)
        return appended.last_seq

    async def _append_decision(self, decision: str, message: PartialMessage) -> int:
        data = {"decision": decision, "message_id": message.message_id, "prior_seq": message.last_chunk_seq}
        return await self._append([NewEvent(EventType.POLICY_DECISION, data)], "commit decision")

    async def _append(self, new: Sequence[NewEvent], name: Boundary) -> int:
        """Append events within a boundary, and return the last one's seq."""
        with boundary(name):
            async with self.harness.database.connection() as conn:
                appended = await self.lease.append(conn, new, now=self.harness.database.clock.now())
        return appended.last_seq


def _is_retryable(error: ModelError) -> bool:
    return isinstance(error, ModelUnavailable) and not error.is_permanent


def _interruption(message: PartialMessage, model: str | None, usage: Usage | None = None) -> NewEvent:
    """Return the event that ends a message early."""
    response = _response(message, model, "interrupted", usage or Usage())
    if message.text:
        return response
    decision = {"decision": "turn_interrupted", "message_id": message.message_id}
    more = {} if usage is None else {"model": model, "usage": response.data["usage"]}
    return NewEvent(EventType.POLICY_DECISION, {**decision, **more})


def _cut_notice(text: str, finish_reason: str | None, max_tokens: int) -> str | None:
    """Return what to tell a person whose answer is not whole; None if it is."""
    reason = (finish_reason or "").lower()
    if reason in ("length", "max_tokens", "model_length"):
        return f'The answer was cut off: it reached its limit of {max_tokens:,} tokens. Say "go on" to get the rest.'
    if reason in ("content_filter", "safety", "recitation", "prohibited_content", "blocklist"):
        return "The answer was cut off by a content filter of the model's server."
    return None if text.strip() else "The model's answer was empty."


def _response(message: PartialMessage, model: str | None, finish_reason: str | None, usage: Usage) -> NewEvent:
    data: dict[str, Any] = {
        "text": message.text,
        "message_id": message.message_id,
        "model": model,
        "finish": finish_reason,
        "started_seq": message.started_seq,
        "upto_seq": message.upto_seq,
        "chunks": message.last_chunk_seq,
    }
    data |= {"held": list(message.withheld)} if message.withheld else {}
    data["usage"] = {"input": usage.input_tokens, "cached": usage.cached_tokens, "output": usage.output_tokens}
    return NewEvent(EventType.ASSISTANT_RESPONSE, data)
