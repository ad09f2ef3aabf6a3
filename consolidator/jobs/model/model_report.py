"""Formats what a run used of a model as one line for its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def model_line(report: Mapping[str, Any]) -> str | None:
    """Return the line about the model for a run's report; None if the run needed no model."""
    usage = report.get("model", report.get("calls"))
    if isinstance(usage, str):
        return f"model: {usage}"
    if not isinstance(usage, Mapping):
        return None
    tokens = usage["input_tokens"] + usage["output_tokens"]
    parts = [f"{usage['calls']} call{'s' if usage['calls'] != 1 else ''}", f"{tokens:,} tokens"]
    if usage.get("cost_usd") is not None:
        parts.append(f"{usage['cost_usd']} USD")
    if usage["known"]:
        parts.append(f"{usage['known']} answers reused")
    if usage.get("awaited"):
        parts.append(f"{usage['awaited']} answers pending in batches")
    line = f"model{' ' + usage['name'] if usage.get('name') else ''}: {', '.join(parts)}"
    failures = sum(usage["failures"].values())
    if failures:
        outcome, count = next(iter(usage["failures"].items()))
        line += f"; {failures} failed, {count} of them: {outcome.removeprefix('failed: ')}"
    return f"{line}; stopped: {usage['stopped']}" if usage.get("stopped") else line
