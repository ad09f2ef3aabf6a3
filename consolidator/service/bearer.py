"""Bearer tokens of HTTP requests: the owner's, kept in a file of the data directory, and those of credentials."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from consolidator.errors import UsageError
from consolidator.service.viewer import OWNER, Viewer

TOKEN_FILE = "token"


@dataclass(frozen=True, slots=True)
class BearerTokens:
    """Knows whose a token is."""

    owners: str
    find_viewer: Callable[[str], Awaitable[Viewer | None]]
    find_refusal: Callable[[str], Awaitable[str | None]] | None = None  # why a token that was right once is not taken

    async def authorize(self, headers: Iterable[tuple[bytes, bytes]]) -> Viewer | None:
        """Return who a request's token belongs to: OWNER for the owner's; None without one right token."""
        token = _read_header(headers)
        if token is None:
            return None
        if hmac.compare_digest(token, self.owners.encode()):
            return OWNER
        return await self.find_viewer(token.decode("latin-1"))

    async def explain(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Return why the token of a request is not taken, where it was right once: it has expired or was revoked."""
        token = _read_header(headers)
        if token is None or self.find_refusal is None:
            return None
        return await self.find_refusal(token.decode("latin-1"))


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
