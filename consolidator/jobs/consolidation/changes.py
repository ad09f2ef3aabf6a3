"""What a merge or a reconciliation added, changed and retired: counted, and said in one line for the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Changes:
    """What a merge added, changed and retired, by kind, with the lines of what is new."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    new: dict[str, list[str]] = field(default_factory=dict)  # at most twenty lines a kind

    def note(self, kind: str, outcome: str | None, line: str) -> None:
        """Count one thing."""
        if outcome is None:
            return
        counts = self.counts.setdefault(kind, {})
        counts[outcome] = counts.get(outcome, 0) + 1
        if outcome == "added" and len(self.new.setdefault(kind, [])) < 20:
            self.new[kind].append(line)

    def gone(self, kind: str, count: int) -> None:
        """Count what is no longer published."""
        if count:
            counts = self.counts.setdefault(kind, {})
            counts["retired"] = counts.get("retired", 0) + count

    def line(self) -> str:
        """Say it in one line."""
        told = []
        for kind, counts in sorted(self.counts.items()):
            told.append(f"{kind}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
        return "; ".join(told)
