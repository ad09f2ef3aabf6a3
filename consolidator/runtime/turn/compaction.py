"""Compaction: a summary replaces the older part of a session in its contexts; the log keeps everything.

A model writes the summary if one can be paid, else it is a digest of what was counted. No connection waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from consolidator.context import compaction
from consolidator.context.build import history_from_view
from consolidator.context.compaction import Compaction, CompactionHooks, CompactionPlan
from consolidator.context.conversation import MAX_RESULT_BYTES, build_conversation
from consolidator.context.history import SessionHistory, max_summary_tokens, render_state
from consolidator.context.reader import COMPACTED, DEFAULT_BUDGET
from consolidator.database import Database
from consolidator.errors import ModelError, ModelUnavailable
from consolidator.llm.client import ModelClient, ModelRequest, parse_reply
from consolidator.llm.redaction.redact import redact
from consolidator.llm.tokens import count_tokens_cached
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role
from consolidator.runtime.session import budget as money
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.budget import Usage
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage
from consolidator.store.turns import context as store

log = logging.getLogger("consolidator.runtime")
THRESHOLD = 1.0  # share of the budget above which a session is compacted again: before the call, so all is shown
ANSWER_TOKENS = 1500  # of a model that writes a summary, at most
MAX_PROMPT_TOKENS = 24_000  # that a model reads of the older part
MAX_EVENTS = 5000  # read by one compaction
CompactionTrigger = Literal["threshold", "request"]


@dataclass(frozen=True, slots=True)
class SummaryWriter:
    """The model that writes a summary."""

    client: ModelClient
    model: str
    routed: str | None = None  # why a policy chose it
    session_model: str | None = None  # what a cheaper one is recognised against


async def compact(
    database: Database,
    session_id: str,
    *,
    budget: int = DEFAULT_BUDGET,
    limit: int | None = None,
    writer: SummaryWriter | None = None,
    epoch: int | None = None,
    trigger: CompactionTrigger = "request",
    hooks: CompactionHooks | None = None,
) -> Compaction | None:
    """Compact a session's older part; its latest turns stay. None if there is nothing worth compacting.

    `limit` is how many tokens its summary and transcript may have before it is compacted again. Without a `writer`, or
    if the model fails or cannot be paid, the summary is a digest. Raises StaleEpoch if another harness holds the
    session, and NotFound.
    """
    hooks = hooks or CompactionHooks()
    limit = int(budget * THRESHOLD) if limit is None else limit
    history, plan = await _load_plan(database, session_id, budget, limit, trigger)
    if plan is None:
        return None
    with boundary("compaction"):
        instructions = await hooks.before(plan) if hooks.before else None
        summary = None
        if writer is not None:
            script = await asyncio.to_thread(
                compaction.render_transcript,
                plan,
                history.compaction,
                budget=min(MAX_PROMPT_TOKENS, max(budget, 1000)),
                count=count_tokens_cached,
            )
            prompt = script if not instructions else f"{script}\n\nMind, too: {instructions}"
            words = min(400, compaction.summary_tokens(budget) // 2)
            summary = await _summarize(database, session_id, writer, prompt, words, epoch)
        origin: dict[str, Any] = {"by": "digest", "model": None, "trigger": trigger}
        if writer is not None and summary:
            routed = {"routed": writer.routed} if writer.routed else {}
            origin |= {"by": "model", "model": writer.model, **routed}
        if not summary:
            size = compaction.summary_tokens(budget)
            text = compaction.write_digest(plan, history.compaction, max_tokens=size, count=count_tokens_cached)
            summary = {"summary": text, "next_steps": []}
        with boundary("commit compaction"):
            result = await _log_compaction(database, session_id, history, plan, {**origin, **summary}, epoch=epoch)
        if result is not None and hooks.after:
            await hooks.after(result)
    return result


async def _load_plan(
    database: Database, session_id: str, budget: int, limit: int, trigger: CompactionTrigger
) -> tuple[SessionHistory, CompactionPlan | None]:
    """Return a session's history, and what to compact; None if that is not worth it."""
    async with database.connection() as conn:
        view = await store.load_view(conn, session_id)
        lineage = await load_lineage(conn, session_id, view)
        history = history_from_view(view, lineage)
        after = max(lineage.readable_after, view.head - MAX_EVENTS)
        after = max(after, history.kept_from - 1) if history.kept_from else after
        log_window = await store.read_window(conn, lineage, after=after, upto=view.head, longest=MAX_RESULT_BYTES)
    turns = build_conversation(log_window)
    room = limit - max_summary_tokens(budget) - count_tokens_cached(render_state(view.state, budget))
    keep = compaction.tokens_to_keep(turns.turns, budget=budget, room=room, count=count_tokens_cached)
    plan = await asyncio.to_thread(
        compaction.plan_compaction, log_window, turns, history.compaction, keep=keep, count=count_tokens_cached
    )
    if plan is None or plan.kept_from <= history.kept_from:
        return history, None
    gain = plan.tokens_before - plan.tokens_kept
    # A gain below a tenth would trigger another paid compaction at every step.
    return history, plan if trigger == "request" or gain > budget // 10 else None


async def _summarize(
    database: Database, session_id: str, writer: SummaryWriter, prompt: str, words: int, epoch: int | None
) -> dict[str, Any] | None:
    """Return a model's summary; None if it fails or would exceed the session's cap."""
    request = ModelRequest(
        "compact", writer.model, compaction.SUMMARY_PROMPT.format(words=words), prompt, "compaction",
        compaction.SUMMARY_SCHEMA, ANSWER_TOKENS,
    )  # fmt: skip
    try:
        with boundary("commit reserve"):
            async with database.transaction() as conn:
                session_model = writer.session_model or (await sessions.get(conn, session_id)).model
                reserve = money.plan_reserve(
                    session_id,
                    model=writer.model,
                    input_tokens=request.tokens,
                    max_tokens=ANSWER_TOKENS,
                    purpose="compaction",
                    session_model=session_model,
                    epoch=epoch,
                    now=database.clock.now(),
                ) | {"strategy": COMPACTED.name}
                call_id = await money.reserve_spend(conn, reserve)
    except money.BudgetStop as stop:
        log.info("session %s is compacted without a model: %s", session_id, stop)
        return None
    try:
        with boundary("model"):
            reply = await writer.client.send(request)
    except ModelError as error:
        may_be_charged = isinstance(error, ModelUnavailable) and error.may_be_charged
        await _settle(database, call_id, None if may_be_charged else Usage())
        log.warning("session %s is compacted without a model: %s", session_id, error)
        return None
    await _settle(database, call_id, Usage(reply.input_tokens, reply.cached_tokens, reply.output_tokens))
    try:
        parsed = parse_reply(reply, compaction.SUMMARY_SCHEMA)
    except ModelError as error:
        log.warning("session %s is compacted without a model: %s", session_id, error)
        return None
    return {
        "summary": redact(str(parsed["summary"])),
        "next_steps": [redact(str(step)) for step in parsed["next_steps"]][:20],
    }


async def _settle(database: Database, call_id: str, usage: Usage | None) -> None:
    with boundary("commit spend"):
        async with database.transaction() as conn:
            await money.settle_spend(conn, call_id, usage, now=database.clock.now())


async def _log_compaction(
    database: Database,
    session_id: str,
    history: SessionHistory,
    plan: CompactionPlan,
    summary: Mapping[str, Any],
    *,
    epoch: int | None,
) -> Compaction | None:
    """Log a compaction and count it in its session; None if another process has just logged the same.

    The `summary` has the text, by whom it was written and why.
    """
    tokens = plan.tokens_kept + count_tokens_cached(str(summary["summary"]))
    async with database.transaction() as conn:
        state = (await sessions.get(conn, session_id)).state
        data = {
            "decision": "compaction",
            **summary,
            "kept_from": plan.kept_from,
            **plan.data,
            "state": state,
            "tokens_before": plan.tokens_before,
            "tokens_after": tokens,
        }
        appended = await events.append(
            conn,
            session_id,
            [NewEvent(EventType.POLICY_DECISION, data, principal=Role.HARNESS.value)],
            now=database.clock.now(),
            epoch=epoch,
            key=f"compaction:{plan.kept_from}",
        )
        if appended.repeated:
            return None
        await store.count_compaction(conn, session_id)
        new_past = SessionHistory(
            history.upto, history.summary, appended.first_seq, data, history.scratchpad_seq, history.scratchpad
        )
        await store.save_view(conn, session_id, asdict(new_past))
    return Compaction(appended.first_seq, plan.kept_from, summary["summary"], data["by"], plan.tokens_before, tokens)
