"""A run's calls of a model: each question is answered once and paid for once, and the run's caps hold.

A call is reserved before it is made and settled after it; a call whose process dies has cost its reserve. No database
connection is held while the model is asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeVar

from ulid import ULID

from consolidator.database import Connection, Database
from consolidator.errors import AnswerPending, ModelError, ModelUnavailable, OverBudget
from consolidator.llm.choice import ModelChoice
from consolidator.llm.client import ModelClient, ModelReply, ModelRequest, create_client, parse_answer, parse_reply
from consolidator.llm.commands import CommandClient
from consolidator.llm.prices import calculate_cost
from consolidator.llm.tokens import count_tokens
from consolidator.models.run import ModelQuestionRow
from consolidator.settings import Settings
from consolidator.store.nights import model_calls
from consolidator.store.nights.model_calls import CallReserve, CallUsage
from consolidator.store.sessions import sessions

log = logging.getLogger("consolidator.llm")
T = TypeVar("T")
# Awaited before each call, by whoever holds a rate over all processes.
BEFORE_CALL: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar("before_call", default=None)
MAX_ATTEMPTS = 4  # of one call
CONCURRENCY = 4  # calls of one process at a time
AGENT_MAX_TOKENS = 400_000  # of a coding agent's command line in 24 hours, as it reports them
MAX_RETRY_WAIT = 60.0  # seconds between two attempts; a server that asks for more gets no more calls in the run
MAX_FAILURES_IN_A_ROW = 5  # calls that find the server unavailable before the run stops calling it


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that is about to be made, and the most it may use."""

    purpose: str
    model: str
    key: str
    input_tokens: int
    output_tokens: int = 0
    session_id: str | None = None


@dataclass(slots=True)
class ModelCalls:
    """The calls of one replica in one run."""

    database: Database
    settings: Settings
    run_id: str
    choice: ModelChoice | None = None  # whose model is asked; None: that of the settings' server
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    stop_reason: str | None = None  # why no more calls are made in this run
    failure: str | None = None  # why `stop_reason` was set, if the model or its settings are at fault
    cap_reached: str | None = None  # why a call was not made: it would have exceeded a cap
    counts: Counter[str] = field(default_factory=Counter)
    client: ModelClient | CommandClient = field(init=False)
    embedder: ModelClient = field(init=False)  # makes vectors, whatever answers questions
    _semaphore: asyncio.Semaphore = field(init=False)
    _answered_in_parts: set[str] = field(default_factory=set)  # keys whose answers this replica has just paid for
    _failures_in_a_row: int = 0
    _paused_until: float = 0.0  # monotonic time before which no call begins: a server asked for a pause

    def __post_init__(self) -> None:
        self.client = self.embedder = create_client(self.settings)
        if self.choice is not None:
            self.settings = self.choice.apply(self.settings)
            self.client = self.choice.create_client(self.settings)
        self._semaphore = asyncio.Semaphore(CONCURRENCY)

    @property
    def model(self) -> str | None:
        """The model that reads sessions for facts."""
        return self.settings.extract_model or self.settings.model

    @property
    def merge_model(self) -> str | None:
        """The model that compares facts."""
        return self.settings.model or self.settings.extract_model

    async def ask(self, request: ModelRequest, *, session: str | None = None) -> dict[str, Any]:
        """Return the JSON object that answers a question; raise a ModelError if there is none.

        After ModelRefused, ModelTruncated or ModelMalformed another question may succeed. ModelUnavailable, OverBudget
        and AnswerPending are not the question's fault: it is asked again in another run.
        """
        answer = await self._load_answer(request)
        if answer is not None:
            return answer
        if self.stop_reason is not None:
            raise ModelUnavailable(self.stop_reason)
        # Repairs and comparisons are few, and what they are about may change until a batch comes back.
        batchable = not request.turns and request.purpose != "reconcile"
        if self.settings.batch and batchable and await self._queue_for_batch(request, session):
            self.counts["awaited"] += 1
            raise AnswerPending(f"{request.purpose}: the answer comes with a batch")

        async def call(call_id: str) -> dict[str, Any]:
            return await self._settle(call_id, request, await self.client.send(request), session)

        async with self._semaphore:
            return await self._call_with_retries(plan_call(request, session), call)

    async def ask_shared(
        self,
        request: ModelRequest,
        parts: Sequence[tuple[str, str]],
        split: Callable[[dict[str, Any]], Sequence[dict[str, Any] | None]],
    ) -> Sequence[dict[str, Any] | None]:
        """Ask about several sessions at once; store and return each one's part of the answer, as to its own question.

        `parts` are the keys of these questions, each with its session.
        `split` returns the parts in order, None for one that is no answer. Raises what `ask` raises.
        """
        if self.stop_reason is not None:
            raise ModelUnavailable(self.stop_reason)

        async def call(call_id: str) -> Sequence[dict[str, Any] | None]:
            reply = await self.client.send(request)
            failure: ModelError | None = None
            answers: Sequence[dict[str, Any] | None] = ()
            try:
                answers = split(parse_reply(reply, request.schema))
            except ModelError as error:
                failure = error
            await self._settle_shared(call_id, request, reply, list(zip(parts, answers, strict=False)))
            if failure is not None:
                raise failure
            return answers

        async with self._semaphore:
            return await self._call_with_retries(plan_call(request, None), call)

    async def list_unanswered(self, keys: Sequence[str]) -> set[str]:
        """Return those keys of questions that have no stored answer."""
        async with self.database.connection() as conn:
            return set(keys) - await model_calls.list_answered(conn, keys)

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, within the run's caps; raise ModelError if there are none.

        Vectors are not stored as answers are: the caller stores them.
        """
        key = hashlib.sha256(json.dumps([model, *texts]).encode()).hexdigest()
        planned = PlannedCall("embed", model, key, input_tokens=sum(count_tokens(text) + 1 for text in texts))

        async def call(call_id: str) -> list[list[float]]:
            result = await self.embedder.embed(model, texts)
            usage = _usage(model, input_tokens=result.tokens)
            async with self.database.transaction() as conn:
                await model_calls.settle_call(conn, call_id, usage, now=self.database.clock.now())
            return result.vectors

        async with self._semaphore:
            return await self._call_with_retries(planned, call)

    async def report(self) -> dict[str, Any]:
        """Return what the calls of the run used, over all replicas, as the run's report has it."""
        async with self.database.connection() as conn:
            totals = await model_calls.load_totals(conn, self.run_id)
            failures = await model_calls.count_failures(conn, self.run_id)
            pending = await model_calls.count_pending(conn)
        report = asdict(totals)
        cost = report.pop("cost")
        if cost is not None:
            report["cost_usd"] = str(round(Decimal(cost), 6))
        report |= {"known": self.counts["known"], "failures": failures}
        if pending:
            report["awaited"] = pending
        if self.stop_reason or self.cap_reached:
            report["stopped"] = self.stop_reason or self.cap_reached
        return report

    def stop_calls(self, reason: str) -> None:
        """Make no more calls in this run: the model, its server or its settings are at fault."""
        if self.stop_reason is None:
            self.stop_reason = self.failure = reason
            log.error("this run makes no more model calls: %s", reason)

    async def close(self) -> None:
        """Close the connections to the servers."""
        await self.client.close()
        await self.embedder.close()

    async def _load_answer(self, request: ModelRequest) -> dict[str, Any] | None:
        """Return the stored answer to a question."""
        async with self.database.connection() as conn:
            text = await model_calls.get_answer(conn, request.key)
            if text is None:
                return None
            with suppress(ModelError):
                answer = parse_answer(text, request.schema)
                self.counts["known"] += request.key not in self._answered_in_parts
                return answer
            await model_calls.delete_answer(conn, request.key)  # stored before a crash, and never validated
        return None

    async def _call_with_retries(self, planned: PlannedCall, call: Callable[[str], Awaitable[T]]) -> T:
        """Make a call, and repeat it while the server is unavailable; each attempt has a reserve of its own."""
        for attempt in range(MAX_ATTEMPTS):
            if attempt == 0 and (remaining := self._paused_until - time.monotonic()) > 0:
                await self.sleep(remaining)
            if (wait_for_turn := BEFORE_CALL.get()) is not None:
                await wait_for_turn()
            if self.stop_reason is not None:
                raise ModelUnavailable(self.stop_reason)
            call_id = await self.reserve(planned)
            try:
                result = await call(call_id)
            except ModelUnavailable as error:
                await self._record_failure(call_id, error)
                if error.is_permanent:
                    self.stop_calls(str(error))
                elif (error.retry_after or 0) > MAX_RETRY_WAIT:
                    wait = f"{error.retry_after:.0f} s"
                    self.stop_calls(f"{error}; it asks for a pause of {wait}, longer than a run waits")
                if self.stop_reason is not None or attempt + 1 == MAX_ATTEMPTS:
                    self._count_failure(error)
                    raise
                await self.sleep(self._retry_wait(attempt, error))
            except ModelError as error:
                await self._record_failure(call_id, error)
                raise
            else:
                self._failures_in_a_row = 0
                return result
        raise AssertionError("the last attempt returns or raises")

    async def reserve(self, planned: PlannedCall) -> str:
        """Record a call before it is made and return its id; raise OverBudget if it would exceed a cap."""
        tokens = planned.input_tokens + planned.output_tokens
        cost = calculate_cost(planned.model, input_tokens=planned.input_tokens, output_tokens=planned.output_tokens)
        if cost is not None and self.settings.batch and planned.purpose != "embed":
            cost /= 2
        max_tokens, max_cost = self.settings.night_max_tokens, self.settings.night_max_cost_usd
        is_agent = self.choice is not None and self.choice.is_agent
        if max_cost is not None and cost is None:
            reason = f"the price of {planned.model} is unknown, so a cap in money cannot be held; cap tokens instead"
            self.stop_calls(reason)
            raise OverBudget(reason)
        now = self.database.clock.now()
        reserve = CallReserve(
            str(ULID()), self.run_id, planned.session_id, planned.purpose, planned.model, planned.key, tokens, cost, now
        )
        async with self.database.transaction() as conn:
            if is_agent:  # its account is a person's own: what all runs of a day ask of it counts
                day = await model_calls.load_day(conn, planned.model, now - timedelta(days=1))
                if day.calls >= self.settings.agent_max_calls or day.tokens + tokens > AGENT_MAX_TOKENS:
                    self.cap_reached = f"a day's cap is reached: {day.calls} calls, {day.tokens:,} tokens in 24 hours"
                    raise OverBudget(self.cap_reached)
            if max_tokens is not None or max_cost is not None:  # without a cap nobody waits for the sum
                spending = await model_calls.load_spending(conn, self.run_id)
                is_over_tokens = max_tokens is not None and spending.tokens + tokens > max_tokens
                is_over_cost = max_cost is not None and cost and spending.cost + cost > max_cost
                if is_over_tokens or is_over_cost:
                    spent = f"{spending.tokens:,} tokens, {spending.cost:.4f} USD spent or reserved"
                    self.cap_reached = f"the run's cap is reached: {spent}"
                    raise OverBudget(self.cap_reached)
            await model_calls.reserve_call(conn, reserve)
        return reserve.id

    async def _settle(
        self, call_id: str, request: ModelRequest, reply: ModelReply, session: str | None
    ) -> dict[str, Any]:
        """Store what a call used and its answer, then validate the answer and return it.

        An answer is stored only where an erasure can find it: if its session still exists, and never for a comparison,
        which quotes facts of many sessions.
        """
        now = self.database.clock.now()
        async with self.database.transaction() as conn:
            # Lock the session first, as an erasure does, so that neither waits for the other in a circle.
            exists = session is None or await sessions.lock_shared(conn, [session])
            await model_calls.settle_call(conn, call_id, _reply_usage(reply), now=now)
            if reply.text and exists and request.purpose != "reconcile":
                await self._save_answer(conn, request, request.key, reply.text, session)
        try:
            return parse_reply(reply, request.schema)
        except ModelError:
            async with self.database.connection() as conn:
                await model_calls.delete_answer(conn, request.key)
            raise

    async def _settle_shared(
        self,
        call_id: str,
        request: ModelRequest,
        reply: ModelReply,
        answers: Sequence[tuple[tuple[str, str], dict[str, Any] | None]],
    ) -> None:
        """Store what a call about several sessions used, and the parts of those that still exist."""
        async with self.database.transaction() as conn:
            existing = await sessions.lock_shared(conn, list({session for (_, session), _ in answers}))
            await model_calls.settle_call(conn, call_id, _reply_usage(reply), now=self.database.clock.now())
            for (key, session), answer in answers:
                if answer is not None and session in existing:
                    await self._save_answer(conn, request, key, json.dumps(answer, ensure_ascii=False), session)
                    self._answered_in_parts.add(key)

    async def _save_answer(
        self, conn: Connection, request: ModelRequest, key: str, text: str, session: str | None
    ) -> None:
        await model_calls.save_answer(
            conn, key, text, purpose=request.purpose, model=request.model, run_id=self.run_id, session_id=session,
            now=self.database.clock.now(),
        )  # fmt: skip

    async def _record_failure(self, call_id: str, error: ModelError) -> None:
        """Settle a call that failed; if the server did not answer it, it has cost nothing."""
        outcome = f"failed: {type(error).__name__}: {error}"[:300]
        charged = isinstance(error, ModelUnavailable) and error.may_be_charged
        async with self.database.connection() as conn:
            await model_calls.release_call(
                conn, call_id, outcome=outcome, now=self.database.clock.now(), may_be_charged=charged
            )
            await model_calls.set_outcome(conn, call_id, outcome)

    def _count_failure(self, error: ModelUnavailable) -> None:
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW and self.stop_reason is None:
            self.stop_calls(f"{self._failures_in_a_row} calls in a row failed, the last one: {error}")

    def _retry_wait(self, attempt: int, error: ModelUnavailable) -> float:
        """Return how many seconds to wait: what the server asks for, else exponential backoff with jitter."""
        if error.retry_after is not None:  # all calls of the run pause, not this question's alone
            self._paused_until = max(self._paused_until, time.monotonic() + error.retry_after)
            return error.retry_after
        return min(2.0**attempt * random.uniform(0.5, 1.0), MAX_RETRY_WAIT)

    async def _queue_for_batch(self, request: ModelRequest, session: str | None) -> bool:
        """Queue a question for the next batch; return False if its batch has failed, so that it is asked directly."""
        async with self.database.connection() as conn:
            status = await model_calls.get_question_status(conn, request.key)
        if status is not None:
            return status in ("queued", "submitted")
        call_id = await self.reserve(plan_call(request, session))
        async with self.database.transaction() as conn:
            now = self.database.clock.now()
            exists = session is None or await sessions.lock_shared(conn, [session])
            assert isinstance(self.client, ModelClient)
            question = ModelQuestionRow(
                request.key, request.purpose, request.model, self.client.build_body(request), self.run_id, session,
                call_id, batch_id=None, status="queued", created_at=now,
            )  # fmt: skip
            if not exists or not await model_calls.queue_question(conn, question):
                outcome = "queued by another replica" if exists else "its session was erased"
                await model_calls.release_call(conn, call_id, outcome=outcome, now=now)
        return True


def plan_call(request: ModelRequest, session: str | None) -> PlannedCall:
    """Return the call that asks a question."""
    return PlannedCall(request.purpose, request.model, request.key, request.tokens, request.max_tokens, session)


def _reply_usage(reply: ModelReply) -> CallUsage:
    return _usage(
        reply.model,
        input_tokens=reply.input_tokens,
        cached_tokens=reply.cached_tokens,
        output_tokens=reply.output_tokens,
        cost=reply.cost,
    )


def _usage(
    model: str, *, input_tokens: int, cached_tokens: int = 0, output_tokens: int = 0, cost: Decimal | None = None
) -> CallUsage:
    """Return what an answered call used, with its cost: what was reported, else by the model's price."""
    if cost is None:
        cost = calculate_cost(
            model, input_tokens=input_tokens, cached_tokens=cached_tokens, output_tokens=output_tokens
        )
    return CallUsage(input_tokens, cached_tokens, output_tokens, cost, "answered")
