"""What a model read in a session's events; a night without a model loads nothing else of this room."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from consolidator.memory.facts.candidates import Candidate


@dataclass(slots=True)
class ReadResult:
    """What a model read in a session's events."""

    candidates: list[Candidate] = field(default_factory=list)
    rejected: list[Candidate] = field(default_factory=list)
    failed_events: dict[int, str] = field(default_factory=dict)  # seq -> "model: error"
    stopped_before: int | None = None  # the first seq that has to wait for another night

    def append(self, other: ReadResult) -> None:
        """Add what was read in later events; nothing after a stop counts."""
        if self.stopped_before is None:
            self.candidates += other.candidates
            self.rejected += other.rejected
            self.failed_events |= other.failed_events
            self.stopped_before = other.stopped_before

    def limit_to(self, seq: int) -> ReadResult:
        """Return only what rests on events up to a seq."""
        return replace(
            self,
            candidates=[candidate for candidate in self.candidates if max(_cited_seqs(candidate)) <= seq],
            rejected=[rejected for rejected in self.rejected if rejected.seq <= seq],
            failed_events={failed: error for failed, error in self.failed_events.items() if failed <= seq},
        )

    @property
    def sources(self) -> set[int]:
        """The seqs of events that something was learned from."""
        return {seq for candidate in self.candidates for seq in _cited_seqs(candidate)} - set(self.failed_events)


def _cited_seqs(candidate: Candidate) -> list[int]:
    return [candidate.seq, *(seq for seq, _ in candidate.evidence)]
