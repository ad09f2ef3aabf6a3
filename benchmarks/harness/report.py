"""The report of a benchmark: measured figures, some with a target, as a table for people and as JSON for programs."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.missed_targets import MissedTarget, find_missed_target

SCALES = ("tiny", "small", "full")
TimedAction = Callable[[], Awaitable[float]]  # runs once and returns the seconds that it took


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number, with a target or without."""

    name: str
    value: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    known: MissedTarget | None = None  # how far the target is missed so far

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None if there is no target."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    @property
    def holds(self) -> bool:
        """Whether the target is reached, or missed by no more than is known."""
        if self.reached is not False:
            return True
        if self.known is None:
            return False
        return self.value >= self.known.holds if self.at_least is not None else self.value <= self.known.holds

    @property
    def verdict(self) -> str:
        """The target and whether it is reached, in words; empty if there is no target."""
        if self.reached is None:
            return ""
        target = (
            f">= {format_number(self.at_least)}" if self.at_least is not None else f"<= {format_number(self.at_most)}"
        )
        if self.reached or self.known is None:
            return f"{target} {'reached' if self.reached else 'MISSED'}"
        return f"{target} missed, as known ({self.known.holds:g})" if self.holds else f"{target} MISSED BY MORE"


@dataclass(slots=True)
class Report:
    """The results of one benchmark."""

    name: str
    title: str
    scale: str = ""
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # lines for people, below the table
    details: dict[str, Any] = field(default_factory=dict)  # further JSON keys

    def add(
        self, name: str, value: float, unit: str = "", *, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        """Add a figure."""
        known = find_missed_target(self.name, name)
        self.figures.append(Figure(name, value, unit, at_least, at_most, known))

    def format_table(self) -> str:
        """Return the figures as a table, and the notes below it."""
        head = f"{self.name}: {self.title}" + (f" ({self.scale})" if self.scale else "")
        width = max((len(figure.name) for figure in self.figures), default=0)
        lines = [head, "-" * len(head)]
        for figure in self.figures:
            value = format_number(figure.value)
            lines.append(f"  {figure.name:<{width}}  {value:>12} {figure.unit:<11} {figure.verdict}".rstrip())
        floors = [
            f"{figure.name}: {figure.known.floor}" for figure in self.figures if figure.known and not figure.reached
        ]
        return "\n".join([*lines, *(f"  {note}" for note in [*floors, *self.notes])])

    def to_json(self) -> dict[str, Any]:
        """Return the whole report as JSON values."""
        figures, targets = {}, {}
        for figure in self.figures:
            figures[figure.name] = round(figure.value, 6)
            if figure.reached is not None:
                bound = {"at_least": figure.at_least} if figure.at_least is not None else {"at_most": figure.at_most}
                targets[figure.name] = {**bound, "reached": figure.reached, "holds": figure.holds}
        head = {"benchmark": self.name, "scale": self.scale, "figures": figures, "targets": targets}
        return {**head, **self.details, "notes": self.notes}


def format_number(value: float | None) -> str:
    """Format a number with as many digits as its size needs."""
    if value is None:
        return ""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 0.1 else f"{value:.2f}"


async def run_interleaved(rounds: int, *actions: TimedAction) -> list[list[float]]:
    """Run actions in the order A B B A A B ..., so that other load affects all; return the seconds of each."""
    seconds: list[list[float]] = [[] for _ in actions]
    for turn in range(rounds):
        order = range(len(actions)) if turn % 2 == 0 else reversed(range(len(actions)))
        for position in order:
            seconds[position].append(await actions[position]())
    return seconds


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """Return the median over rounds of the ratio of two actions' seconds."""
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))
