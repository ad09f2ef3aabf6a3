"""Tell where a procedure is not done any more as it was compiled: a step fails, or the steps are others. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from consolidator.memory.calls.symbols import is_inspection
from consolidator.memory.lessons.history import TracedSession
from consolidator.memory.lessons.segments import split_line
from consolidator.memory.lessons.trace import TracedCall
from consolidator.memory.lessons.worth import HARM_LEVEL, Chances, probability_less
from consolidator.memory.procedures.compiled_procedure import CompiledProcedure, CompiledStep

MIN_SESSIONS = 2  # that did it in another way


def find_drift(procedure: CompiledProcedure, sessions: Sequence[TracedSession]) -> list[str]:
    """Return in words how later sessions did a procedure otherwise, each with the first session that shows it."""
    steps = [name for step in procedure.steps for name in _step_names(step)]
    failed: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    variants: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for session in sorted(sessions, key=lambda session: session.calls[0].at if session.calls else ""):
        calls = [each for call in session.calls if call.at > procedure.seen_to for each in _call_names(call)]
        outcomes = {name: ok for name, ok in calls if name in steps}
        for name, ok in outcomes.items():
            failed[name].append((session.session_id, not ok))
        variant = _find_variant([name for name, ok in calls if ok], steps)
        if variant is not None:
            variants[variant].append(session.session_id)

    lines = []
    recorded = Chances(len(procedure.sessions))
    for name in dict.fromkeys(steps):
        count = sum(is_failed for _, is_failed in failed[name])
        since = Chances(len(failed[name]), wrong=count)
        if count and probability_less(recorded, since) >= HARM_LEVEL:
            first = next(session_id for session_id, is_failed in failed[name] if is_failed)
            lines.append(f"{name} failed at the end of {count} of {len(failed[name])} sessions since, first in {first}")
    for variant, ids in variants.items():
        if len(ids) >= MIN_SESSIONS:
            lines.append(f"{len(ids)} sessions since did {' → '.join(variant)}, first {ids[0]}")
    return lines


def _find_variant(names: Sequence[str], steps: Sequence[str]) -> tuple[str, ...] | None:
    """Return what a session did from the last first step on up to the last one, where that is not the procedure."""
    if steps[0] not in names or steps[-1] not in names:
        return None
    end = len(names) - 1 - list(reversed(names)).index(steps[-1])
    starts = [position for position in range(end) if names[position] == steps[0]]
    made = tuple(dict.fromkeys(names[starts[-1] : end + 1])) if starts else ()
    return made if made and list(made) != list(dict.fromkeys(steps)) and len(made) <= 2 * len(steps) else None


def _step_names(step: CompiledStep) -> list[str]:
    line = next(
        (value["line"] for value in step.arguments.values() if isinstance(value, dict) and "line" in value), None
    )
    if line is None:
        return [step.tool]
    segments, _ = split_line(" ".join(part if isinstance(part, str) else "x" for part in line), None)
    return [segment.operation for segment in segments if not segment.is_trivial]


def _call_names(call: TracedCall) -> list[tuple[str, bool]]:
    """Return what a call did that a step can be, and whether it worked."""
    if call.kind != "shell":
        return [] if call.ok is None or is_inspection(call.name) else [(call.name, call.ok)]
    return [
        (segment.operation, segment.ok)
        for segment in call.segments
        if segment.ok is not None and not segment.is_trivial and not is_inspection(f"sh:{segment.operation}")
    ]
