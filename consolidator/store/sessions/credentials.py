"""Credentials by name and by the SHA-256 of their token; the token itself is never here."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from consolidator.database.partitions import Connection
from consolidator.models.credential import CredentialRow
from consolidator.store.queries import Rows, fetch_one, fetch_value, load

_SQL = load("sessions/credentials")


@dataclass(frozen=True, slots=True)
class _FoundCredential(CredentialRow):
    token_hash: bytes


async def add(
    conn: Connection,
    name: str,
    token_hash: bytes,
    *,
    scopes: Sequence[str],
    agent: str | None,
    project: str | None,
    peer: str | None,
    expires_at: datetime | None,
    now: datetime,
) -> bool:
    """Add a credential; False if the name is taken, also by a revoked one."""
    values = {"name": name, "token_hash": token_hash, "scopes": list(scopes), "expires_at": expires_at, "now": now}
    narrowing = {"agent": agent, "project": project, "peer": peer}
    return await fetch_value(conn, _SQL["add"], values | narrowing) is not None


async def revoke(conn: Connection, name: str, *, now: datetime) -> bool:
    """Revoke a credential from now on; False if there is none of this name."""
    return await fetch_value(conn, _SQL["revoke"], {"name": name, "now": now}) is not None


async def find(conn: Connection, token_hash: bytes) -> CredentialRow | None:
    """Return the credential of a token, also one that is revoked or has expired."""
    found = await fetch_one(conn, _FoundCredential, _SQL["find"], {"token_hash": token_hash})
    return found if found is not None and hmac.compare_digest(bytes(found.token_hash), token_hash) else None


list_all = Rows[CredentialRow](CredentialRow, _SQL["list"])
