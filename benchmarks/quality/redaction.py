"""Measures what redaction hides: of credentials generated from rules, in places where they stand, and in logs.

    python -m benchmarks.quality.redaction [FOLDER] [--rules gitleaks.toml] [--show N]

Credentials are generated from the rules of a gitleaks configuration: each alone in a line, as its rule's text, and
beside a telling name. In logs without credentials each hit is a false positive; of a hit only its kind, its length and
the text around it are printed. Rules and places are not those of the tests.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.quality.credential_places import list_ordinary_lines, render_places
from benchmarks.quality.credential_samples import generate_samples
from consolidator.llm.redaction.redact import find_credentials, redact

_JSON = (".json", ".traj", ".ipynb")
_LINES = (".jsonl", ".ndjson")
_NAMED = (
    "{name}_API_TOKEN={value}",
    '"api_key": "{value}"',
    "secret: {value}",
    "app --token {value} run",
    "  password = '{value}'",
    "X-Api-Key: {value}",
)
_LEFT_CHARS = 10  # a credential is hidden if no piece of it of this length is left


@dataclass(slots=True)
class HiddenCounts:
    """How many credentials of each group were hidden, and which were not."""

    hidden: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    missed: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def try_text(self, group: str, label: str, text: str, credentials: list[str]) -> bool:
        """Redact a text and count whether all of its credentials were hidden."""
        redacted = redact(text)
        is_hidden = all(is_absent(credential, redacted) for credential in credentials)
        self.tried[group] += 1
        self.hidden[group] += is_hidden
        if not is_hidden:
            self.missed[group].append(f"{label}: {text!r}")
        return is_hidden


@dataclass(slots=True)
class LogCounts:
    """What was read of logs, and what was hidden in it."""

    files: int = 0
    strings: int = 0
    lines: int = 0
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
            "lines": self.lines,
            "MB": round(megabytes, 2),
            "hits": total,
            "distinct hits": len(self.hits),
            "hits per 10,000 lines": round(10_000 * total / self.lines, 3) if self.lines else 0.0,
            "MB/s": round(megabytes / self.seconds, 1) if self.seconds else 0.0,
            "kinds": dict(self.kinds.most_common()),
        }


def is_absent(credential: str, text: str) -> bool:
    """Tell whether no piece of a credential that is worth hiding is in a text."""
    size = min(_LEFT_CHARS, len(credential))
    return not any(credential[start : start + size] in text for start in range(len(credential) - size + 1))


def measure_rules(configuration: Path, per_rule: int = 6) -> tuple[HiddenCounts, list[str]]:
    """Return the counts of generated credentials, and the rules of which none was hidden in any place."""
    counts = HiddenCounts()
    found: dict[str, bool] = {}
    for number, sample in enumerate(generate_samples(configuration, per_rule)):
        name = sample.rule.split("-")[0].upper()
        named = _NAMED[number % len(_NAMED)].format(name=name, value=sample.value)
        texts = {
            f"{sample.form}, alone": f"it printed {sample.value} and went on",
            f"{sample.form}, as the rule's text": f"before\n{sample.text}\nafter",
            f"{sample.form}, beside a telling name": named,
        }
        hidden = [counts.try_text(group, sample.rule, text, [sample.value]) for group, text in texts.items()]
        found[sample.rule] = any(hidden) or found.get(sample.rule, False)
    return counts, [rule for rule, was_found in found.items() if not was_found]


def measure_places() -> HiddenCounts:
    """Return the counts of places, and of ordinary lines that were left as they are."""
    counts = HiddenCounts()
    for place, text, credentials in render_places():
        counts.try_text("places", place, f"before\n{text}\nafter", credentials)
    for line in list_ordinary_lines():
        counts.tried["ordinary lines changed"] += 1
        if redact(line) != line:
            counts.hidden["ordinary lines changed"] += 1
            counts.missed["ordinary lines changed"].append(f"{line!r} became {redact(line)!r}")
    return counts


def measure_logs(folder: Path) -> LogCounts:
    """Redact every string below a folder and count."""
    counts = LogCounts()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".toml"):
        counts.files += 1
        for text in read_strings(path):
            started = time.process_time()
            spans = find_credentials(text)
            counts.seconds += time.process_time() - started
            counts.strings += 1
            counts.lines += text.count("\n") + 1
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


def _print_hidden(counts: HiddenCounts, show: int) -> None:
    for group, tried in counts.tried.items():
        print(f"{group:>42}  {counts.hidden[group]} of {tried} ({counts.hidden[group] / tried:.1%})")
    for group, missed in counts.missed.items():
        for text in missed[:show]:
            print(f"  {group}: {text[:240]}")


def main() -> None:
    """Print a table, what was missed, the hits in logs, and the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="logs without credentials")
    parser.add_argument("--rules", type=Path, help="a gitleaks configuration")
    parser.add_argument("--show", type=int, default=20, help="how many misses and distinct hits to show of each group")
    options = parser.parse_args()
    report: dict[str, Any] = {}
    measured = [measure_places()]
    if options.rules:
        of_rules, never = measure_rules(options.rules)
        measured.append(of_rules)
        report["rules never hidden"] = never
        print(f"{'rules never hidden':>42}  {len(never)}: {' '.join(never)}")
    for counts in measured:
        _print_hidden(counts, options.show)
        report |= {group: [counts.hidden[group], tried] for group, tried in counts.tried.items()}
    if options.folder:
        logs = measure_logs(options.folder)
        report |= logs.to_report()
        for name, figure in logs.to_report().items():
            print(f"{name:>42}  {figure}")
        for (name, kind, before, after), count in logs.hits.most_common(options.show):
            print(f"{count:6}x {name}: {before!r} [{kind}] {after!r}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
