"""What a context needs of a session's past: a fold of the summary, the latest compaction, and the scratchpad. Pure.

It is fed event by event, so that no context ever reads a long log again.
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

_LONGEST_STATE = 4000  # characters of a session's state in a context


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
        """The first event that the latest compaction left in the context; 0 where there is none."""
        return int(self.compaction.get("kept_from") or 0)


def fold_events(past: SessionHistory, events: Sequence[Event]) -> SessionHistory:
    """Return a past with the next events in it."""
    fold = SummaryFold.from_json(past.summary) if past.summary else SummaryFold()
    found = SessionHistory(past.upto, {}, past.compaction_seq, past.compaction, past.scratchpad_seq, past.scratchpad)
    for event in events:
        fold.feed(event)
        apply_decision(found, event)
        found.upto = event.seq
    found.summary = fold.to_json()
    return found


def apply_decision(past: SessionHistory, event: Event) -> None:
    """Take a compaction or a scratchpad, where an event is one and a newer one was not seen."""
    if event.type is not EventType.POLICY_DECISION:
        return
    kind = event.data.get("decision")
    if kind == "compaction" and isinstance(event.data.get("kept_from"), int) and event.seq > past.compaction_seq:
        past.compaction_seq, past.compaction = event.seq, event.data
    elif kind == "scratchpad_set" and event.seq > past.scratchpad_seq:
        past.scratchpad_seq, past.scratchpad = event.seq, str(event.data.get("text") or "") or None


def render_summary_block(past: SessionHistory, state: Mapping[str, Any] | None = None, *, compacted: bool) -> str | None:
    """Return what a context says of what it does not show; with `compacted` what the compaction kept of it, too."""
    parts = []
    if compacted and past.compaction:
        parts += _compacted(past.compaction)
        if state:
            parts.append(f"State: {_json(state)}")
    if past.summary and past.upto:
        parts.append(redact(render_summary(past.summary)))
    return wrap_block("\n\n".join(parts), SUMMARY_TAG) if parts else None


def render_scratchpad_block(scratchpad: str | None) -> str | None:
    """Return the agent's own notes as the block at the end of a context."""
    return wrap_block(scratchpad, SCRATCHPAD_TAG) if scratchpad else None


def _compacted(compaction: Mapping[str, Any]) -> list[str]:
    parts = ["What came before, in short:\n" + str(compaction.get("summary") or "").strip()]
    steps = [str(step) for step in compaction.get("next_steps") or ()]
    if steps:
        parts.append("Still to do:\n" + _list(steps))
    tasks = [str(task.get("goal") or task.get("task_id")) for task in compaction.get("open_tasks") or ()]
    if tasks:
        parts.append("Open tasks:\n" + _list(tasks))
    errors = [f"{error.get('tool')}: {error.get('headline')}" for error in compaction.get("unresolved_errors") or ()]
    if errors:
        parts.append("Unresolved errors:\n" + _list(errors))
    return parts


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {' '.join(line.split())}" for line in lines)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_STATE else text[: _LONGEST_STATE - 1] + "…"
