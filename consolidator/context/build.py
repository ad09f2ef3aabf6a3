"""Builds what the model sees of a session: a query's result, folded into messages within a token budget.

The cost depends on the window, not on the length of the log. `build_context` only reads; `advance_history` writes.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from consolidator.context.conversation import (
    MAX_RESULT_BYTES,
    MESSAGE_TOKENS,
    Conversation,
    RequestedCall,
    TokenCounter,
    fit_turns,
    truncate_middle,
)
from consolidator.context.history import (
    SessionHistory,
    apply_decision,
    fold_events,
    render_scratchpad_block,
    render_state_block,
    render_summary_block,
)
from consolidator.context.messages import MessageFormat, RenderedTurns, convert_tool_definitions, render_messages
from consolidator.context.reader import (
    DEFAULT_BUDGET,
    DEFAULT_STRATEGY,
    MAX_INLINE_EVENTS,
    ContextReader,
    ContextStrategy,
    TailCache,
    find_strategy,
)
from consolidator.database import Connection
from consolidator.errors import UsageError
from consolidator.llm.prices import context_window
from consolidator.llm.tokens import count_tokens_cached
from consolidator.memory.text.markers import EARLIER_TAG, RECALL_BEGIN, RECALL_END, escape_markers, wrap_block
from consolidator.models.lineage import Lineage
from consolidator.models.session import SeedRow
from consolidator.store.sessions.lineage import MARKS, find_mark, load_lineage
from consolidator.store.sessions.seeds import read_latest
from consolidator.store.turns import context as store
from consolidator.store.turns.context import SessionView

SHARE = 4  # of a context's budget, at most one part in so many is for the earlier thread
_LINE_TOKENS = 4  # overhead of a message, an upper estimate


def render_seeds_block(seeds: Sequence[SeedRow], total: int, budget: int, count: TokenCounter) -> str | None:
    """Return the latest seeds of a thread of `total` within a number of tokens, in order; the last is always there.

    The block says how many are left out, and nothing in a seed can end it.
    """
    lines: list[str] = []
    available = budget
    for seed in reversed(seeds):
        line = _render(seed)
        tokens = count(line) + _LINE_TOKENS
        if tokens > available:
            if not lines:
                lines.append(truncate_middle(line, max(len(line) * available // tokens, 40)))
            break
        lines.append(line)
        available -= tokens
    if not lines:
        return None
    left_out = total - len(lines)
    note = [f"[{left_out} earlier messages are left out]"] if left_out > 0 else []
    return wrap_block("\n".join([*note, *reversed(lines)]), EARLIER_TAG)


def _render(seed: SeedRow) -> str:
    speaker = seed.details.get("speaker")
    notes = [str(speaker)] if speaker else []
    notes += [f"{seed.occurred_at:%Y-%m-%d %H:%M}"] if seed.occurred_at else []
    who = f"{seed.role} ({', '.join(notes)})" if notes else seed.role
    return f"{who}: {seed.content}"


DEFAULT_LAST = 50  # events of a window
FOLD_LIMIT = 1000  # events that one call of `advance_history` folds
_HISTORY_FIELDS = tuple(column.name for column in fields(SessionHistory))
_MIN_TRANSCRIPT_TOKENS = 256
_PART_ORDER = ("system", "tools", "earlier thread", "recalled", "summary", "transcript", "open calls", "working memory")
# What is dropped, in this order, if too little of the budget is left for the transcript.
_DROPPABLE = ("recalled", "earlier", "summary", "scratchpad", "open_calls")


@dataclass(frozen=True, slots=True)
class ContextPart:
    """A part of a context, and an upper estimate of its tokens."""

    name: str  # system | tools | earlier thread | recalled | summary | transcript | open calls | working memory
    tokens: int


@dataclass(frozen=True, slots=True)
class Context:
    """What the model is shown, oldest first."""

    messages: list[dict[str, Any]]
    parts: list[ContextPart]
    strategy: str
    tokens: int
    first_seq: int  # of the first event that is shown, 0 if there is none
    upto_seq: int = 0  # the session's head when the context was built
    truncated: bool = False  # whether earlier turns are left out
    over_budget: bool = False  # whether they are left out for lack of room
    system: str | None = None  # in Anthropic's format, where the system prompt is no message
    tools: list[dict[str, Any]] = field(default_factory=list)  # in the message format's own shape
    budget: int = 0  # tokens that it could have


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """What a context is built from, and what it may hold."""

    strategy: str = DEFAULT_STRATEGY
    budget: int = DEFAULT_BUDGET  # tokens
    last: int = DEFAULT_LAST  # events of a window
    message_format: MessageFormat = "openai"
    system: str | None = None
    recalled: str | None = None  # what memory has about the last message
    tools: Sequence[Mapping[str, Any]] = ()
    limits: Mapping[str, int] = field(default_factory=dict)  # by tool: the maximum bytes of its results
    upto: int | None = None  # the last event that may be shown
    withheld: Sequence[int] = ()  # seqs of events that are not shown yet
    seeds: str | None = None  # the session whose seeds this one began with
    past: SessionHistory | None = None  # the session's fold and state at `upto`, where that is earlier than now
    state: Mapping[str, Any] | None = None


async def build_context(
    conn: Connection,
    session_id: str,
    request: ContextRequest = ContextRequest(),
    *,
    view: SessionView | None = None,
    tails: TailCache | None = None,
) -> Context:
    """Return what the model sees of a session up to an event, at most `budget` tokens.

    `view` is what was loaded of its past by now, which is loaded otherwise; `tails` keeps what is read for the next
    time. Raises UsageError if the system prompt and the tools alone do not fit, and NotFound.
    """
    selected = find_strategy(request.strategy)
    view = view or await store.load_view(conn, session_id)
    lineage = await load_lineage(conn, session_id, view)
    head = view.head if request.upto is None else min(request.upto, view.head)
    history = history_from_view(view, lineage) if request.past is None else request.past
    tails = TailCache() if tails is None else tails

    tail = tails.take(lineage, request.limits)
    reader = ContextReader(conn, tail, head, frozenset(request.withheld))
    kept_from = selected.kept_from(history)
    after = max(lineage.readable_after, kept_from - 1) if kept_from else lineage.readable_after
    recent = await selected.read_events(reader, after, budget=request.budget, last=request.last)
    tail.trim(recent[0].seq - 1 if recent else head)

    known_to = history.upto if request.past else view.upto or 0  # a night's summary holds no decisions
    for event in recent[bisect_right(recent, known_to, key=lambda event: event.seq) :]:
        apply_decision(history, event)
    kept_from = selected.kept_from(history)  # one of these events may be a newer compaction
    if kept_from and recent and recent[0].seq < kept_from:
        recent = [event for event in recent if event.seq >= kept_from]
    reaches_start = not recent or recent[0].seq <= lineage.readable_after + 1
    recent = await reader.include_last_user_message(recent)

    earlier = None
    if request.seeds is not None:  # the thread that the session began with, as much as its part of the budget holds
        seeds, total = await read_latest(conn, request.seeds, characters=request.budget)  # a token has several
        earlier = render_seeds_block(seeds, total, request.budget // SHARE, count_tokens_cached)

    builder = _ContextBuilder(
        selected, request, head, history, view.state if request.state is None else request.state,
        convert_tool_definitions(request.tools, request.message_format), _mark_recalled(request.recalled),
        earlier, tail.rendered,
    )  # fmt: skip

    arguments = (await reader.fold(recent), reaches_start and not lineage.is_truncated)
    if reader.new_events > MAX_INLINE_EVENTS:  # a thread costs more than to list what is kept
        context = await asyncio.to_thread(builder.build, *arguments)
    else:
        context = builder.build(*arguments)
    tails.put(tail)
    return context


async def advance_history(conn: Connection, session_id: str, *, limit: int = FOLD_LIMIT) -> int:
    """Fold the next events of a session into its stored summary; return how many events remain to be folded.

    Called once a turn; a long log that was never folded is caught up with in steps of `limit` events.
    """
    view = await store.load_view(conn, session_id)
    folded = await fold_view(conn, view, limit=limit)
    if folded is view:
        return 0
    await store.save_view(conn, session_id, fold_values(folded))
    return view.head - (folded.upto or 0)


async def fold_view(
    conn: Connection, view: SessionView, *, limit: int = FOLD_LIMIT, tails: TailCache | None = None
) -> SessionView:
    """Return a session's view with its next events folded; the same where there are none.

    They are not read where the session's tail was just seen to be the end of its log.
    """
    lineage = await load_lineage(conn, view.id, view)
    history = history_from_view(view, lineage)
    if view.upto is None and history.upto > lineage.begins_after:
        for mark in MARKS:
            if (event := await find_mark(conn, lineage, mark, upto=history.upto)) is not None:
                apply_decision(history, event)
    upto = min(view.head, history.upto + limit)
    if upto <= (lineage.begins_after if view.upto is None else view.upto):
        return view
    next_events = None if tails is None else tails.find_fresh(view.id, history.upto, upto)
    if next_events is None:
        next_events = await store.read_window(conn, lineage, after=history.upto, upto=upto, longest=MAX_RESULT_BYTES)
    if len(next_events) > MAX_INLINE_EVENTS:
        folded = await asyncio.to_thread(fold_events, history, next_events)
    else:
        folded = fold_events(history, next_events)
    folded.upto = upto
    return replace(view, **{name: getattr(folded, name) for name in _HISTORY_FIELDS}, learned=None)


def fold_values(view: SessionView) -> dict[str, Any]:
    """Return what is stored of a view that goes further than the stored one."""
    return {name: getattr(view, name) for name in _HISTORY_FIELDS}


def context_budget(
    strategy: str, configured: int | None, model: str, answer: int, *, window_tokens: int | None = None
) -> int:
    """Return a context's budget in tokens: the configured one, else the strategy's, limited by the model's window.

    `answer` is how many tokens of that window are reserved for the answer; `window_tokens` takes the place of the
    window that is known of the model. Raises UsageError for an unknown strategy.
    """
    window_tokens = window_tokens or context_window(model)
    max_budget = None if window_tokens is None else max(window_tokens - answer, 1)
    budget = configured or find_strategy(strategy).default_budget(max_budget)
    return budget if max_budget is None else min(budget, max_budget)


def history_from_view(view: SessionView, lineage: Lineage) -> SessionHistory:
    """Return what is folded of a session's past: by its own steps, or by the nights if those went further."""
    learned = view.learned
    upto = view.consolidated_to if learned else view.upto
    return SessionHistory(
        lineage.readable_after if upto is None else max(upto, lineage.readable_after),
        learned or view.summary or {},
        view.compaction_seq,
        view.compaction or {},
        view.scratchpad_seq,
        view.scratchpad,
    )


def _mark_recalled(recalled: str | None) -> str | None:
    """Return recalled memory between its markers."""
    if not recalled:
        return None
    inner = recalled.strip()
    is_marked = inner.startswith(RECALL_BEGIN) and inner.endswith(RECALL_END)
    inner = inner.removeprefix(RECALL_BEGIN).removesuffix(RECALL_END).strip() if is_marked else inner
    return f"{RECALL_BEGIN}\n{escape_markers(inner)}\n{RECALL_END}"


@dataclass(slots=True)
class _ContextBuilder:
    """Folds events into a context; needs no database, so that it can run in a thread."""

    strategy: ContextStrategy
    request: ContextRequest
    head: int
    history: SessionHistory
    state: Mapping[str, Any]
    tools: list[dict[str, Any]]
    recalled: str | None
    earlier: str | None  # the thread that the session began with
    rendered: RenderedTurns  # what was rendered of the session last
    summary: str | None = None
    open_calls: str | None = None
    scratchpad: str | None = None

    def build(self, conversation: Conversation, is_whole: bool) -> Context:
        """Return the context of a conversation; `is_whole` if that is the whole session."""
        self.open_calls = _render_open_calls(conversation.open_calls)
        self.scratchpad = render_scratchpad_block(self.history.scratchpad)

        needed = sum(conversation.sizes)
        room = self._make_room(needed)
        truncated = needed > room or not is_whole
        if truncated:
            self.summary = render_summary_block(
                self.history, self.state, compacted=self.strategy.compacts, budget=self.request.budget,
                count=count_tokens_cached,
            )  # fmt: skip
            room = self._make_room(needed)  # the summary takes a part of it

        window = fit_turns(
            conversation.turns, room, count_tokens_cached, stride=self.strategy.stride, sizes=conversation.sizes
        )

        before = "\n\n".join(block for block in (self.earlier, self.recalled, self.summary) if block)
        after = "\n\n".join(block for block in (self.open_calls, self.scratchpad) if block)
        messages = render_messages(
            window.turns, self.request.message_format, before=before, after=after, rendered=self.rendered
        )
        if self.request.system and self.request.message_format == "openai":
            messages.insert(0, {"role": "system", "content": self.request.system})

        parts = [*self._count_parts(), ContextPart("transcript", window.tokens)]
        parts.sort(key=lambda part: _PART_ORDER.index(part.name))
        return Context(
            messages=messages,
            parts=parts,
            strategy=self.strategy.name,
            tokens=sum(part.tokens for part in parts),
            first_seq=min((turn.seq for turn in window.turns), default=0),
            upto_seq=self.head,
            truncated=truncated,
            over_budget=window.truncated,
            system=self.request.system if self.request.message_format == "anthropic" else None,
            tools=self.tools,
            budget=self.request.budget,
        )

    def _count_parts(self) -> list[ContextPart]:
        texts = {
            "system": self.request.system,
            "tools": json.dumps(self.tools, ensure_ascii=False) if self.tools else None,
            "earlier thread": self.earlier,
            "recalled": self.recalled,
            "summary": self.summary,
            "open calls": self.open_calls,
            "working memory": self.scratchpad,
        }
        return [ContextPart(name, count_tokens_cached(text) + MESSAGE_TOKENS) for name, text in texts.items() if text]

    def _leave_out(self, name: str) -> str | None:
        """Return what stands in a part's place: the state always does, and notes do not go without a word."""
        if name == "summary" and self.summary:
            return render_state_block(self.state, self.request.budget)
        if name != "scratchpad" or not self.scratchpad:
            return None
        size = len(self.history.scratchpad or "")
        return f"[harness: the scratchpad, of {size:,} characters, does not fit into this context and is left out]"

    def _make_room(self, needed: int) -> int:
        """Return the tokens available for a transcript that needs so many; drop optional parts if they are too few."""
        budget = self.request.budget
        for name in _DROPPABLE:
            available = budget - sum(part.tokens for part in self._count_parts())
            if available >= min(needed, budget // 3):
                return available
            setattr(self, name, self._leave_out(name))
        available = budget - sum(part.tokens for part in self._count_parts())
        if available < min(needed, _MIN_TRANSCRIPT_TOKENS, budget // 2):
            raise UsageError(
                f"a context of {budget} tokens has no room for messages: the system prompt and the tools use "
                f"{budget - available} of them"
            )
        return available


def _render_open_calls(calls: Sequence[RequestedCall]) -> str | None:
    """Return a note about calls that have no result: no context may hold them as calls."""
    if not calls:
        return None
    lines = [f"- {call.tool} {call.arguments[:200]}" for call in calls[-20:]]
    return (
        "[harness: these calls have no result yet; they may be running or wait for a person's approval]\n"
        + "\n".join(lines)
    )
