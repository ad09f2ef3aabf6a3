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
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from ulid import ULID

from consolidator.database import Database
from consolidator.errors import AnswerPending, ModelError, ModelUnavailable, OverBudget
from consolidator.jobs.gather import unless_stopped
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
StoredAnswer = tuple[str, str | None, str]  # the key of its question, its session, and its text
MAX_ATTEMPTS = 4  # of one call
CONCURRENCY = 4  # calls of one process at a time
AGENT_MAX_CALLS = 100  # of a coding agent's command line in 24 hours
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
    stop: asyncio.Event | None = None  # ends what waits for its turn
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

        def read(reply: ModelReply) -> tuple[dict[str, Any], list[StoredAnswer]]:
            answer = parse_reply(reply, request.schema)
            # A comparison quotes facts of many sessions, so that no erasure could find its answer.
            is_stored = request.purpose != "reconcile"
            return answer, [(request.key, session, reply.text or "")] if is_stored else []

        async with self._semaphore:
            return await self._call_with_retries(plan_call(request, session), partial(self._send, request, read))

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

        def read(reply: ModelReply) -> tuple[Sequence[dict[str, Any] | None], list[StoredAnswer]]:
            answers = split(parse_reply(reply, request.schema))
            stored: list[StoredAnswer] = [
                (key, session, json.dumps(answer, ensure_ascii=False))
                for (key, session), answer in zip(parts, answers, strict=False)
                if answer is not None
            ]
            self._answered_in_parts |= {key for key, _, _ in stored}
            return answers, stored

        async with self._semaphore:
            return await self._call_with_retries(plan_call(request, None), partial(self._send, request, read))

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
            cost = calculate_cost(model, input_tokens=result.tokens, output_tokens=0)
            usage = CallUsage(result.tokens, 0, 0, cost, "answered")
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
            await self._wait_for_turn()
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
                    self._failures_in_a_row += 1
                    if self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW and self.stop_reason is None:
                        self.stop_calls(f"{self._failures_in_a_row} calls in a row failed, the last one: {error}")
                    raise
                await self.sleep(self._retry_wait(attempt, error))
            except ModelError as error:
                await self._record_failure(call_id, error)
                raise
            else:
                self._failures_in_a_row = 0
                return result
        raise AssertionError("the last attempt returns or raises")

    async def _wait_for_turn(self) -> None:
        """Wait for the next turn of the rate that all processes share, if there is one."""
        rate = self.settings.model_calls_per_minute
        if rate is None:
            return
        async with self.database.connection() as conn:
            seconds = await model_calls.take_turn(conn, 60 / rate)
        await unless_stopped(self.sleep(seconds), self.stop, "asked to stop while model calls wait for their turn")

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
                if day.calls >= AGENT_MAX_CALLS or day.tokens + tokens > AGENT_MAX_TOKENS:
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

    async def _send(
        self, request: ModelRequest, read: Callable[[ModelReply], tuple[T, list[StoredAnswer]]], call_id: str
    ) -> T:
        """Send a question, store what the call used and the answers that `read` finds, and return what it makes."""
        reply = await self.client.send(request)
        try:
            result, answers = read(reply)
        except ModelError:
            await self._settle(call_id, request, reply, [])
            raise
        await self._settle(call_id, request, reply, answers)
        return result

    async def _settle(
        self, call_id: str, request: ModelRequest, reply: ModelReply, answers: Sequence[StoredAnswer]
    ) -> None:
        """Store what a call used, and its answers.

        An answer is stored only where an erasure can find it: if its session still exists.
        """
        now = self.database.clock.now()
        async with self.database.transaction() as conn:
            # Lock the sessions first, as an erasure does, so that neither waits for the other in a circle.
            named = {session for _, session, _ in answers if session is not None}
            existing = await sessions.lock_shared(conn, list(named))
            await model_calls.settle_call(conn, call_id, charge(reply), now=now)
            for key, session, text in answers:
                if session is None or session in existing:
                    await model_calls.save_answer(
                        conn, key, text, purpose=request.purpose, model=request.model, run_id=self.run_id,
                        session_id=session, now=now,
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


def charge(reply: ModelReply, outcome: str = "answered", *, share: int = 1) -> CallUsage:
    """Return what a call used, and its cost: what was reported, else its share of the model's price."""
    cost = reply.cost
    if cost is None:
        tokens = {name: getattr(reply, name) for name in ("input_tokens", "cached_tokens", "output_tokens")}
        price = calculate_cost(reply.model, **tokens)
        cost = None if price is None else price / share
    return CallUsage(reply.input_tokens, reply.cached_tokens, reply.output_tokens, cost, outcome)
