"""Credentials by name and by the SHA-256 of their token, which is never here; and the answers to their requests."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import datetime

from consolidator.database.partitions import Connection
from consolidator.models.credential import UNDER_WAY, ApiRequestRow, CredentialRow
from consolidator.store.queries import Attempt, FirstRow, Rows, Statement, Value, fetch_one, load

_SQL = load("sessions/credentials")


@dataclass(frozen=True, slots=True)
class _FoundCredential(CredentialRow):
    token_hash: bytes


async def find(conn: Connection, token_hash: bytes) -> CredentialRow | None:
    """Return the credential of a token, also one that is revoked or has expired."""
    credential = await fetch_one(conn, _FoundCredential, _SQL["find"], {"token_hash": token_hash})
    return (
        credential if credential is not None and hmac.compare_digest(bytes(credential.token_hash), token_hash) else None
    )


list_all = Rows[CredentialRow](CredentialRow, _SQL["list"])
add = Attempt[CredentialRow, bytes](_SQL["add"], "* token_hash")  # False if the name is taken, also by a revoked one
revoke = Attempt[str](_SQL["revoke"], "name")


find_request = FirstRow[ApiRequestRow, str, str, datetime](ApiRequestRow, _SQL["find_request"], "credential key since")
try_lock_request = Value[bool, str, str](_SQL["lock"], "credential key")
remove_under_way = Statement[str, str, str](_SQL["remove_under_way"], "credential key owner", status=UNDER_WAY)
add_request = Statement[ApiRequestRow](_SQL["add_request"], "*")
