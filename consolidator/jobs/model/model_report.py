"""Says in one line what a run asked of a model, what that took, and why it asked no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def model_line(report: Mapping[str, Any]) -> str | None:
    """Return the line for a run's report; None where the run had nothing to ask a model."""
    told = report.get("model", report.get("calls"))
    if isinstance(told, str):
        return f"model: {told}"
    if not isinstance(told, Mapping):
        return None
    taken = told["input_tokens"] + told["output_tokens"]
    parts = [f"{told['calls']} call{'s' if told['calls'] != 1 else ''}", f"{taken:,} tokens"]
    if told.get("cost_usd") is not None:
        parts.append(f"{told['cost_usd']} USD")
    if told["known"]:
        parts.append(f"{told['known']} answers known already")
    if told.get("awaited"):
        parts.append(f"{told['awaited']} answers awaited from batches")
    line = f"model{' ' + told['name'] if told.get('name') else ''}: {', '.join(parts)}"
    failed = sum(told["failures"].values())
    if failed:
        why, often = next(iter(told["failures"].items()))
        line += f"; {failed} failed, {often} of them: {why.removeprefix('failed: ')}"
    return f"{line}; stopped: {told['stopped']}" if told.get("stopped") else line
