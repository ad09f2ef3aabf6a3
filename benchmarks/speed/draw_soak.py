"""python -m benchmarks.speed.draw_soak FIGURES.json IMAGE.png: draws the days of a soak (with matplotlib)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt

_MILLION, _GIGA = 1e6, 1e3


class Line(NamedTuple):
    """One figure of each day."""

    figure: str  # its name in the day's figures
    label: str
    divisor: float = 1.0


PANELS: Mapping[str, Sequence[Line]] = {
    "Size, GB": (Line("database_mb", "the whole database", _GIGA), Line("log_mb", "the log", _GIGA)),
    "Events, millions": (Line("events", "written", _MILLION), Line("events_kept", "kept", _MILLION)),
    "A night, seconds": (
        Line("night_processor_seconds", "processor time, client and server"),
        Line("night_seconds", "time on the clock"),
    ),
    "Recall, milliseconds": (Line("recall_p95_ms", "p95"), Line("recall_median_ms", "median")),
}  # what is drawn, each in a panel of its own


def draw(days: Sequence[Mapping[str, Any]], image: Path) -> None:
    """Draw the figures of days, one panel for each kind."""
    figure, places = plt.subplots(2, 2, figsize=(11, 6.2), layout="constrained")
    numbers = range(1, len(days) + 1)
    for place, (title, lines) in zip(places.flat, PANELS.items(), strict=True):
        for line in lines:
            place.plot(numbers, [day[line.figure] / line.divisor for day in days], label=line.label)
        place.set_title(title, loc="left")
        place.set_ylim(bottom=0)
        place.set_xlabel("day")
        place.legend(frameon=False)
        place.spines[["top", "right"]].set_visible(False)
    figure.savefig(image, dpi=110)


def main() -> None:
    """Draw the soak in a file that `python -m benchmarks soak --json` wrote."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    results = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    draw(next(result["days"] for result in results if result["benchmark"] == "soak"), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
