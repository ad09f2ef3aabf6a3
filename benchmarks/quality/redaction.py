"""Measures how often redaction hides something in a folder of logs, and lists each hit for a person to judge.

    python -m benchmarks.quality.redaction FOLDER [--show N]

Reads every string of JSON and JSONL files, and other text files as a whole. In logs without credentials each hit is a
false positive. Of a hit only its kind, its length and the text around it are printed.
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

from consolidator.llm.redaction.redact import find_credentials

_JSON = (".json", ".traj", ".ipynb")
_LINES = (".jsonl", ".ndjson")


@dataclass(slots=True)
class RedactionCounts:
    """What was read, and what was hidden in it."""

    files: int = 0
    strings: int = 0
    characters: int = 0
    seconds: float = 0.0  # of processor time
    kinds: Counter[str] = field(default_factory=Counter)
    hits: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)  # file, kind, before, after

    def to_report(self) -> dict[str, Any]:
        """Return the figures."""
        megabytes = self.characters / 1e6
        total = sum(self.kinds.values())
        return {
            "files": self.files,
            "strings": self.strings,
            "MB": round(megabytes, 2),
            "hits": total,
            "distinct hits": len(self.hits),
            "hits per MB": round(total / megabytes, 4) if megabytes else 0.0,
            "MB/s": round(megabytes / self.seconds, 1) if self.seconds else 0.0,
            "kinds": dict(self.kinds.most_common()),
        }


def measure(folder: Path) -> RedactionCounts:
    """Redact every string below a folder and count."""
    counts = RedactionCounts()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        counts.files += 1
        for text in read_strings(path):
            started = time.process_time()
            spans = find_credentials(text)
            counts.seconds += time.process_time() - started
            counts.strings += 1
            counts.characters += len(text)
            for start, end, kind in spans:
                around = text[max(0, start - 60) : start], text[end : end + 20]
                counts.kinds[kind] += 1
                counts.hits[(path.name, f"{kind} of {end - start}", *around)] += 1
    return counts


def read_strings(path: Path) -> Iterator[str]:
    """Yield the strings of a JSON or JSONL file, or a text file as one string; nothing for a binary file."""
    if path.suffix in _LINES:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                yield from _parse_strings(line)
        return
    raw = path.read_bytes()
    if b"\0" in raw[:4096]:
        return
    text = raw.decode("utf-8", errors="replace")
    yield from _parse_strings(text) if path.suffix in _JSON else [text]


def _parse_strings(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield text
        return
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            pending += [*item, *item.values()]
        elif isinstance(item, list):
            pending += item


def main() -> None:
    """Print a table, the hits, and the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", type=int, default=50, help="how many distinct hits to show")
    options = parser.parse_args()
    counts = measure(options.folder)
    report = counts.to_report()
    for name, figure in report.items():
        print(f"{name:>14}  {figure}")
    for (name, kind, before, after), count in counts.hits.most_common(options.show):
        print(f"{count:6}x {name}: {before!r} [{kind}] {after!r}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
