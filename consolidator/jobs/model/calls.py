"""A run's calls of models: each question is asked once, paid once, within the caps, and no connection waits for it.

Reserved before the call and settled after it; a call whose process dies has cost its reserve.
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
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

from ulid import ULID

from consolidator.database import Database
from consolidator.errors import Awaited, ModelError, ModelUnavailable, OverBudget
from consolidator.llm.client import ModelClient, ModelReply, Request, client_of, parsed, read
from consolidator.llm.prices import price
from consolidator.llm.tokens import count_tokens
from consolidator.settings import Settings
from consolidator.store.log import sessions
from consolidator.store.nights import answers

log = logging.getLogger("consolidator.llm")
T = TypeVar("T")
TRIES = 4  # of one call
LONGEST_WAIT = 60.0  # seconds between two tries; where a server asks for more, nothing more is asked in the run
IN_A_ROW = 5  # calls that fail for want of the server before the run stops asking


def model_of(settings: Settings) -> str | None:
    """Return the model that reads sessions for facts; None where no model is configured."""
    return settings.extract_model or settings.model


@dataclass(frozen=True, slots=True)
class Planned:
    """A call that is about to be made, and the most it may take."""

    purpose: str
    model: str
    key: str
    input_tokens: int
    output_tokens: int = 0
    session: str | None = None


def _planned(request: Request, session: str | None) -> Planned:
    return Planned(request.purpose, request.model, request.key, request.tokens, request.max_tokens, session)


@dataclass(slots=True)
class Calls:
    """One replica's calls in one run."""

    database: Database
    settings: Settings
    run_id: str
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    stopped: str | None = None  # why no more is asked in this run
    capped: str | None = None  # why a question was not asked: it would have passed a cap
    counts: Counter[str] = field(default_factory=Counter)
    client: ModelClient = field(init=False)
    _turn: asyncio.Semaphore = field(init=False)
    _in_a_row: int = 0
    _quiet_until: float = 0.0  # a server asked for rest: no call begins before

    def __post_init__(self) -> None:
        self.client = client_of(self.settings)
        self._turn = asyncio.Semaphore(self.settings.model_concurrency)

    async def ask(self, request: Request, *, session: str | None = None) -> dict[str, Any]:
        """Return the JSON object that answers a question; raise a ModelError where there is none.

        ModelRefused, ModelTruncated, ModelMalformed: another question may fare better. ModelUnavailable, OverBudget
        and Awaited: no fault of the question, which is asked again in another run.
        """
        known = await self._known(request)
        if known is not None:
            return known
        if self.stopped is not None:
            raise ModelUnavailable(self.stopped)
        alone = request.turns or request.purpose == "reconcile"  # few, and about facts that would move meanwhile
        if self.settings.batch and not alone and await self._batched(request, session):
            self.counts["awaited"] += 1
            raise Awaited(f"{request.purpose}: the answer comes with a batch")
        async with self._turn:
            return await self._asked(request, session)

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, within the run's caps; raise ModelUnavailable or OverBudget where none come.

        No vector is kept here, as an answer is: whoever asks stores it.
        """
        key = hashlib.sha256(json.dumps([model, *texts]).encode()).hexdigest()
        planned = Planned("embed", model, key, input_tokens=sum(count_tokens(text) + 1 for text in texts))

        async def once(call: str) -> list[list[float]]:
            found = await self.client.embed(model, texts)
            taken = self._taken(model, input_tokens=found.tokens)
            async with self.database.transaction() as conn:
                await answers.settle_call(conn, call, taken, now=self.database.clock.now())
            return found.vectors

        async with self._turn:
            return await self._tried(planned, once)

    async def report(self) -> dict[str, Any]:
        """Return what the calls of the run come to, all replicas together."""
        async with self.database.connection() as conn:
            found = await answers.totals(conn, self.run_id)
            waiting = await answers.awaited(conn)
        told = {name: found[name] for name in ("calls", "input_tokens", "cached_tokens", "output_tokens")}
        if found["cost"] is not None:
            told["cost_usd"] = str(round(Decimal(found["cost"]), 6))
        told |= {"known": self.counts["known"], "failures": found["failures"]}
        if waiting["questions"]:
            told["awaited"] = waiting["questions"]
        if self.stopped or self.capped:
            told["stopped"] = self.stopped or self.capped
        return told

    async def close(self) -> None:
        """Close the connections to the server."""
        await self.client.close()

    async def _known(self, request: Request) -> dict[str, Any] | None:
        """Return an answer that was paid for before."""
        async with self.database.connection() as conn:
            text = await answers.answer(conn, request.key)
            if text is None:
                return None
            with suppress(ModelError):
                found = parsed(text, request.schema)
                self.counts["known"] += 1
                return found
            await answers.drop_answer(conn, request.key)  # a crash came between keeping and reading it
        return None

    async def _asked(self, request: Request, session: str | None) -> dict[str, Any]:
        async def once(call: str) -> dict[str, Any]:
            return await self._settled(call, request, await self.client.send(request), session)

        return await self._tried(_planned(request, session), once)

    async def _tried(self, planned: Planned, once: Callable[[str], Awaitable[T]]) -> T:
        """Make a call, and again where the server is not there for a while; each try is reserved for itself."""
        for attempt in range(TRIES):
            if attempt == 0 and (left := self._quiet_until - time.monotonic()) > 0:
                await self.sleep(left)
            if self.stopped is not None:
                raise ModelUnavailable(self.stopped)
            call = await self._reserve(planned)
            try:
                found = await once(call)
            except ModelUnavailable as error:
                await self._failed(call, error)
                if error.lasting or (error.wait or 0) > LONGEST_WAIT:
                    self.stopped = f"{error}{self._rest(error)}"
                if self.stopped is not None or attempt + 1 == TRIES:
                    self._count_failure(error)
                    raise
                await self.sleep(self._pause(attempt, error))
            except ModelError as error:
                await self._failed(call, error)
                raise
            else:
                self._in_a_row = 0
                return found
        raise AssertionError("the last try returns or raises")

    async def reserve(self, request: Request, session: str | None) -> str:
        """Write down a question before it is asked, and return its id; raise OverBudget where it would pass a cap."""
        return await self._reserve(_planned(request, session))

    async def _reserve(self, planned: Planned) -> str:
        tokens = planned.input_tokens + planned.output_tokens
        cost = price(planned.model, input_tokens=planned.input_tokens, output_tokens=planned.output_tokens)
        if cost is not None and self.settings.batch and planned.purpose != "embed":
            cost /= 2
        cap = self.settings.night_max_cost_usd
        if cap is not None and cost is None:
            told = f"nobody knows the price of {planned.model}, so a cap in money cannot be held; cap tokens instead"
            self.stopped = told
            raise OverBudget(told)
        call = str(ULID())
        async with self.database.transaction() as conn:
            most = self.settings.night_max_tokens
            if most is not None or cap is not None:  # else nobody waits for the sum
                used, paid = await answers.spent(conn, self.run_id)
                if (most is not None and used + tokens > most) or (cap is not None and cost and paid + cost > cap):
                    self.capped = f"the run's cap is reached: {used:,} tokens, {paid:.4f} USD spent or reserved"
                    raise OverBudget(self.capped)
            values: dict[str, Any] = {"purpose": planned.purpose, "model": planned.model, "key": planned.key}
            values |= {"session": planned.session, "id": call, "run": self.run_id, "tokens": tokens, "cost": cost}
            await answers.reserve(conn, {**values, "now": self.database.clock.now()})
        return call

    def _taken(
        self, model: str, *, input_tokens: int, cached_tokens: int = 0, output_tokens: int = 0
    ) -> dict[str, Any]:
        """Return what an answered call took, with its price."""
        used = {"input_tokens": input_tokens, "cached_tokens": cached_tokens, "output_tokens": output_tokens}
        return {**used, "cost": price(model, **used), "outcome": "answered"}

    async def _settled(self, call: str, request: Request, reply: ModelReply, session: str | None) -> dict[str, Any]:
        """Write down what a call took and what came back, before anybody reads it; then read it.

        What came back is kept where an erasure can find it: not of a session that is gone, nor of facts of many.
        """
        now = self.database.clock.now()
        taken = self._taken(
            request.model,
            input_tokens=reply.input_tokens,
            cached_tokens=reply.cached_tokens,
            output_tokens=reply.output_tokens,
        )
        async with self.database.transaction() as conn:
            # An erasure locks its sessions before it touches their calls; so do we.
            there = session is None or await sessions.keep(conn, [session])
            await answers.settle_call(conn, call, taken, now=now)
            if reply.text and there and request.purpose != "reconcile":
                await answers.save_answer(
                    conn, request.key, reply.text,
                    purpose=request.purpose, model=request.model, run_id=self.run_id, now=now,
                )  # fmt: skip
        try:
            return read(reply, request.schema)
        except ModelError:
            async with self.database.connection() as conn:
                await answers.drop_answer(conn, request.key)
            raise

    async def _failed(self, call: str, error: ModelError) -> None:
        """Write down why a call gave nothing; one that the server did not answer has cost nothing."""
        outcome = f"failed: {type(error).__name__}: {error}"[:300]
        async with self.database.connection() as conn:
            paid = isinstance(error, ModelUnavailable) and error.paid
            await answers.release(conn, call, outcome=outcome, now=self.database.clock.now(), paid=paid)
            await answers.note_outcome(conn, call, outcome)

    def _count_failure(self, error: ModelUnavailable) -> None:
        self._in_a_row += 1
        if self._in_a_row >= IN_A_ROW and self.stopped is None:
            self.stopped = f"{self._in_a_row} calls in a row failed, the last: {error}"
            log.error("no more is asked in this run: %s", self.stopped)

    def _pause(self, attempt: int, error: ModelUnavailable) -> float:
        """Return how long to wait: what the server asks for, else ever longer; with some chance, against crowds."""
        if error.wait is not None:  # all calls of the run wait: it is the server's wish, not this question's fault
            self._quiet_until = max(self._quiet_until, time.monotonic() + error.wait)
            return error.wait
        return min(2.0**attempt * random.uniform(0.5, 1.0), LONGEST_WAIT)

    def _rest(self, error: ModelUnavailable) -> str:
        return "" if error.lasting else f"; it asks for {error.wait:.0f} s of rest, more than a run waits for"

    async def _batched(self, request: Request, session: str | None) -> bool:
        """Put a question into the next batch; False where its batch has failed it, so that it goes the normal way."""
        async with self.database.connection() as conn:
            waiting = await answers.question(conn, request.key)
        if waiting is not None:
            return waiting["status"] in ("queued", "submitted")
        call = await self.reserve(request, session)
        values: dict[str, Any] = {"key": request.key, "purpose": request.purpose, "model": request.model}
        values |= {"session": session, "body": self.client.body(request), "run": self.run_id, "call": call}
        async with self.database.transaction() as conn:
            now = self.database.clock.now()
            there = session is None or await sessions.keep(conn, [session])
            if not there or not await answers.queue(conn, {**values, "now": now}):
                await answers.release(conn, call, outcome="queued by another" if there else "erased meanwhile", now=now)
        return True
