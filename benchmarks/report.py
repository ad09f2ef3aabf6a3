"""What a benchmark found: figures, some with a target, as a table for people and as JSON for programs."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

SCALES = ("tiny", "small", "full")
Timed = Callable[[], Awaitable[float]]  # does a thing once; returns its seconds


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; with a target it is one that the project wants to reach."""

    name: str
    value: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None where there is none."""
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    @property
    def verdict(self) -> str:
        """The target and whether it is reached, in words."""
        if self.reached is None:
            return ""
        wanted = f">= {number(self.at_least)}" if self.at_least is not None else f"<= {number(self.at_most)}"
        return f"{wanted} {'reached' if self.reached else 'MISSED'}"


@dataclass(slots=True)
class Report:
    """What one benchmark found; `notes` are lines for people, `details` whatever else a program may want."""

    name: str
    title: str
    scale: str = ""
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def add(
        self, name: str, value: float, unit: str = "", *, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        """Add a figure."""
        self.figures.append(Figure(name, value, unit, at_least, at_most))

    def table(self) -> str:
        """Return the figures as a table, and the notes below it."""
        head = f"{self.name}: {self.title}" + (f" ({self.scale})" if self.scale else "")
        width = max((len(one.name) for one in self.figures), default=0)
        lines = [head, "-" * len(head)]
        for one in self.figures:
            lines.append(f"  {one.name:<{width}}  {number(one.value):>12} {one.unit:<11} {one.verdict}".rstrip())
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def as_json(self) -> dict[str, Any]:
        """Return everything for programs."""
        told: dict[str, Any] = {"benchmark": self.name, "scale": self.scale, "figures": {}, "targets": {}}
        for one in self.figures:
            told["figures"][one.name] = round(one.value, 6)
            if one.reached is not None:
                wanted = {"at_least": one.at_least} if one.at_least is not None else {"at_most": one.at_most}
                told["targets"][one.name] = {**wanted, "reached": one.reached}
        return {**told, **self.details, "notes": self.notes}


def number(value: float | None) -> str:
    """Write a number so that its size is seen at once."""
    if value is None:
        return ""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 0.1 else f"{value:.2f}"


async def by_turns(rounds: int, *things: Timed) -> list[list[float]]:
    """Do things by turns, A B B A A B ..., so that what else the machine does meets all; return seconds of each."""
    seconds: list[list[float]] = [[] for _ in things]
    for turn in range(rounds):
        order = range(len(things)) if turn % 2 == 0 else reversed(range(len(things)))
        for position in order:
            seconds[position].append(await things[position]())
    return seconds


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the median over rounds of how many times as long `one` took as `other`, which ran beside it."""
    return statistics.median(a / b for a, b in zip(one, other, strict=True))
