"""What the model sees of a session: a query's result, folded into messages under a budget of tokens.

Its cost depends on the window, not on the length of the log. `build_context` reads; only `advance` writes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from consolidator.context.history import SessionHistory, fold_events, apply_decision, render_summary_block, render_scratchpad_block
from consolidator.context.messages import MAX_RESULT_BYTES, MessageFormat, RequestedCall, build_conversation, render_messages, convert_tool_definitions
from consolidator.context.reader import MAX_INLINE_EVENTS, ContextReader
from consolidator.context.strategies import DEFAULT_BUDGET, DEFAULT_STRATEGY, ContextStrategy, find_strategy
from consolidator.context.window import MESSAGE_TOKENS, fit_turns, count_turn_tokens
from consolidator.database import Connection
from consolidator.errors import UsageError
from consolidator.llm.prices import context_window
from consolidator.llm.tokens import count_tokens_cached
from consolidator.memory.text.recall_markers import RECALL_BEGIN, RECALL_END, escape_markers
from consolidator.models.event import Event, NewEvent
from consolidator.models.payload import EventType
from consolidator.store.log import context as store
from consolidator.store.log import events
from consolidator.store.log.context import SessionView
from consolidator.store.log.events import AppendResult

DEFAULT_LAST = 50  # events of a window
FOLD_LIMIT = 1000  # events that one `advance` folds
_LEAST = 256  # tokens without which nothing can be said
_ORDER = ("system", "tools", "recalled", "summary", "transcript", "open calls", "working memory")


@dataclass(frozen=True, slots=True)
class ContextPart:
    """A part of a context, and its tokens, counted or rather more."""

    name: str  # system | tools | recalled | summary | transcript | open calls | working memory
    tokens: int


@dataclass(frozen=True, slots=True)
class Context:
    """What the model is shown, oldest first."""

    messages: list[dict[str, Any]]
    parts: list[ContextPart]
    strategy: str
    tokens: int
    first_seq: int  # of the first event that is in it, 0 where there is none
    upto_seq: int = 0  # of the last event that it could hold
    truncated: bool = False  # whether something said earlier is not in it
    over_budget: bool = False  # whether that is for want of room
    system: str | None = None  # of Anthropic's form, where it is no message
    tools: list[dict[str, Any]] = field(default_factory=list)  # in the form's own shape


async def build_context(
    conn: Connection,
    session_id: str,
    *,
    strategy: str = DEFAULT_STRATEGY,
    budget: int = DEFAULT_BUDGET,
    last: int = DEFAULT_LAST,
    message_format: MessageFormat = "openai",
    system: str | None = None,
    recalled: str | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
    limits: Mapping[str, int] | None = None,
    upto: int | None = None,
    withheld: Sequence[int] = (),
) -> Context:
    """Return what the model sees of a session, at most `budget` tokens of it, up to an event.

    `last` is how many events a window has, `limits` the most bytes of results by tool, `withheld` the seqs of events
    that are not shown yet. Raises UsageError if the system prompt and the tools alone do not fit, and NotFound.
    """
    chosen = find_strategy(strategy)
    view = await store.load_view(conn, session_id)
    head = view.head if upto is None else min(upto, view.head)
    past = history_from_view(view)
    reader = ContextReader(conn, view, head, limits or {}, frozenset(withheld))
    after = max(view.pruned_to, chosen.kept_from(past) - 1)
    found = await chosen.read_events(reader, after, budget=budget, last=last)
    for event in found:
        apply_decision(past, event)
    kept_from = chosen.kept_from(past)  # one of these events may be a newer compaction
    found = [event for event in found if event.seq >= kept_from]
    whole = not found or found[0].seq <= view.pruned_to + 1
    found = await reader.include_last_user_message(found)
    making = _Making(
        chosen, budget, message_format, head, past, view.state, system, convert_tool_definitions(tools, message_format), _told(recalled)
    )
    work = (found, limits, whole and not view.pruned_to)
    return await asyncio.to_thread(making.made, *work) if len(found) > MAX_INLINE_EVENTS else making.made(*work)


async def advance_history(conn: Connection, session_id: str, *, limit: int = FOLD_LIMIT) -> int:
    """Fold the next events of a session into its summary, so that contexts need not; return how many were left.

    Called once a turn; a long log that was never folded is caught up with in steps of `limit` events.
    """
    view = await store.load_view(conn, session_id)
    past = history_from_view(view)
    bounds = view.ingest_bounds
    if view.upto is None and past.upto:
        for event in await store.read_latest_marks(conn, session_id, past.upto):
            apply_decision(past, event)
    upto = min(view.head, past.upto + limit)
    if upto <= (view.upto or 0):
        return 0
    found = await store.read_window(conn, session_id, after=past.upto, upto=upto, bounds=bounds, longest=MAX_RESULT_BYTES)
    folded = await asyncio.to_thread(fold_events, past, found) if len(found) > MAX_INLINE_EVENTS else fold_events(past, found)
    folded.upto = upto
    await store.save_view(conn, session_id, asdict(folded))
    return view.head - upto


async def set_scratchpad(
    conn: Connection, session_id: str, text: str, *, now: datetime, epoch: int | None = None
) -> AppendResult:
    """Set a session's own notes, which stand at the end of each of its contexts; the caller's transaction is open."""
    decision = NewEvent(EventType.POLICY_DECISION, {"decision": "scratchpad_set", "text": text})
    done = await events.append(conn, session_id, [decision], now=now, epoch=epoch)
    past = history_from_view(await store.load_view(conn, session_id))
    past.scratchpad_seq, past.scratchpad = done.last_seq, text or None
    await store.save_view(conn, session_id, asdict(past))
    return done


def context_budget(strategy: str, configured: int | None, model: str, answer: int) -> int:
    """Return a context's budget in tokens: the configured one, else the strategy's, and at most what the model can see.

    `answer` is how many tokens of the model's window its answer may take. Raises UsageError for an unknown strategy.
    """
    visible = context_window(model)
    max_budget = None if visible is None else max(visible - answer, 1)
    wanted = configured or find_strategy(strategy).default_budget(max_budget)
    return wanted if max_budget is None else min(wanted, max_budget)


def history_from_view(view: SessionView) -> SessionHistory:
    """Return what is folded of a session's past, by its steps or, where they go further, by the nights."""
    learned = view.learned
    upto = view.consolidated_to if learned else view.upto or 0
    return SessionHistory(
        max(upto, view.pruned_to),
        learned or view.summary or {},
        view.compaction_seq,
        view.compaction or {},
        view.scratchpad_seq,
        view.scratchpad,
    )


def _told(recalled: str | None) -> str | None:
    """Return recalled memory between its marks."""
    if not recalled:
        return None
    inner = recalled.strip()
    marked = inner.startswith(RECALL_BEGIN) and inner.endswith(RECALL_END)
    inner = inner.removeprefix(RECALL_BEGIN).removesuffix(RECALL_END).strip() if marked else inner
    return f"{RECALL_BEGIN}\n{escape_markers(inner)}\n{RECALL_END}"


@dataclass(slots=True)
class _Making:
    """Folds events into a context; works on the processor alone."""

    strategy: ContextStrategy
    budget: int
    form: MessageFormat
    head: int
    past: SessionHistory
    state: Mapping[str, Any]
    system: str | None
    tools: list[dict[str, Any]]
    recalled: str | None
    summary: str | None = None
    waiting: str | None = None
    working: str | None = None

    def made(self, found: Sequence[Event], limits: Mapping[str, int] | None, whole: bool) -> Context:
        """Return the context of events; `whole` where they are all there ever were."""
        told = build_conversation(found, limits)
        self.waiting, self.working = _waiting(told.open_calls), render_scratchpad_block(self.past.scratchpad)
        stride = self.strategy.stride
        wanted = sum(count_turn_tokens(turn, count_tokens_cached) for turn in told.turns)
        window = fit_turns(told.turns, self._left(wanted), count_tokens_cached, stride=stride)
        cut = window.truncated or not whole
        if cut:
            self.summary = render_summary_block(self.past, self.state, compacted=self.strategy.compacts)
            window = fit_turns(told.turns, self._left(wanted), count_tokens_cached, stride=stride)
        before = "\n\n".join(block for block in (self.recalled, self.summary) if block)
        after = "\n\n".join(block for block in (self.waiting, self.working) if block)
        messages = render_messages(window.turns, self.form, before=before, after=after)
        if self.system and self.form == "openai":
            messages.insert(0, {"role": "system", "content": self.system})
        parts = [*self._parts(), ContextPart("transcript", window.tokens)]
        parts.sort(key=lambda part: _ORDER.index(part.name))
        return Context(
            messages=messages,
            parts=parts,
            strategy=self.strategy.name,
            tokens=sum(part.tokens for part in parts),
            first_seq=min((turn.seq for turn in window.turns), default=0),
            upto_seq=self.head,
            truncated=cut,
            over_budget=window.truncated,
            system=self.system if self.form == "anthropic" else None,
            tools=self.tools,
        )

    def _parts(self) -> list[ContextPart]:
        texts = {
            "system": self.system,
            "tools": json.dumps(self.tools, ensure_ascii=False) if self.tools else None,
            "recalled": self.recalled,
            "summary": self.summary,
            "open calls": self.waiting,
            "working memory": self.working,
        }
        return [ContextPart(name, count_tokens_cached(text) + MESSAGE_TOKENS) for name, text in texts.items() if text]

    def _left(self, wanted: int) -> int:
        """Return the tokens left for what was said, which wants so many; what can be done without goes before it."""
        for name in ("recalled", "summary", "working", "waiting"):
            left = self.budget - sum(part.tokens for part in self._parts())
            if left >= min(wanted, self.budget // 3):
                return left
            setattr(self, name, None)
        left = self.budget - sum(part.tokens for part in self._parts())
        if left < min(wanted, _LEAST, self.budget // 2):
            taken = self.budget - left
            raise UsageError(
                f"a context of {self.budget} tokens has no room: the system prompt and the tools take {taken} of them"
            )
        return left


def _waiting(calls: Sequence[RequestedCall]) -> str | None:
    """Return what the model is told of calls that have no result, which no context may hold as calls."""
    if not calls:
        return None
    lines = [f"- {call.tool} {call.arguments[:200]}" for call in calls[-20:]]
    return (
        "[harness: these calls have no result yet; they may be running or wait for a person's approval]\n"
        + "\n".join(lines)
    )
