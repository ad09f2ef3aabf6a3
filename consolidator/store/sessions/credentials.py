"""Credentials by name and by the SHA-256 of their token; the token itself is never here."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import datetime

from consolidator.database.partitions import Connection
from consolidator.models.credential import CredentialRow
from consolidator.store.queries import Rows, fetch_one, fetch_value, load, row_values

_SQL = load("sessions/credentials")


@dataclass(frozen=True, slots=True)
class _FoundCredential(CredentialRow):
    token_hash: bytes


async def add(conn: Connection, credential: CredentialRow, token_hash: bytes) -> bool:
    """Add a credential; False if the name is taken, also by a revoked one."""
    values = row_values(credential) | {"token_hash": token_hash}
    return await fetch_value(conn, _SQL["add"], values) is not None


async def revoke(conn: Connection, name: str, *, now: datetime) -> bool:
    """Revoke a credential from now on; False if there is none of this name."""
    return await fetch_value(conn, _SQL["revoke"], {"name": name, "now": now}) is not None


async def find(conn: Connection, token_hash: bytes) -> CredentialRow | None:
    """Return the credential of a token, also one that is revoked or has expired."""
    credential = await fetch_one(conn, _FoundCredential, _SQL["find"], {"token_hash": token_hash})
    return (
        credential if credential is not None and hmac.compare_digest(bytes(credential.token_hash), token_hash) else None
    )


list_all = Rows[CredentialRow](CredentialRow, _SQL["list"])
