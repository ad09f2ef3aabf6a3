"""One step of a session: load, decide, act, append. Its result is committed before it is returned.

Pure of process state, so that any worker or durable engine can drive a session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ulid import ULID

from consolidator.errors import ModelError, ModelUnavailable, UsageError
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime import budget
from consolidator.runtime.boundaries import Boundary, around
from consolidator.runtime.delivery import Outlet
from consolidator.runtime.fold import Open, fold
from consolidator.runtime.generation import Generated, stream_answer
from consolidator.runtime.harness import FinishReason, Harness, StepResult, Usage
from consolidator.runtime.lease import Lease, Steered
from consolidator.runtime.planning import RequestPlan, plan, prefilled
from consolidator.runtime.tool_calls import ToolCallRunner, asking, called, unstarted
from consolidator.store.log import events, sessions
from consolidator.store.log import generation as store
from consolidator.store.log import lease as marks
from consolidator.store.queries import Row

TRIES = 3  # of a call of the model within one step
LONGEST_WAIT = 20.0  # seconds between two of them


@dataclass(slots=True)
class Message:
    """A message the model is saying: what is committed of it."""

    message_id: str
    started: int  # its ThinkingStart
    upto_seq: int
    seq: int = 0  # of its last piece
    text: str = ""
    held: tuple[int, ...] = ()  # messages before it that it does not know: they wait for the turn's end


@dataclass(slots=True)
class Stepper:
    """Takes the steps of a session that is held."""

    harness: Harness
    lease: Lease
    outlet: Outlet = field(init=False)
    _row: Row | None = None
    _known: Open | None = None  # what is open now, where that is known without looking

    def __post_init__(self) -> None:
        self.outlet = Outlet(self.harness, self.lease)
        self._row = self.lease.row

    async def step(self) -> StepResult:
        """Do the one thing that the log's open end asks for next."""
        row, found = await self.load()
        if found.generation is not None:
            message = await self._taken_up(row, found)
            if message is not None:
                return await self._answer(row, found, message)
            row, found = await self.load()
        if found.calls:
            self._known = None
            caller = ToolCallRunner(self.harness, self.lease)
            went_on = await caller.settle(found.calls, steer=found.steer)
            to_seq = max(found.head, caller.to_seq)
            return StepResult(to_seq, "tool_calls" if went_on else "approval", executed_tool_count=caller.ran)
        if not found.needs_model or row["status"] != "open":
            return StepResult(found.head, "idle")
        return await self._answer(row, found, None)

    async def known(self) -> Open:
        """Return what is open in the log now."""
        if self._known is None:
            await self.load()
        assert self._known is not None
        return self._known

    async def load(self) -> tuple[Row, Open]:
        """Read the session and fold what is open in its log."""
        async with self.harness.database.connection() as conn:
            row, self._row = self._row, None
            if row is None:
                row = await sessions.get(conn, self.lease.session_id)
            bounds = (row["created_at"], row["last_event_at"])
            after = max(row["settled_to"], row["pruned_to"])
            log = await events.read(conn, row["id"], after=after, upto=row["head"], bounds=bounds)
        self._known = fold(log, settled_to=after, head=row["head"])
        self.lease.knows(row["head"])
        return row, self._known

    async def _taken_up(self, row: Row, found: Open) -> Message | None:
        """Decide on a generation that a gone process left: go on with it, or put another in its place; log which."""
        generation = found.generation
        assert generation is not None
        async with self.harness.database.connection() as conn:
            pieces = await store.chunks(conn, row["id"], generation.message_id, low=row["created_at"])
            shown = await store.delivered(conn, row["id"], generation.message_id, self.outlet.name)
            with around("commit spend"):
                await budget.settle_open(conn, row["id"], now=self.harness.database.clock.now())
        text, last = "".join(piece.delta for piece in pieces), pieces[-1].seq if pieces else 0
        message = Message(generation.message_id, generation.seq, generation.upto_seq, last, text, generation.held)
        if text and found.steer > generation.upto_seq:
            await self.outlet.rest(message.message_id, after=shown)
            self._arrived(await self._log([_interrupted(message, row["model"])], "commit interruption"))
            return None
        newer = any(one.seq > generation.upto_seq for one in found.unanswered)
        if text and not newer and prefilled(self.harness, []) is not None:
            await self.outlet.rest(message.message_id, after=shown)
            await self._decide("generation_resumed", message)
            return message
        await self._replace(message)
        return None

    async def _replace(self, message: Message) -> None:
        """Give a message up for another, and say so where any of it may have been shown."""
        done = await self._decide("generation_replaced", message)
        if message.seq:
            await self.outlet.void(message.message_id)
        self._arrived(done)

    async def _decide(self, decision: str, message: Message) -> int:
        told = {"decision": decision, "message_id": message.message_id, "prior_seq": message.seq}
        return await self._log([NewEvent(EventType.POLICY_DECISION, told)], "commit decision")

    async def _answer(self, row: Row, found: Open, message: Message | None) -> StepResult:
        """Have the model say a message, or the rest of one, and do what it asks for."""
        self._known = None
        for attempt in range(TRIES):
            try:
                begun = message.text if message else None
                planned = await plan(self.harness, row, found, begun, self.lease.epoch)
                message, call = await self._begin(row, planned, message)
            except (budget.BudgetStop, UsageError) as error:
                return await self._stopped(found, message, error)
            heard = Generated()
            try:
                await self.lease.unless_steered(self._hear(planned, message, heard))
            except Steered:
                await self._settle(call, heard, None)
                return await self._cut_short(message, heard)
            except ModelError as error:
                await self._settle(call, heard, error)
                if attempt == TRIES - 1 or not _may_pass(error):
                    return await self._gave_up(message, error, found.failed)
                message = await self._once_more(message, error)
                if message is None:  # it may have waited for a while
                    row, found = await self.load()
                    self._known = None
                continue
            return await self._said(row, planned, message, heard, call)
        raise AssertionError("the last attempt returns")

    async def _begin(self, row: Row, planned: RequestPlan, message: Message | None) -> tuple[Message, str]:
        """Set money aside and log that the model is asked, in one transaction."""
        now = self.harness.database.clock.now()
        name = message.message_id if message else str(ULID())
        with around("commit thinking"):
            async with self.harness.database.transaction() as conn:
                call = await budget.reserve_spend(
                    conn, row["id"], model=planned.model, input_tokens=planned.tokens, now=now,
                    max_tokens=planned.max_tokens, own_model=row["model"], message_id=name,
                    strategy=planned.strategy, epoch=self.lease.epoch,
                )  # fmt: skip
                if message is None:
                    told = NewEvent(EventType.THINKING_START, planned.told(name))
                    done = await events.append(conn, row["id"], [told], now=now, epoch=self.lease.epoch)
                    message = Message(name, done.last_seq, planned.upto_seq, held=planned.held)
        self.lease.knows(planned.upto_seq)
        return message, call

    async def _hear(self, planned: RequestPlan, message: Message, heard: Generated) -> None:
        async def commit(text: str) -> None:
            with around("commit chunk"):
                async with self.harness.database.connection() as conn:
                    message.seq = await store.add_chunks(
                        conn, self.lease.session_id, message.message_id, [text], after=message.seq,
                        started=message.started, epoch=self.lease.epoch, now=self.harness.database.clock.now(),
                    )  # fmt: skip
            message.text += text
            await self.outlet.hand_on(message.message_id, message.seq, text, started=message.started)

        await stream_answer(self.harness.client, planned.body, heard, commit)

    async def _said(self, row: Row, planned: RequestPlan, message: Message, heard: Generated, call: str) -> StepResult:
        """Log the answer with the calls it asks for, and run these."""
        told = _response(message, heard.model or planned.model, heard.finish, planned.usage(heard))
        calls = called(self.harness, heard, message.message_id)
        asked = asking(calls)
        now = self.harness.database.clock.now()
        with around("commit response"):
            async with self.harness.database.transaction() as conn:
                done = await events.append(conn, row["id"], [told, *calls], now=now, epoch=self.lease.epoch)
                await budget.settle_spend(conn, call, heard.usage, now=now)
                if asked:
                    await marks.heed(conn, row["id"], asked=asked)
                if not calls:
                    await marks.count_turns(conn, row["id"], 1)
        self._arrived(done.first_seq)
        usage = planned.usage(heard)
        if not calls:
            alone = message.started == planned.upto_seq + 1 and done.first_seq == planned.upto_seq + 2
            if alone and not planned.held:  # nothing else came meanwhile
                self._known = Open(head=done.last_seq, settled_to=done.last_seq)
            return StepResult(done.last_seq, "stop", usage)
        caller = ToolCallRunner(self.harness, self.lease)
        went_on = await caller.settle(unstarted(calls, done.first_seq + 1))
        reason: FinishReason = "tool_calls" if went_on else "approval"
        return StepResult(max(done.last_seq, caller.to_seq), reason, usage, caller.ran)

    def _arrived(self, seq: int) -> None:
        """Note that the channel, if it still listens, has all of the message that an event ended."""
        if self.outlet.sender is not None:
            self.outlet.delivered_to = seq

    async def _settle(self, call: str, heard: Generated, error: ModelError | None) -> None:
        """Settle a call that came to no good end: at its reserve where it may have been paid for."""
        free = isinstance(error, ModelError) and not heard.pieces and not getattr(error, "paid", False)
        now = self.harness.database.clock.now()
        with around("commit spend"):
            async with self.harness.database.connection() as conn:
                await budget.settle_spend(conn, call, Usage() if free else heard.usage, now=now)

    async def _cut_short(self, message: Message, heard: Generated) -> StepResult:
        """Keep what was said before somebody steered: they have read it."""
        done = await self._log([_interrupted(message, heard.model)], "commit interruption")
        if message.text:
            self._arrived(done)
        return StepResult(done, "interrupted")

    async def _once_more(self, message: Message, error: ModelError) -> Message | None:
        """Decide how to go on after a call failed: with the same message (it is returned), or with another."""
        if message.text and prefilled(self.harness, []) is not None:
            await self._decide("generation_resumed", message)
            return message
        await self._replace(message)
        wait = error.wait if isinstance(error, ModelUnavailable) else None
        await self.harness.sleep(min(1.0 if wait is None else wait, LONGEST_WAIT))
        return None

    async def _gave_up(self, message: Message, error: ModelError, failed: str | None) -> StepResult:
        """End the turn with an error that the person is told; where it may pass, the next wake asks again.

        `failed` is the error that they were told last of the same turn.
        """
        told = {"message": str(error), "message_id": message.message_id, "kind": "model", "again": _may_pass(error)}
        if message.seq:
            await self.outlet.void(message.message_id)
        if _may_pass(error) and str(error) == failed:  # nobody wants to be told the same every minute
            done = await self._log([NewEvent(EventType.ERROR, told)], "commit notice")
            self._arrived(done)
        else:
            done = await self._notice([NewEvent(EventType.ERROR, told)], str(error))
        return StepResult(done, "error")

    async def _stopped(self, found: Open, message: Message | None, error: budget.BudgetStop | UsageError) -> StepResult:
        """End the turn, and a message that was to be gone on with, without asking the model; say why."""
        if isinstance(error, budget.BudgetStop):
            new = [NewEvent(one.type, {**one.data, "upto_seq": found.head}) for one in error.events()]
        else:
            new = [NewEvent(EventType.ERROR, {"message": str(error), "kind": "context", "upto_seq": found.head})]
        if message is not None:
            new = [_interrupted(message, None), *new]
        done = await self._notice(new, str(error))
        return StepResult(done, "budget" if isinstance(error, budget.BudgetStop) else "error")

    async def _notice(self, new: Sequence[NewEvent], text: str) -> int:
        """Log events whose last is told to the person in words, as a message of its own."""
        name, now = str(ULID()), self.harness.database.clock.now()
        told = [*new[:-1], NewEvent(new[-1].type, {**new[-1].data, "notice_id": name})]
        with around("commit notice"):
            async with self.harness.database.transaction() as conn:
                done = await events.append(conn, self.lease.session_id, told, now=now, epoch=self.lease.epoch)
                await store.add_chunks(
                    conn, self.lease.session_id, name, [text], after=0, started=done.last_seq,
                    epoch=self.lease.epoch, now=now,
                )  # fmt: skip
        await self.outlet.hand_on(name, 1, text, started=done.last_seq)
        self._arrived(done.last_seq)
        return done.last_seq

    async def _log(self, new: Sequence[NewEvent], boundary: Boundary) -> int:
        with around(boundary):
            async with self.harness.database.connection() as conn:
                now = self.harness.database.clock.now()
                done = await events.append(conn, self.lease.session_id, new, now=now, epoch=self.lease.epoch)
        return done.last_seq


def _may_pass(error: ModelError) -> bool:
    """Tell whether asking once more may help."""
    return isinstance(error, ModelUnavailable) and not error.lasting


def _interrupted(message: Message, model: str | None) -> NewEvent:
    """Return the event that ends a message in the middle."""
    if not message.text:
        told = {"decision": "turn_interrupted", "message_id": message.message_id}
        return NewEvent(EventType.POLICY_DECISION, told)
    return _response(message, model, "interrupted", Usage())


def _response(message: Message, model: str | None, finish: str | None, usage: Usage) -> NewEvent:
    told: dict[str, Any] = {
        "text": message.text, "message_id": message.message_id, "model": model, "finish": finish,
        "started_seq": message.started, "upto_seq": message.upto_seq, "chunks": message.seq,
    }  # fmt: skip
    told |= {"held": list(message.held)} if message.held else {}
    told["usage"] = {"input": usage.input_tokens, "cached": usage.cached_tokens, "output": usage.output_tokens}
    return NewEvent(EventType.ASSISTANT_RESPONSE, told)
