"""What the model is asked next: the context of this moment, and the event up to which it reaches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from consolidator.context import build
from consolidator.errors import UsageError
from consolidator.llm.tokens import count_tokens
from consolidator.runtime import budget, compaction
from consolidator.runtime.boundaries import around
from consolidator.runtime.fold import Open
from consolidator.runtime.generation import Generated
from consolidator.runtime.harness import Harness, Usage
from consolidator.store.log import generation as store
from consolidator.store.queries import Row


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """One call of the model, before it is made."""

    model: str
    body: dict[str, Any]
    tokens: int  # of the question
    max_tokens: int  # of the answer
    strategy: str
    upto_seq: int  # the last event that the context knows
    held: tuple[int, ...]  # messages before it that have to wait for the turn's end

    def told(self, message_id: str) -> dict[str, Any]:
        """Return what the log says of the call."""
        told: dict[str, Any] = {
            "message_id": message_id, "model": self.model, "strategy": self.strategy, "prompt_tokens": self.tokens,
            "upto_seq": self.upto_seq,
        }  # fmt: skip
        return {**told, "held": list(self.held)} if self.held else told

    def usage(self, heard: Generated) -> Usage:
        """Return what the call took, counted by us where the server does not say."""
        if heard.usage is not None:
            return heard.usage
        written = heard.text + "".join(call.tool + call.arguments for call in heard.calls.values())
        return Usage(self.tokens, 0, count_tokens(written))


async def plan(harness: Harness, row: Row, found: Open, prefill: str | None, epoch: int | None = None) -> RequestPlan:
    """Return what to ask; `prefill` is the beginning of the answer, where that is known.

    A session whose context has grown too full is compacted before. Raises UsageError where no model is configured, or
    system prompt and tools alone do not fit.
    """
    config = row["config"]
    model = row["model"] or harness.settings.model
    if not model:
        raise UsageError("no model is configured: set CONSOLIDATOR_MODEL, or name one when the session is opened")
    limit = config.get("answer_tokens") or budget.ANSWER
    strategy = config.get("strategy") or "budget"
    room = build.budget_of(strategy, config.get("budget"), model, limit)
    asking = _Asking(harness, row, strategy, room, found.head, _held(found), await _recalled(harness, row))
    if found.unanswered:  # once a turn, so that all its steps begin alike
        with around("commit fold"):
            async with harness.database.connection() as conn:
                await build.advance(conn, row["id"])
    made = await asking.built()
    if prefill is None and compaction.is_due(made, room):
        cheap = harness.settings.extract_model or model
        if await compaction.compact(
            harness.database, row["id"], budget=room, client=harness.client, model=cheap, epoch=epoch,
            trigger="threshold", hooks=harness.compacting,
        ):  # fmt: skip
            made = await asking.built()
    messages = made.messages if prefill is None else prefilled(harness, made.messages, prefill) or made.messages
    body: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": limit}
    if made.tools:
        body["tools"] = made.tools
    if prefill is not None and harness.settings.prefill == "continue_final_message":
        body["extra_body"] = {"continue_final_message": True, "add_generation_prompt": False}
    tokens = made.tokens + (count_tokens(prefill) if prefill else 0)
    return RequestPlan(model, body, tokens, limit, made.strategy, made.upto_seq, asking.held)


@dataclass(frozen=True, slots=True)
class _Asking:
    """What a context is built of."""

    harness: Harness
    row: Row
    strategy: str
    room: int
    upto: int  # what comes after it was not looked at when it was decided what is held
    held: tuple[int, ...]
    recalled: str | None

    async def built(self) -> build.Context:
        """Return the context of this moment."""
        tools, config = self.harness.tools, self.row["config"]
        async with self.harness.database.connection() as conn:
            return await build.build_context(
                conn, self.row["id"], strategy=self.strategy, budget=self.room,
                last=config.get("last") or build.LAST, system=config.get("system"), recalled=self.recalled,
                tools=tools.definitions(), upto=self.upto, held=self.held,
                limits={name: one.max_result_bytes for name in tools.names if (one := tools.get(name))},
            )  # fmt: skip


def prefilled(harness: Harness, messages: list[dict[str, Any]], text: str = "") -> list[dict[str, Any]] | None:
    """Return messages that end in the beginning of the answer; None where the server does not go on from one."""
    way = harness.settings.prefill
    if way == "none":
        return None
    begun: dict[str, Any] = {"role": "assistant", "content": text}
    return [*messages, {**begun, "prefix": True} if way == "prefix" else begun]


def _held(found: Open) -> tuple[int, ...]:
    """Return the follow-ups that came while a turn was under way: they are heard at the next one."""
    if not found.results:
        return ()
    return tuple(one.seq for one in found.unanswered if one.data.get("mode") == "follow_up")


async def _recalled(harness: Harness, row: Row) -> str | None:
    """Return what memory has to say to the latest message."""
    if harness.recall is None:
        return None
    async with harness.database.connection() as conn:
        said = await store.last_said(conn, row["id"], bounds=(row["created_at"], row["last_event_at"]))
    return await harness.recall(row, said if isinstance(said, str) else json.dumps(said)) if said else None
