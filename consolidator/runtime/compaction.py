"""Compaction: the older part of a session becomes a summary in its contexts; the log keeps all.

A model writes the summary where one can be paid, else it is made of what was counted. No connection waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from consolidator.context import compaction
from consolidator.context.build import BUDGET, Context, past_of
from consolidator.context.compaction import Compaction, CompactionPlan, Hooks
from consolidator.context.history import Past
from consolidator.context.messages import LONGEST, conversation
from consolidator.database import Database
from consolidator.errors import ModelError, ModelUnavailable
from consolidator.llm.client import ModelClient, ModelReply, Request, read
from consolidator.llm.redaction.redact import redact
from consolidator.llm.tokens import counted
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime import budget as money
from consolidator.runtime.boundaries import around
from consolidator.runtime.harness import Usage
from consolidator.runtime.lease import held
from consolidator.store.log import context as store
from consolidator.store.log import events, sessions

log = logging.getLogger("consolidator.runtime")
THRESHOLD = 0.8  # of a budget, from which on a compacted context is compacted again
ANSWER = 1500  # tokens of a summary
READ = 24_000  # tokens that a model reads of the older part
MOST = 5000  # events that one compaction reads
Trigger = Literal["threshold", "request"]


def is_due(context: Context, budget: int) -> bool:
    """Tell whether a context is so full that its session is to be compacted."""
    return context.strategy == "compacted" and (context.squeezed or context.tokens > THRESHOLD * budget)


async def compact(
    database: Database,
    session_id: str,
    *,
    budget: int = BUDGET,
    client: ModelClient | None = None,
    model: str | None = None,
    epoch: int | None = None,
    trigger: Trigger = "request",
    hooks: Hooks | None = None,
) -> Compaction | None:
    """Compact a session's older part, so that its latest turns stay; None where there is nothing worth it.

    Without `client` and `model`, or where the model fails or cannot be paid, the summary is a digest. Raises StaleEpoch
    where another holds the session, and NotFound.
    """
    hooks = hooks or Hooks()
    past, plan = await _planned(database, session_id, budget, trigger)
    if plan is None:
        return None
    with around("compaction"):
        asked = await hooks.before(plan) if hooks.before else None
        written = None
        if client is not None and model is not None:
            script = await asyncio.to_thread(
                compaction.script, plan, past.compaction, budget=min(READ, max(budget, 1000)), count=counted
            )
            prompt = script if not asked else f"{script}\n\nMind, too: {asked}"
            written = await _by_model(database, session_id, client, model, prompt, epoch)
        told: Mapping[str, Any] = written or {"summary": compaction.digest(plan, past.compaction), "next_steps": []}
        with around("commit compaction"):
            done = await _kept(
                database, session_id, past, plan, told, by=model if written else None, trigger=trigger, epoch=epoch
            )
        if done is not None and hooks.after:
            await hooks.after(done)
    return done


async def requested(
    database: Database, session_id: str, *, budget: int, client: ModelClient | None, model: str | None, seconds: float
) -> Compaction | None:
    """Compact a session since a person wants it; None where there is nothing worth it.

    Where a model is to be paid the session is held meanwhile, with a lease of so many seconds, since the next holder
    takes what it finds set aside for lost. Raises SessionBusy where another drives it then.
    """
    if client is None or model is None:
        return await compact(database, session_id, budget=budget)
    async with held(database, session_id, seconds=seconds) as lease:
        return await compact(
            database, session_id, budget=budget, client=client, model=model, epoch=lease.epoch, trigger="request"
        )


async def _planned(
    database: Database, session_id: str, budget: int, trigger: Trigger
) -> tuple[Past, CompactionPlan | None]:
    async with database.connection() as conn:
        view = await store.view(conn, session_id)
        past = past_of(view)
        bounds = (view["created_at"], view["last_event_at"])
        after = max(view["pruned_to"], past.kept_from - 1, view["head"] - MOST)
        found = await store.window(conn, session_id, after=after, upto=view["head"], bounds=bounds, longest=LONGEST)
    told = conversation(found)
    keep = int(budget * compaction.KEPT)
    plan = await asyncio.to_thread(compaction.planned, found, told, past.compaction, keep=keep, count=counted)
    if plan is None or plan.kept_from <= past.kept_from:
        return past, None
    gain = plan.tokens_before - plan.tokens_kept
    # What frees less than a tenth would be done, and paid, at every step again.
    return past, plan if trigger == "request" or gain > budget // 10 else None


async def _by_model(
    database: Database, session_id: str, client: ModelClient, model: str, prompt: str, epoch: int | None
) -> dict[str, Any] | None:
    """Return a model's summary, or nothing where it fails or would pass the session's cap."""
    request = Request("compact", model, compaction.SYSTEM, prompt, "compaction", compaction.SCHEMA, ANSWER)
    try:
        with around("commit reserve"):
            async with database.transaction() as conn:
                own = (await sessions.get(conn, session_id))["model"]
                call = await money.reserve_spend(
                    conn, session_id, model=model, input_tokens=request.tokens, max_tokens=ANSWER,
                    purpose="compaction", own_model=own, strategy="compacted", epoch=epoch, now=database.clock.now(),
                )  # fmt: skip
    except money.BudgetStop as stop:
        log.info("session %s is compacted without a model: %s", session_id, stop)
        return None
    try:
        with around("model"):
            reply = await client.send(request)
    except ModelError as error:
        paid = isinstance(error, ModelUnavailable) and error.paid
        await _settle(database, call, None if paid else Usage())
        log.warning("session %s is compacted without a model: %s", session_id, error)
        return None
    await _settle(database, call, _usage(reply))
    try:
        found = read(reply, compaction.SCHEMA)
    except ModelError as error:
        log.warning("session %s is compacted without a model: %s", session_id, error)
        return None
    return {"summary": redact(str(found["summary"])), "next_steps": [redact(str(s)) for s in found["next_steps"]][:20]}


def _usage(reply: ModelReply) -> Usage:
    return Usage(reply.input_tokens, reply.cached_tokens, reply.output_tokens)


async def _settle(database: Database, call: str, usage: Usage | None) -> None:
    with around("commit spend"):
        async with database.transaction() as conn:
            await money.settle_spend(conn, call, usage, now=database.clock.now())


async def _kept(
    database: Database, session_id: str, past: Past, plan: CompactionPlan, told: Mapping[str, Any],
    *, by: str | None, trigger: Trigger, epoch: int | None,
) -> Compaction | None:  # fmt: skip
    """Log a compaction and count it in its session; None where somebody else has just done the same."""
    tokens = plan.tokens_kept + counted(str(told["summary"]))
    async with database.transaction() as conn:
        state = (await sessions.get(conn, session_id))["state"]
        data = {
            "decision": "compaction", "by": "model" if by else "digest", "model": by, "trigger": trigger,
            "kept_from": plan.kept_from, **told, **plan.data, "state": state,
            "tokens_before": plan.tokens_before, "tokens_after": tokens,
        }  # fmt: skip
        done = await events.append(
            conn, session_id, [NewEvent(EventType.POLICY_DECISION, data)],
            now=database.clock.now(), epoch=epoch, key=f"compaction:{plan.kept_from}",
        )  # fmt: skip
        if done.repeated:
            return None
        await store.compacted(conn, session_id)
        kept = Past(past.upto, past.summary, done.first_seq, data, past.scratchpad_seq, past.scratchpad)
        await store.keep(conn, session_id, asdict(kept))
    return Compaction(done.first_seq, plan.kept_from, told["summary"], data["by"], plan.tokens_before, tokens)
