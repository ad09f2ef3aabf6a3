"""What was told of the nights so far: the latest night that was told, up to when, and what waited then."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime

from consolidator.database.partitions import Connection
from consolidator.store.queries import Value, execute, fetch_value, load

_SQL = load("nights/night_digest")


@dataclass(frozen=True, slots=True)
class DigestState:
    """How far digests have got; one row of a database."""

    run: str = ""  # the latest night that was claimed: its digest was sent, is being sent, or was lost in a crash
    until: str | None = None  # ISO 8601: what was learned before was told
    waiting: dict[str, int] = field(default_factory=dict)  # by kind: how much waited when it was told

    @property
    def begin(self) -> datetime | None:
        """Since when nothing was told; None before the first digest."""
        return None if self.until is None else datetime.fromisoformat(self.until)


async def claim(conn: Connection, run_id: str) -> DigestState | None:
    """Claim the digest of a night; return how far digests had got, or None where it or a later one was claimed.

    Runs are compared by id, which grows with the time of their start. The caller commits the claim.
    """
    await execute(conn, _SQL["make"])
    state = await _lock(conn)
    if state.run >= run_id:
        return None
    await _store(conn, DigestState(run_id, state.until, state.waiting))
    return state


async def mark_told(conn: Connection, *, until: datetime, waiting: dict[str, int]) -> None:
    """Store up to when everything was told, and what waited then."""
    state = await _lock(conn)
    await _store(conn, DigestState(state.run, until.isoformat(), waiting))


async def _lock(conn: Connection) -> DigestState:
    return DigestState(**json.loads(await fetch_value(conn, _SQL["lock"])))


async def _store(conn: Connection, state: DigestState) -> None:
    await execute(conn, _SQL["store"], {"value": json.dumps(asdict(state)).encode()})


find_previous_night = Value[datetime, str](_SQL["previous_night"])
