"""Learns what the person refuses here: an operation that they denied in several sessions, and what ran in its place.

Only a person's own denials count, never a permission rule's. That the operation then runs ends what was learned of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from consolidator.memory.calls.installation import installs_unnamed
from consolidator.memory.lessons.history import Cases, History, code, most_common
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.segments import Segment, is_in_place_of
from consolidator.memory.lessons.trace import DENIED

MIN_SESSIONS = 2  # in which it was denied, and in which the same operation then ran in its place
MIN_REPLACED = 0.6  # of the denials, after which that one ran
REPLACED_WITHIN = 3  # acting calls


@dataclass(slots=True)
class _Refusals:
    """An operation's calls since it was first denied."""

    denied: Cases = field(default_factory=Cases)
    ran: int = 0  # calls that nobody denied
    is_over: bool = False  # whether one ran since the last denial
    replaced: dict[str, Cases] = field(default_factory=lambda: defaultdict(Cases))  # by the operation that then ran
    calls: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # of that, as they ran

    @property
    def instead(self) -> str | None:
        """What mostly ran in its place: the operation, or the call if it was the same several times."""
        counts = Counter({operation: len(cases) for operation, cases in self.replaced.items()})
        best = most_common(counts) if counts else ""
        if counts[best] < MIN_REPLACED * len(self.denied) or len(self.replaced[best].roots) < MIN_SESSIONS:
            return None
        call = most_common(self.calls[best])
        return call if self.calls[best][call] >= MIN_SESSIONS or " " not in best else best


def learn_refused(history: History) -> Iterator[Lesson]:
    """Yield what the person mostly refused, with what then ran instead."""
    for operation, refusals in sorted(_collect(history).items()):
        count, sessions = len(refusals.denied), len(refusals.denied.roots)
        is_refused = sessions >= MIN_SESSIONS and count > refusals.ran and not refusals.is_over
        if not is_refused or (instead := refusals.instead) is None:
            continue
        counts = f"{count} of {count + refusals.ran} times, {sessions} sessions"
        yield refusals.denied.build_lesson(
            "refused",
            operation,
            f"The person refuses {code(operation)} here ({counts}): {code(instead)} ran instead.",
            3.0 * count,
            instead=instead,
            match={"kind": "operation", "operation": operation},
            warns=True,
        )


def _collect(history: History) -> dict[str, _Refusals]:
    collected: dict[str, _Refusals] = {}
    in_time = sorted(history.sessions, key=lambda each: (each.calls[-1].at if each.calls else "", each.session_id))
    for session in in_time:
        for position, call in enumerate(session.calls):
            acting = [segment for segment in call.segments if not segment.is_trivial]
            if call.reason == DENIED and len(acting) == 1:
                refusals = collected.setdefault(acting[0].operation, _Refusals())
                refusals.denied.add(session, call)
                refusals.is_over = False
                later = (s for _, each in session.acting(position + 1, REPLACED_WITHIN) for s in each.segments)
                if (ran := next((segment for segment in later if _replaces(segment, acting[0])), None)) is not None:
                    refusals.replaced[ran.operation].add(session, call)
                    refusals.calls[ran.operation][ran.full_call] += 1
            for segment in acting:
                if segment.ok is not None and segment.operation in collected:
                    collected[segment.operation].ran += 1
                    collected[segment.operation].is_over = True
    return collected


def _replaces(segment: Segment, refused: Segment) -> bool:
    shown = segment.shown if segment.ok is not None and is_in_place_of(segment, refused) else None
    return shown is not None and not installs_unnamed(shown, refused.full_call)
