"""Writes an answer as lines within a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from consolidator.memory.recall.block import estimate_tokens

MAX_LINE_CHARS = 600


def fit_lines(lines: Sequence[str], token_budget: int) -> str:
    """Return the first lines that fit into a budget; the last line then says how many are left out.

    A line stays one line of at most 600 characters, whatever it holds.
    """
    tidy = [_one_line(line) for line in lines]
    if estimate_tokens("\n".join(tidy)) <= token_budget:
        return "\n".join(tidy)
    shown: list[str] = []
    left = token_budget - estimate_tokens(_left_out(len(tidy)))
    for line in tidy:
        left -= estimate_tokens(line + "\n")
        if left < 0:
            break
        shown.append(line)
    return "\n".join([*shown, _left_out(len(tidy) - len(shown))])


def _one_line(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip(" "))]
    flat = indent + " ".join(line.split())
    return flat if len(flat) <= MAX_LINE_CHARS else flat[: MAX_LINE_CHARS - 1] + "…"


def _left_out(count: int) -> str:
    return f"({count} more left out: ask more narrowly, or with a larger token_budget)"
