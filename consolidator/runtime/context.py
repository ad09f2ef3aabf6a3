"""What the model sees of a session: a query's result, folded into messages under a budget of tokens.

Its cost depends on the window, not on the length of the log. Nothing here writes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from consolidator.database import Driver
from consolidator.errors import UsageError
from consolidator.llm.tokens import counted
from consolidator.memory.messages import Form, Turn, conversation, rendered, tool_definitions
from consolidator.memory.window import MESSAGE, fitting
from consolidator.models.event import Event
from consolidator.store import events, sessions

Strategy = Literal["window", "budget", "compacted", "full"]
STRATEGIES: tuple[Strategy, ...] = ("window", "budget", "compacted", "full")
BUDGET, LAST = 32_000, 50  # tokens of a context, events of a window
_PAGE = 200  # events read at once, going back
_LEAST = 256  # tokens that what was said must be left with
_BEFORE = 2000  # events before a window in which a person's last message is looked for


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a context, and its tokens, counted or rather more."""

    name: str  # system | tools | recalled | summary | transcript | working memory
    tokens: int


@dataclass(frozen=True, slots=True)
class Context:
    """What the model is shown."""

    messages: list[dict[str, Any]]
    parts: list[Part]
    strategy: str
    tokens: int
    first_seq: int  # of the first event that is in it, 0 where there is none
    cut: bool = False  # whether earlier events are not in it
    system: str | None = None  # of Anthropic's form, where it is no message
    tools: list[dict[str, Any]] = field(default_factory=list)  # in the form's own shape


async def build_context(
    conn: Driver,
    session_id: str,
    *,
    strategy: str = "budget",
    budget: int = BUDGET,
    last: int = LAST,
    form: Form = "openai",
    system: str | None = None,
    recalled: str | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
    limits: Mapping[str, int] | None = None,
) -> Context:
    """Return what the model sees of a session, at most `budget` tokens; `limits` are bytes of results by tool.

    `last` is the window's number of events. Raises UsageError where system prompt and tools alone do not fit.
    """
    if strategy not in STRATEGIES:
        raise UsageError(f"{strategy!r} is no strategy: {', '.join(STRATEGIES)}")
    session = await sessions.get(conn, session_id)
    fixed = _Fixed(system, tool_definitions(tools, form), recalled)
    left = fixed.fit(budget)
    found, whole = await _events(conn, session, strategy=strategy, last=last, budget=left)
    return await asyncio.to_thread(_assembled, found, whole, fixed, strategy, left, form, limits)


@dataclass(slots=True)
class _Fixed:
    """What a context holds beside what was said."""

    system: str | None
    tools: list[dict[str, Any]]
    recalled: str | None = None
    summary: str | None = None
    working: str | None = None

    def parts(self) -> list[Part]:
        texts = {
            "system": self.system,
            "tools": json.dumps(self.tools, ensure_ascii=False) if self.tools else None,
            "recalled": self.recalled,
            "summary": self.summary,
            "working memory": self.working,
        }
        return [Part(name, counted(text) + MESSAGE) for name, text in texts.items() if text]

    def fit(self, budget: int) -> int:
        """Return the tokens left for what was said; what can be done without goes where there is too little."""
        for name in ("recalled", "summary", "working"):
            left = budget - sum(part.tokens for part in self.parts())
            if left >= min(_LEAST, budget // 2):
                return left
            setattr(self, name, None)
        left = budget - sum(part.tokens for part in self.parts())
        if left < min(_LEAST, budget // 2):
            raise UsageError(
                f"a context of {budget} tokens has no room: the system prompt and the tools alone take {budget - left}"
            )
        return left


async def _events(
    conn: Driver, session: Mapping[str, Any], *, strategy: str, last: int, budget: int
) -> tuple[list[Event], bool]:
    """Return the latest events that may be shown, and whether these are all."""
    name, head, low = session["id"], session["head"], session["pruned_to"]
    bounds = (session["created_at"], session["last_event_at"])
    if strategy == "window":
        after = max(low, head - last)
        found = await events.read(conn, name, after=after, upto=head, bounds=bounds)
        return found, after <= low
    found = []
    after, page = head, _PAGE
    while after > low:
        upto, after = after, max(low, after - page)
        found = [*await events.read(conn, name, after=after, upto=upto, bounds=bounds), *found]
        if sum(len(str(event.data)) for event in found) > 8 * budget + 100_000:
            break
        page *= 2
    return found, after <= low


def _assembled(
    found: Sequence[Event],
    whole: bool,
    fixed: _Fixed,
    strategy: str,
    budget: int,
    form: Form,
    limits: Mapping[str, int] | None,
) -> Context:
    """Fold events into messages; works on the processor alone."""
    told = conversation(found, limits)
    window = fitting(told.turns, budget, counted)
    before = "\n\n".join(block for block in (fixed.recalled, fixed.summary) if block)
    messages = rendered(window.turns, form, before=before, after=fixed.working or "")
    if fixed.system and form == "openai":
        messages.insert(0, {"role": "system", "content": fixed.system})
    parts = _in_order([*fixed.parts(), Part("transcript", window.tokens)])
    return Context(
        messages,
        parts,
        strategy,
        sum(part.tokens for part in parts),
        _first(window.turns),
        cut=window.cut or not whole,
        system=fixed.system if form == "anthropic" else None,
        tools=fixed.tools,
    )


_ORDER = ("system", "tools", "recalled", "summary", "transcript", "working memory")


def _in_order(parts: Sequence[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: _ORDER.index(part.name))


def _first(turns: Sequence[Turn]) -> int:
    return min((turn.seq for turn in turns), default=0)
