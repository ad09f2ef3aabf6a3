"""Renders the thread that a session began with as a block before its transcript: the latest messages that fit. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.context.conversation import truncate_middle
from consolidator.context.window import TokenCounter
from consolidator.memory.text.recall_markers import EARLIER_TAG, wrap_block
from consolidator.models.seed import SeedRow

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
