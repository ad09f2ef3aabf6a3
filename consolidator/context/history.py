"""Folds what a context needs of a session's past: its summary, the latest compaction and the scratchpad. Pure.

The fold is stored and continued event by event, so that no context reads a long log again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from consolidator.llm.redaction.redact import redact
from consolidator.memory.summary import SummaryFold, render_summary
from consolidator.memory.text.recall_markers import SCRATCHPAD_TAG, SUMMARY_TAG, wrap_block
from consolidator.models.event import Event
from consolidator.models.payload import EventType

_MAX_STATE_CHARS = 4000  # of a session's state in a context


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


def render_summary_block(
    history: SessionHistory, state: Mapping[str, Any] | None = None, *, compacted: bool
) -> str | None:
    """Return the summary of what a context leaves out; with `compacted`, the compaction and the state come first."""
    parts = []
    if compacted and history.compaction:
        parts += _render_compaction(history.compaction)
        if state:
            parts.append(f"State: {_render_state(state)}")
    if history.summary and history.upto:
        parts.append(redact(render_summary(history.summary)))
    return wrap_block("\n\n".join(parts), SUMMARY_TAG) if parts else None


def render_scratchpad_block(scratchpad: str | None) -> str | None:
    """Return the agent's own notes as the block at the end of a context."""
    return wrap_block(scratchpad, SCRATCHPAD_TAG) if scratchpad else None


def _render_compaction(compaction: Mapping[str, Any]) -> list[str]:
    parts = ["What came before, in short:\n" + str(compaction.get("summary") or "").strip()]
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


def _render_state(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_STATE_CHARS else text[: _MAX_STATE_CHARS - 1] + "…"
