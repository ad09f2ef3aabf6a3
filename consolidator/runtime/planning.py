"""Plans what to ask the model next: the context of this moment, and the event up to which it reaches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from consolidator.context import build
from consolidator.context.strategies import DEFAULT_STRATEGY
from consolidator.errors import UsageError
from consolidator.llm.tokens import count_tokens, settled_tokens
from consolidator.models.session import SessionRow
from consolidator.runtime import budget, compaction
from consolidator.runtime.boundaries import boundary
from consolidator.runtime.fold import OpenState
from consolidator.runtime.generation import StreamedAnswer
from consolidator.runtime.harness import Harness, Usage
from consolidator.store.log import generation as store


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

    def log_data(self, message_id: str) -> dict[str, Any]:
        """Return the data of the call's ThinkingStart event."""
        data: dict[str, Any] = {
            "message_id": message_id,
            "model": self.model,
            "strategy": self.strategy,
            "prompt_tokens": self.tokens,
            "upto_seq": self.upto_seq,
        }
        return {**data, "held": list(self.withheld)} if self.withheld else data

    def usage(self, answer: StreamedAnswer) -> Usage:
        """Return what the call took: what the server reports, or what is counted here, whichever is more."""
        text = answer.text + "".join(call.tool + call.arguments for call in answer.tool_calls.values())
        reported, output = answer.usage or Usage(), count_tokens(text)
        return Usage(
            settled_tokens(reported.input_tokens, self.tokens),
            min(reported.cached_tokens, reported.input_tokens),
            settled_tokens(reported.output_tokens, output),
        )

    def charged_usage(self, answer: StreamedAnswer) -> Usage | None:
        """Return what the call costs; None if the server reported nothing, so that it costs its reserve."""
        return None if answer.usage is None else self.usage(answer)


async def plan_request(
    harness: Harness, session: SessionRow, state: OpenState, prefill: str | None, epoch: int | None = None
) -> RequestPlan:
    """Return the next request; `prefill` is the beginning of its answer, if some of it is committed already.

    Compacts the session first if its context is too full. Raises UsageError if no model is configured, or the system
    prompt and the tools alone exceed the budget.
    """
    config = session.config
    model = session.model or harness.settings.model
    if not model:
        raise UsageError("no model is configured: set CONSOLIDATOR_MODEL, or name one when the session is opened")
    max_tokens = config.get("answer_tokens") or budget.DEFAULT_ANSWER_TOKENS
    strategy = config.get("strategy") or DEFAULT_STRATEGY
    context_budget = build.context_budget(strategy, config.get("budget"), model, max_tokens)
    withheld, recalled = withheld_messages(state), await _recall(harness, session)
    builder = _ContextRequest(harness, session, strategy, context_budget, state.head, withheld, recalled)
    if state.unanswered:  # once a turn, so that all its requests have the same prefix
        with boundary("commit fold"):
            async with harness.database.connection() as conn:
                await build.advance_history(conn, session.id)
    context = await builder.build()
    if prefill is None and compaction.is_compaction_due(context, context_budget):
        compaction_model = harness.settings.extract_model or model
        if await compaction.compact(
            harness.database, session.id, budget=context_budget, client=harness.client, model=compaction_model,
            epoch=epoch, trigger="threshold", hooks=harness.compaction_hooks,
        ):  # fmt: skip
            context = await builder.build()
    messages = context.messages
    if prefill is not None:
        messages = with_prefill(harness, messages, prefill) or messages
    body: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": max_tokens}
    if context.tools:
        body["tools"] = context.tools
    if prefill is not None and harness.settings.prefill == "continue_final_message":
        body["extra_body"] = {"continue_final_message": True, "add_generation_prompt": False}
    tokens = context.tokens + (count_tokens(prefill) if prefill else 0)
    return RequestPlan(model, body, tokens, max_tokens, context.strategy, context.upto_seq, withheld)


@dataclass(frozen=True, slots=True)
class _ContextRequest:
    """What a context is built from."""

    harness: Harness
    session: SessionRow
    strategy: str
    budget: int  # tokens
    upto: int  # later events were not looked at when `withheld` was decided
    withheld: tuple[int, ...]
    recalled: str | None

    async def build(self) -> build.Context:
        """Return the context of this moment."""
        tools, config = self.harness.tools, self.session.config
        async with self.harness.database.connection() as conn:
            return await build.build_context(
                conn,
                self.session.id,
                strategy=self.strategy,
                budget=self.budget,
                last=config.get("last") or build.DEFAULT_LAST,
                system=config.get("system"),
                recalled=self.recalled,
                tools=tools.definitions(),
                upto=self.upto,
                withheld=self.withheld,
                limits={name: tool.max_result_bytes for name in tools.names if (tool := tools.get(name))},
            )


def with_prefill(harness: Harness, messages: list[dict[str, Any]], text: str = "") -> list[dict[str, Any]] | None:
    """Return messages that end with the beginning of the answer; None if the server cannot continue one."""
    mode = harness.settings.prefill
    if mode == "none":
        return None
    beginning: dict[str, Any] = {"role": "assistant", "content": text}
    return [*messages, {**beginning, "prefix": True} if mode == "prefix" else beginning]


def withheld_messages(state: OpenState) -> tuple[int, ...]:
    """Return the seqs of follow-ups that came during the turn: the model is shown them in the next one."""
    if not state.unseen_results:
        return ()
    return tuple(event.seq for event in state.unanswered if event.data.get("mode") == "follow_up")


async def _recall(harness: Harness, session: SessionRow) -> str | None:
    """Return what memory recalls for the latest message."""
    if harness.recall is None:
        return None
    async with harness.database.connection() as conn:
        text = await store.get_last_user_text(conn, session.id, bounds=session.ingest_bounds)
    return await harness.recall(session, text if isinstance(text, str) else json.dumps(text)) if text else None
