"""Credentials for other programs: made, listed and revoked by the owner; looked up for each request."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, timedelta
from pathlib import Path
from typing import cast

from consolidator.database import Database
from consolidator.database.jsonb import escape
from consolidator.errors import NotFound, UsageError
from consolidator.models.credential import CredentialRow
from consolidator.models.principal import check_name
from consolidator.models.viewer import OWNER, OWNER_NAME, SCOPES, Scope, Viewer
from consolidator.store.sessions import credentials
from consolidator.store.sessions.projects import resolve_project

TOKEN_FILE = "token"


@dataclass(frozen=True, slots=True)
class BearerTokens:
    """Knows whose a token is."""

    owners: str
    database: Database

    async def authorize(self, headers: Iterable[tuple[bytes, bytes]]) -> Viewer | None:
        """Return who a request's token belongs to: OWNER for the owner's; None without one right token."""
        token = _read_header(headers)
        if token is None:
            return None
        if hmac.compare_digest(token, self.owners.encode()):
            return OWNER
        return await find_viewer(self.database, token.decode("latin-1"))

    async def explain(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Return why the token of a request is not taken, where it was right once: it has expired or was revoked."""
        token = _read_header(headers)
        return None if token is None else await explain_refusal(self.database, token.decode("latin-1"))


def _read_header(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the one bearer token of a request; None without exactly one."""
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1 or not values[0].startswith(b"Bearer "):
        return None
    return values[0].removeprefix(b"Bearer ")


def load_token(home: Path) -> str:
    """Return the owner's token of a data directory; create it at first use, readable only by its owner."""
    path = home / TOKEN_FILE
    try:
        home.mkdir(parents=True, exist_ok=True)
        return _read_token(path) or _create_token(path)
    except OSError as error:
        raise UsageError(f"cannot keep the token of the HTTP interface in {path}: {error.strerror}") from error


def prove_token(token: str, challenge: str) -> str:
    """Return what shows a program on this machine that the service has the owner's token, without telling it."""
    return sign_with_token(token, f"service {challenge}")


def sign_with_token(token: str, text: str) -> str:
    """Return a signature of a text that only who has the token can make."""
    return hmac.new(token.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _read_token(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()  # an empty file has no token
    except FileNotFoundError:
        return ""


def _create_token(path: Path) -> str:
    """Create the token file atomically; return the token, or the one that another process created first."""
    descriptor, part_file = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        try:
            os.link(part_file, path)
        except FileExistsError:
            if not _read_token(path):
                os.replace(part_file, path)
    finally:
        Path(part_file).unlink(missing_ok=True)
    return _read_token(path)


_RESERVED = (OWNER_NAME, "import")
_NEW_TOKEN = "the machine's owner makes another one with `consolidator token create`"


def parse_scopes(scopes: Collection[str]) -> frozenset[Scope]:
    """Return scopes by their names. Raises UsageError for none or an unknown one."""
    if not scopes or not set(scopes) <= set(SCOPES):
        raise UsageError(f"a credential needs one or more of the scopes {', '.join(SCOPES)}")
    return cast(frozenset[Scope], frozenset(scopes))


def check_narrowing(**values: str | None) -> None:
    """Raise UsageError for an agent, project or peer that no session can have."""
    for what, value in values.items():
        if value is not None and (not value.strip() or escape(value) != value):
            raise UsageError(f"{value!r} is no {what}")


async def create_credential(
    database: Database,
    name: str,
    scopes: Collection[str],
    *,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    expires_in: timedelta | None = None,
) -> str:
    """Create a credential and return its token, which is shown only now; without `expires_in` it never expires.

    A project may be named by the last part of its path; the credential is for the whole path, whatever comes later.
    Raises UsageError for an invalid name, scope or value, and for a name that was used before.
    """
    if check_name(name) in _RESERVED:
        raise UsageError(f"{name!r} is the name of the machine's own records")
    check_narrowing(agent=agent, project=project, peer=peer)
    granted = parse_scopes(scopes)
    if "admin" in granted and any(value is not None for value in (agent, project, peer)):
        raise UsageError("the scope admin is for everything: a credential that has it takes no agent, project or peer")
    if expires_in is not None and expires_in <= timedelta(0):
        raise UsageError("a credential that expires is valid for some time, such as 30d")
    token = f"cns_{secrets.token_urlsafe(32)}"
    async with database.transaction() as conn:
        project = await resolve_project(conn, project, agent=agent, peer=peer)
        now = database.clock.now()
        expires_at = None if expires_in is None else now + expires_in
        credential = CredentialRow(name, sorted(granted), agent, project, peer, now, None, expires_at)
        added = await credentials.add(conn, credential, _hash_token(token))
    if not added:
        raise UsageError(f"there is or was a credential named {name!r}: its records keep that name")
    return token


async def make_viewer(
    database: Database,
    name: str,
    scopes: frozenset[Scope],
    *,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
) -> Viewer:
    """Return the viewer that a credential of these values would be; its project is looked up once, now."""
    async with database.connection() as conn:
        return Viewer(name, scopes, agent, await resolve_project(conn, project, agent=agent, peer=peer), peer)


async def list_credentials(database: Database) -> list[CredentialRow]:
    """Return every credential, also those that are revoked or have expired."""
    async with database.connection() as conn:
        return await credentials.list_all(conn)


async def revoke_credential(database: Database, name: str) -> None:
    """Revoke a credential at once. Raises NotFound."""
    async with database.transaction() as conn:
        if not await credentials.revoke(conn, name, now=database.clock.now()):
            raise NotFound(f"no credential is named {name!r}; `consolidator token list` shows them")


def open_tokens(database: Database, home: Path) -> BearerTokens:
    """Return what knows the owner's token, in a data directory, and those of credentials."""
    return BearerTokens(load_token(home), database)


async def find_viewer(database: Database, token: str) -> Viewer | None:
    """Return what a token may do; None for a wrong, revoked or expired one."""
    async with database.connection() as conn:
        credential = await credentials.find(conn, _hash_token(token))
    if credential is None or credential.status(database.clock.now()) != "valid":
        return None
    scopes = cast(frozenset[Scope], frozenset(credential.scopes) & frozenset(SCOPES))
    return Viewer(credential.name, scopes, credential.agent, credential.project, credential.peer)


async def explain_refusal(database: Database, token: str) -> str | None:
    """Return why a token that was right once is not taken; None for one that is right, or that never was."""
    async with database.connection() as conn:
        credential = await credentials.find(conn, _hash_token(token))
    status = "valid" if credential is None else credential.status(database.clock.now())
    if credential is None or status == "valid":
        return None
    at = credential.revoked_at if status == "revoked" else credential.expires_at
    since = "" if at is None else f" at {at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    what = "was revoked" if status == "revoked" else "expired"
    return f"the bearer token {what}{since}; {_NEW_TOKEN}"


def _hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
