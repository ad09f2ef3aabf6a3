"""The steps of a turn: appends that change the session's marks and its money in the same statement.

`events.append` runs them, and raises AppendRefused where a condition of their own does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from consolidator.database.jsonb import as_jsonb
from consolidator.store.log.events import AppendStatement
from consolidator.store.queries import load

_SQL = load("turns/turns", "turns/spend", "turns/context")


def message(driver_errors: Sequence[str]) -> AppendStatement:
    """Append a person's message for a harness to answer; refused if the session has ended or is not driven here.

    An error that begins with one of `driver_errors` is cleared.
    """
    return AppendStatement(_SQL["append_message"], {"driver_errors": list(driver_errors)}, has_conditions=True)


def begin_call(reserve: Mapping[str, Any], fold: Mapping[str, Any] | None) -> AppendStatement:
    """Append the start of a model call and reserve its money; refused if it would pass a cap.

    A `fold` of the session's past, as `save_view` takes it, is stored with it.
    """
    values = {**reserve, "fold": None if fold is None else as_jsonb(dict(fold))}
    return AppendStatement(_SQL["begin_call"], values, has_conditions=True)


def end_call(
    call_id: str, *, cost: Decimal | None, tokens: tuple[int, int, int] | None, requested: Mapping[str, Any], turns: int
) -> AppendStatement:
    """Append the end of a model call and settle it: its (input, cached, output) tokens, with None its reserve.

    `requested` waits for a person; `turns` end with it.
    """
    used = (None, 0, None) if tokens is None else tokens
    values = {
        "call": call_id,
        "cost": cost,
        "requested": as_jsonb(dict(requested)),
        "turns": turns,
        **dict(zip(("input", "cached", "output"), used, strict=True)),
    }
    return AppendStatement(_SQL["end_call"], values)


def results(
    *, requested: Mapping[str, Any], settled: Sequence[str], patches: Sequence[Mapping[str, Any]]
) -> AppendStatement:
    """Append results of calls, with what waits for a person from now on and what no longer does."""
    patch = {name: value for change in patches for name, value in change.items()}
    values = {"requested": as_jsonb(dict(requested)), "settled": list(settled), "patch": as_jsonb(patch)}
    return AppendStatement(_SQL["append_results"], values)
