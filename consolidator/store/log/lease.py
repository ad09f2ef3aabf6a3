"""Who holds a session, and the marks a harness leaves on it: settled, delivered, pending, in need of a person.

Every write of a holder names its epoch; one that is over changes no row, and raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from consolidator.database.jsonb import dumps
from consolidator.database.partitions import Connection
from consolidator.errors import StaleEpoch
from consolidator.store.queries import Row, execute, load, row, rows

_SQL = load("log/lease")


async def acquire(
    conn: Connection, session: str, owner: str, *, now: datetime, until: datetime, gone: str | None = None
) -> Row | None:
    """Take a session up and return its row; None where somebody else, other than `gone`, holds it, or it is not."""
    values = {"id": session, "owner": owner, "now": now, "until": until, "gone": gone}
    return await row(conn, _SQL["acquire"], values)


async def holder(conn: Connection, session: str) -> Row | None:
    """Return who holds a session, until when, and how far its log goes."""
    return await row(conn, _SQL["holder"], {"id": session})


async def renew(conn: Connection, session: str, epoch: int, *, until: datetime) -> None:
    """Hold a session for longer; raise StaleEpoch where it is another's by now."""
    _fenced(await row(conn, _SQL["renew"], {"id": session, "epoch": epoch, "until": until}), session, epoch)


async def look(conn: Connection, session: str, epoch: int, *, seen: int, low: datetime) -> bool:
    """Return whether somebody steered after `seen`, at or after `low`; raise StaleEpoch where the lease is over."""
    found = await row(conn, _SQL["look"], {"id": session, "epoch": epoch, "seen": seen, "low": low})
    if found is None or not found["held"]:
        raise StaleEpoch(f"session {session}: epoch {epoch} is over")
    return bool(found["steered"])


async def release(conn: Connection, session: str, epoch: int) -> None:
    """Give a session back; nothing happens where it is another's by now."""
    await execute(conn, _SQL["release"], {"id": session, "epoch": epoch})


async def mark_settled(
    conn: Connection, session: str, epoch: int, *, settled: int, delivered: int, pending: bool, head: int
) -> int:
    """Give a session back, knowing its log up to `head`, and return its head; raise StaleEpoch where it is another's.

    What came after `head` leaves it pending.
    """
    values = {"settled": settled, "delivered": delivered, "pending": pending, "head": head}
    found = await row(conn, _SQL["settle"], {"id": session, "epoch": epoch, **values})
    return int(_fenced(found, session, epoch)["head"])


async def pend(conn: Connection, session: str) -> bool:
    """Say that something came for a harness to look at; False where the session has ended. After the append of it."""
    return await row(conn, _SQL["pend"], {"id": session}) is not None


async def pending(conn: Connection, *, limit: int = 1000) -> list[str]:
    """Return sessions that a wake has to look at, the longest quiet first."""
    return [r["id"] for r in await rows(conn, _SQL["pending"], {"limit": limit})]


async def heed(conn: Connection, session: str, *, asked: Mapping[str, Any], settled: Sequence[str] = ()) -> None:
    """Note calls that a person must say something about, and those that are settled."""
    values = {"id": session, "asked": Jsonb(dict(asked), dumps=dumps), "settled": list(settled)}
    await execute(conn, _SQL["heed"], values)


async def asking(conn: Connection, call: str) -> Row | None:
    """Lock and return the session in which a call waits for a person's word."""
    return await row(conn, _SQL["asking"], {"call": call})


async def attentive(conn: Connection, *, limit: int = 50) -> list[Row]:
    """Return sessions with calls that wait for a person's word, the latest first."""
    return await rows(conn, _SQL["attentive"], {"limit": limit})


async def patch(conn: Connection, session: str, change: Mapping[str, Any]) -> None:
    """Add a tool's change of the session's state to its row."""
    await execute(conn, _SQL["patch"], {"id": session, "patch": Jsonb(dict(change), dumps=dumps)})


async def count_turns(conn: Connection, session: str, turns: int) -> None:
    """Add to a session's turns."""
    await execute(conn, _SQL["totals"], {"id": session, "turns": turns})


def _fenced(found: Row | None, session: str, epoch: int) -> Row:
    if found is None:
        raise StaleEpoch(f"session {session}: epoch {epoch} is over")
    return found
