"""Steers and the ends of tasks, from which the outcome of a steer is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from consolidator.database.partitions import Connection
from consolidator.models.steer import SteerCounts, SteerRow, TaskOutcomeRow
from consolidator.store.queries import OneRow, execute, execute_each, load, row_values

_SQL = load("facts/steering")


async def save(
    conn: Connection, steers: Sequence[SteerRow], outcomes: Sequence[TaskOutcomeRow], *, run_id: str
) -> None:
    """Store steers and ends of tasks; the facts of candidates whose steer has another outcome now are made again."""
    await execute_each(conn, _SQL["save_steer"], [row_values(row) | {"run_id": run_id} for row in steers])
    await execute_each(conn, _SQL["save_task_outcome"], [row_values(row) | {"run_id": run_id} for row in outcomes])
    if outcomes:
        ended = {name: [getattr(row, name) for row in outcomes] for name in ("session_id", "task", "seq")}
        await execute(conn, _SQL["renew_steers"], ended | {"run_id": [run_id] * len(outcomes)})
    if steers or outcomes:
        values = {
            "steer_sessions": [row.session_id for row in steers],
            "steer_seqs": [row.seq for row in steers],
            "task_sessions": [row.session_id for row in outcomes],
            "tasks": [row.task for row in outcomes],
        }
        await execute(conn, _SQL["reconcile_steered"], values)


async def delete(conn: Connection, session: str, *, after: int) -> int:
    """Delete what was read of a session's events after a seq; return the number of deleted rows."""
    values = {"session": session, "after": after}
    return await execute(conn, _SQL["delete_steers"], values) + await execute(conn, _SQL["delete_outcomes"], values)


sum_since = OneRow[SteerCounts, datetime](SteerCounts, _SQL["sums"], "since")
