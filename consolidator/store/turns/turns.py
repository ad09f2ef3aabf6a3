"""The steps of a turn: appends that change the session's marks and its money in the same statement.

`events.append` runs them, and raises AppendRefused where a condition of their own does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from consolidator.database.jsonb import as_jsonb, escape, text_array
from consolidator.store.log.events import AppendStatement
from consolidator.store.queries import load

_SQL = load("turns/turns", "turns/spend", "turns/context")


def message(driver_errors: Sequence[str], holder: tuple[str, datetime] | None) -> AppendStatement:
    """Append a person's message for a harness to answer; refused if the session has ended or is not driven here.

    An error that begins with one of `driver_errors` is cleared. A `holder` (owner, until) acquires the session if
    nobody holds it; the detail of the result says whether.
    """
    owner, until = holder or (None, None)
    values = {"driver_errors": text_array(driver_errors), "owner": owner, "until": until}
    return AppendStatement(_SQL["append_message"], values, has_conditions=True)


def begin_call(reserve: Mapping[str, Any], fold: Mapping[str, Any] | None) -> AppendStatement:
    """Append the start of a model call and reserve its money; refused if it would pass a cap.

    A `fold` of the session's past, as `save_view` takes it, is stored with it.
    """
    values = {**reserve, "fold": None if fold is None else as_jsonb(dict(fold))}
    return AppendStatement(_SQL["begin_call"], values, has_conditions=True)


def end_call(
    call_id: str,
    *,
    cost: Decimal | None,
    tokens: tuple[int, int, int] | None,
    requested: Mapping[str, Any],
    turns: int,
    chunk: tuple[str, int, int, str] | None = None,
) -> AppendStatement:
    """Append the end of a model call and settle it: its (input, cached, output) tokens, with None its reserve.

    `requested` waits for a person; `turns` end with it. The `chunk` (message, seq, start, text) before it is its last.
    """
    used = (None, 0, None) if tokens is None else tokens
    values = {
        "call": call_id,
        "cost": cost,
        "requested": as_jsonb(dict(requested)),
        "turns": turns,
        **dict(zip(("input", "cached", "output"), used, strict=True)),
    }
    if chunk is not None:
        message, seq, started, text = chunk
        values |= {"message": message, "chunk": seq, "started": started, "delta": escape(text)}
    return AppendStatement(_SQL["end_call" if chunk is None else "end_answer"], values)


def results(
    *, requested: Mapping[str, Any], settled: Sequence[str], patches: Sequence[Mapping[str, Any]]
) -> AppendStatement:
    """Append results of calls, with what waits for a person from now on and what no longer does."""
    patch = {name: value for change in patches for name, value in change.items()}
    values = {"requested": as_jsonb(dict(requested)), "settled": text_array(settled), "patch": as_jsonb(patch)}
    return AppendStatement(_SQL["append_results"], values)
