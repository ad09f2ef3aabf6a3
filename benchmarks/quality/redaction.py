"""Measures how often redaction hides something in a folder of logs, and shows each place, for a person to judge.

    python -m benchmarks.quality.redaction FOLDER [--show N]

Reads every string of JSON and JSONL files, and other text files whole. On logs that hold no credentials each hit is a
false positive; nothing is printed of a hit but its kind, its length and what stands around it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from consolidator.llm.redaction.redact import find

_JSON = (".json", ".traj", ".ipynb")
_LINES = (".jsonl", ".ndjson")


@dataclass(slots=True)
class Measured:
    """What was read and what was hidden in it."""

    files: int = 0
    strings: int = 0
    characters: int = 0
    seconds: float = 0.0  # of processor time
    kinds: Counter[str] = field(default_factory=Counter)
    places: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)  # file, kind, before, after

    def report(self) -> dict[str, Any]:
        """Return the figures."""
        megabytes = self.characters / 1e6
        hits = sum(self.kinds.values())
        return {
            "files": self.files,
            "strings": self.strings,
            "MB": round(megabytes, 2),
            "hits": hits,
            "distinct hits": len(self.places),
            "hits per MB": round(hits / megabytes, 4) if megabytes else 0.0,
            "MB/s": round(megabytes / self.seconds, 1) if self.seconds else 0.0,
            "kinds": dict(self.kinds.most_common()),
        }


def measure(folder: Path) -> Measured:
    """Redact every string below a folder and count."""
    measured = Measured()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        measured.files += 1
        for text in strings(path):
            started = time.process_time()
            spans = find(text)
            measured.seconds += time.process_time() - started
            measured.strings += 1
            measured.characters += len(text)
            for start, end, kind in spans:
                around = text[max(0, start - 60) : start], text[end : end + 20]
                measured.kinds[kind] += 1
                measured.places[(path.name, f"{kind} of {end - start}", *around)] += 1
    return measured


def strings(path: Path) -> Iterator[str]:
    """Yield the strings of a JSON or JSONL file, or a text file whole; of a binary file nothing."""
    if path.suffix in _LINES:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                yield from _parsed(line)
        return
    raw = path.read_bytes()
    if b"\0" in raw[:4096]:
        return
    text = raw.decode("utf-8", errors="replace")
    yield from _parsed(text) if path.suffix in _JSON else [text]


def _parsed(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield text
        return
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list):
            waiting += one


def main() -> None:
    """Print a table, the places, and the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", type=int, default=50, help="how many distinct places to show")
    options = parser.parse_args()
    measured = measure(options.folder)
    report = measured.report()
    for name, figure in report.items():
        print(f"{name:>14}  {figure}")
    for (name, what, before, after), times in measured.places.most_common(options.show):
        print(f"{times:6}x {name}: {before!r} [{what}] {after!r}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
