"""Plans what to ask the model next: the context of this moment, and the event up to which it reaches."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from consolidator.context import build
from consolidator.context.reader import DEFAULT_STRATEGY, find_strategy
from consolidator.errors import UsageError
from consolidator.llm.redaction.redact import redact_json
from consolidator.llm.tokens import count_tokens, settled_tokens
from consolidator.memory.text.markers import find_citations
from consolidator.models.agent import AUTO
from consolidator.models.session import SessionRow
from consolidator.runtime.session import budget
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.budget import Usage
from consolidator.runtime.session.fold import OpenState
from consolidator.runtime.session.routing import RouteDecision, RoutePurpose, candidate_models, side_model, turn_purpose
from consolidator.runtime.session.routing import route as decide_route
from consolidator.runtime.session.webhooks import webhook_hooks
from consolidator.runtime.turn import compaction
from consolidator.runtime.turn.generation import StreamedAnswer
from consolidator.runtime.turn.harness import Harness
from consolidator.store.sessions.lineage import load_lineage
from consolidator.store.turns import generation as store
from consolidator.store.turns.context import SessionView, load_view, save_view


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """One call of the model, before it is made."""

    model: str
    body: dict[str, Any]  # of the request
    tokens: int  # of the prompt
    max_tokens: int  # of the answer
    strategy: str  # of the context
    upto_seq: int  # the last event that the context could hold
    withheld: tuple[int, ...]  # seqs of messages up to it that wait for the end of the turn
    route: RouteDecision | None = None  # a policy's choice of the model, not logged yet
    purpose: RoutePurpose = "turn"
    cited: tuple[str, ...] = ()  # memory that the context shows
    fold: dict[str, Any] | None = None  # of the session's past, where it is not stored yet

    def log_data(self, message_id: str) -> dict[str, Any]:
        """Return the data of the call's ThinkingStart event."""
        data: dict[str, Any] = {
            "message_id": message_id,
            "model": self.model,
            "strategy": self.strategy,
            "prompt_tokens": self.tokens,
            "upto_seq": self.upto_seq,
        }
        data |= {"recalled": list(self.cited)} if self.cited else {}
        return {**data, "held": list(self.withheld)} if self.withheld else data

    def usage(self, answer: StreamedAnswer) -> Usage:
        """Return what the call took: what the server reports, or what is counted here, whichever is more.

        Of a call that a steer ended, that is what was streamed until then.
        """
        text = "".join([*answer.received, *(call.tool + call.arguments for call in answer.tool_calls.values())])
        reported, output = answer.usage or Usage(), count_tokens(text)
        return Usage(
            settled_tokens(reported.input_tokens, self.tokens),
            min(reported.cached_tokens, reported.input_tokens),
            settled_tokens(reported.output_tokens, output),
        )


async def plan_request(
    harness: Harness,
    session: SessionRow,
    state: OpenState,
    prefill: str | None,
    epoch: int | None = None,
    route: RouteDecision | None = None,
    view: SessionView | None = None,
) -> RequestPlan:
    """Return the next request; `prefill` is the beginning of its answer, if some of it is committed already.

    Compacts the session first if its context is too full. `route` is a decision of this step's earlier attempt, and
    `view` what was loaded of the session's past together with `state`. Raises UsageError if no model is configured, or
    the system prompt and the tools alone exceed the budget.
    """
    config = session.config
    max_tokens = config.get("answer_tokens") or budget.DEFAULT_ANSWER_TOKENS
    strategy = config.get("strategy") or DEFAULT_STRATEGY
    withheld, recalled = withheld_messages(state), await _recall(harness, session)
    model = _chosen_model(harness, session, state, withheld, route)
    context_budget = _largest_budget(harness, session, strategy, model, max_tokens)
    fold = None
    if state.unanswered:  # once a turn, so that all its requests have the same prefix
        async with harness.database.connection() as conn:
            stored = view or await load_view(conn, session.id)
            view = await build.fold_view(conn, stored, tails=harness.tails)
        fold = None if view is stored else build.fold_values(view)

    tools = harness.tools_of(session)
    request = build.ContextRequest(
        strategy=strategy,
        budget=context_budget,
        last=config.get("last") or build.DEFAULT_LAST,
        system=config.get("system"),
        recalled=recalled,
        tools=tools.definitions(),
        limits=tools.result_limits(),
        upto=state.head,  # later events were not looked at when `withheld` was decided
        withheld=withheld,
        seeds=config.get("seeds"),
    )

    async def build_context(request: build.ContextRequest, view: SessionView | None) -> build.Context:
        async with harness.database.connection() as conn:
            return await build.build_context(conn, session.id, request, view=view, tails=harness.tails)

    # A policy decides by how much there is to read, so that the context comes before the model's choice.
    context, decision = await build_context(request, view), None
    if model is None:
        decision = decide_route(
            harness.policy, harness.settings, session, purpose=turn_purpose(session), prompt_tokens=context.tokens,
            answer_tokens=max_tokens,
        )  # fmt: skip
        model = decision.model
        narrower = _largest_budget(harness, session, strategy, model, max_tokens)
        if narrower < context_budget:
            context_budget, request = narrower, replace(request, budget=narrower)
            context = await build_context(request, view) if context.tokens > narrower else context

    # Not while an answer goes on: its beginning belongs to what the model was shown.
    threshold = config.get("compaction_threshold") or compaction.THRESHOLD
    is_full = context.over_budget or context.tokens > threshold * context_budget
    if prefill is None and is_full and find_strategy(context.strategy).compacts:
        if fold is not None:  # what is compacted goes on from there
            with boundary("commit fold"):
                async with harness.database.connection() as conn:
                    await save_view(conn, session.id, fold)
            fold = None
        side, *why = side_model(harness.policy, harness.settings, session, prompt_tokens=context.tokens)
        fixed = sum(part.tokens for part in context.parts if part.name not in ("summary", "transcript"))
        if await compaction.compact(
            harness.database, session.id, budget=context_budget, limit=int(threshold * context_budget) - fixed,
            writer=compaction.SummaryWriter(harness.client, side or model, *why),
            epoch=epoch, trigger="threshold", hooks=harness.session_hooks.get(session.id)
            or webhook_hooks(harness.settings, session) or harness.compaction_hooks,
        ):  # fmt: skip
            context = await build_context(request, None)

    messages = redact_json(context.messages) if harness.redacts else context.messages
    if prefill is not None:
        messages = with_prefill(harness, messages, prefill) or messages
    body: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": max_tokens}
    if context.tools:
        body["tools"] = context.tools
    if prefill is not None and harness.settings.prefill == "continue_final_message":
        body["extra_body"] = {"continue_final_message": True, "add_generation_prompt": False}
    tokens = context.tokens + (count_tokens(prefill) if prefill else 0)
    return RequestPlan(
        model,
        body,
        tokens,
        max_tokens,
        context.strategy,
        context.upto_seq,
        withheld,
        decision or route,
        turn_purpose(session),
        tuple(find_citations(recalled)) if any(part.name == "recalled" for part in context.parts) else (),
        fold,
    )


def _chosen_model(
    harness: Harness, session: SessionRow, state: OpenState, withheld: tuple[int, ...], route: RouteDecision | None
) -> str | None:
    """Return the session's model, or the one that this turn was routed to; None if a policy has yet to choose."""
    model = session.model or harness.settings.model
    if not model:
        raise UsageError("no model is configured: set CONSOLIDATOR_MODEL, or name one when the session is opened")
    if model != AUTO:
        return model
    if route is not None:
        return route.model
    latest = max((event.seq for event in state.unanswered if event.seq not in withheld), default=0)
    return state.routed_model if state.routed_seq > latest else None


def _largest_budget(harness: Harness, session: SessionRow, strategy: str, model: str | None, max_tokens: int) -> int:
    """Return the context's budget with a model; with None the largest of those that may be chosen."""
    models = candidate_models(harness.settings) if model is None else (model,)
    config = session.config
    return max(
        build.context_budget(
            strategy, config.get("budget"), name, max_tokens, window_tokens=config.get("context_window")
        )
        for name in models
    )


def with_prefill(harness: Harness, messages: list[dict[str, Any]], text: str = "") -> list[dict[str, Any]] | None:
    """Return messages that end with the beginning of the answer; None if the server cannot continue one."""
    mode = harness.settings.prefill
    if mode == "none":
        return None
    beginning: dict[str, Any] = {"role": "assistant", "content": text}
    return [*messages, {**beginning, "prefix": True} if mode == "prefix" else beginning]


def withheld_messages(state: OpenState) -> tuple[int, ...]:
    """Return the seqs of follow-ups that came during the turn, or wait beside a steer: the next turn shows them."""
    if not state.unseen_results and not any(event.data.get("mode") == "steer" for event in state.unanswered):
        return ()
    return tuple(event.seq for event in state.unanswered if event.data.get("mode") == "follow_up")


async def _recall(harness: Harness, session: SessionRow) -> str | None:
    """Return what memory recalls for the latest message."""
    if harness.recall is None or session.kind == "sub-agent":  # it sees what its parent gave it
        return None
    async with harness.database.connection() as conn:
        lineage = await load_lineage(conn, session.id, session)
        text = await store.get_last_user_text(conn, lineage, upto=lineage.own.upto)
    return await harness.recall(session, text if isinstance(text, str) else json.dumps(text)) if text else None
