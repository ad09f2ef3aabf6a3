"""Targets that are missed so far, what stands in the way, and what was tried: `benchmarks/missed_targets.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

FILE = Path(__file__).parents[1] / "missed_targets.toml"


@dataclass(frozen=True, slots=True)
class MissedTarget:
    """A target that is missed, and the bound that its figure keeps nevertheless."""

    benchmark: str
    figure: str  # a pattern of names, as of files: * stands for anything
    holds: float  # no worse than this, on the side where the target is
    floor: str  # what stands in the way
    tried: tuple[str, ...]  # at least two ways


@cache
def load_missed_targets() -> tuple[MissedTarget, ...]:
    """Return the targets of the file."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8")).get("missed", [])
    return tuple(MissedTarget(**{**entry, "tried": tuple(entry["tried"])}) for entry in entries)


def find_missed_target(benchmark: str, figure: str) -> MissedTarget | None:
    """Return what is known of a benchmark's figure, if its target is known to be missed."""
    for missed in load_missed_targets():
        if missed.benchmark == benchmark and fnmatchcase(figure, missed.figure):
            return missed
    return None
