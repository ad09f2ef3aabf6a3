"""Folds what a context needs of a session's past: its summary, the latest compaction and the scratchpad. Pure.

The fold is stored and continued event by event, so that no context reads a long log again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from consolidator.context.conversation import fit_text
from consolidator.llm.redaction.redact import redact
from consolidator.memory.summary import SummaryFold, render_summary
from consolidator.memory.text.markers import SCRATCHPAD_TAG, SUMMARY_TAG, wrap_block
from consolidator.models.event import Event
from consolidator.models.payload import EventType

_MAX_STATE_CHARS = 4000  # of a session's state in a context
_SHARE = 8  # of a context's budget, at most one part in so many is for the summary


@dataclass(slots=True)
class SessionHistory:
    """A session's past up to an event; the compaction and the scratchpad may be newer."""

    upto: int = 0
    summary: Mapping[str, Any] = field(default_factory=dict)  # a SummaryFold's state
    compaction_seq: int = 0
    compaction: Mapping[str, Any] = field(default_factory=dict)
    scratchpad_seq: int = 0
    scratchpad: str | None = None

    @property
    def kept_from(self) -> int:
        """The first event that the latest compaction left in the context; 0 if there is no compaction."""
        return int(self.compaction.get("kept_from") or 0)


def fold_events(history: SessionHistory, events: Sequence[Event]) -> SessionHistory:
    """Return a history extended by the next events."""
    fold = SummaryFold.from_json(history.summary) if history.summary else SummaryFold()
    folded = SessionHistory(
        history.upto, {}, history.compaction_seq, history.compaction, history.scratchpad_seq, history.scratchpad
    )
    for event in events:
        fold.feed(event)
        apply_decision(folded, event)
        folded.upto = event.seq
    folded.summary = fold.to_json()
    return folded


def apply_decision(history: SessionHistory, event: Event) -> None:
    """Update a history by a compaction or a scratchpad event, unless it holds a newer one."""
    if event.type is not EventType.POLICY_DECISION:
        return
    decision = event.data.get("decision")
    if decision == "compaction" and isinstance(event.data.get("kept_from"), int) and event.seq > history.compaction_seq:
        history.compaction_seq, history.compaction = event.seq, event.data
    elif decision == "scratchpad_set" and event.seq > history.scratchpad_seq:
        history.scratchpad_seq, history.scratchpad = event.seq, str(event.data.get("text") or "") or None


def max_summary_tokens(budget: int) -> int:
    """Return how many tokens of a context may be the summary of what it leaves out, beside the state."""
    return budget // _SHARE


def render_summary_block(
    history: SessionHistory, state: Mapping[str, Any], *, compacted: bool, budget: int, count: Callable[[str], int]
) -> str | None:
    """Return the summary of what a context of so many tokens leaves out, and the state, which is always in it.

    With `compacted`, the compaction comes first.
    """
    parts = _render_compaction(history.compaction, budget, count) if compacted and history.compaction else []
    if history.summary and history.upto:
        parts.append(redact(render_summary(history.summary)))
    text = fit_text("\n\n".join(parts), max_summary_tokens(budget), count)
    blocks = [text, render_state(state, budget)]
    return wrap_block("\n\n".join(filter(None, blocks)), SUMMARY_TAG) if any(blocks) else None


def render_state_block(state: Mapping[str, Any], budget: int) -> str | None:
    """Return the state alone, for a context that has no room for a summary."""
    return wrap_block(render_state(state, budget), SUMMARY_TAG) if state else None


def render_state(state: Mapping[str, Any], budget: int) -> str:
    """Return a session's state as a context of so many tokens shows it; empty if there is none."""
    text = f"State: {json.dumps(state, ensure_ascii=False, default=str)}" if state else ""
    limit = min(_MAX_STATE_CHARS, budget // 2)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def render_scratchpad_block(scratchpad: str | None) -> str | None:
    """Return the agent's own notes as the block at the end of a context."""
    return wrap_block(scratchpad, SCRATCHPAD_TAG) if scratchpad else None


def _render_compaction(compaction: Mapping[str, Any], budget: int, count: Callable[[str], int]) -> list[str]:
    summary = fit_text(str(compaction.get("summary") or "").strip(), max_summary_tokens(budget) * 3 // 4, count)
    parts = ["What came before, in short:\n" + summary]
    steps = [str(step) for step in compaction.get("next_steps") or ()]
    if steps:
        parts.append("Still to do:\n" + _render_list(steps))
    tasks = [str(task.get("goal") or task.get("task_id")) for task in compaction.get("open_tasks") or ()]
    if tasks:
        parts.append("Open tasks:\n" + _render_list(tasks))
    errors = [f"{error.get('tool')}: {error.get('headline')}" for error in compaction.get("unresolved_errors") or ()]
    if errors:
        parts.append("Unresolved errors:\n" + _render_list(errors))
    return parts


def _render_list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {' '.join(line.split())}" for line in lines)
