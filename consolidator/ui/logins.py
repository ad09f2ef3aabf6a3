"""Who is logged in at the page: one-time links, the cookies they are changed for, and the tokens of forms.

A link is signed with the owner's token, which no program sends to a port that may be another one's.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.credentials import sign_with_token

LINK_SECONDS = 300.0  # a link that nobody opened is void then
LOGIN_SECONDS = 7 * 86_400.0
MAX_LOGINS = 256  # the oldest go first
_MAX_USED = 4096  # codes that are remembered as used; beyond it none is accepted until some are void


@dataclass(frozen=True, slots=True)
class Login:
    """One logged-in browser."""

    viewer: Viewer
    form_token: str  # that every form carries, against requests that other pages send
    ends_at: float  # seconds of the monotonic clock

    def is_form_token(self, token: str) -> bool:
        """Tell whether a form came from a page of this login."""
        return hmac.compare_digest(self.form_token.encode(), token.encode("utf-8", "surrogatepass"))


def make_code(token: str) -> str:
    """Return the code of a new link, which whoever can read the owner's token can make."""
    unsigned = f"{int(time.time() + LINK_SECONDS)}.{secrets.token_urlsafe(16)}"
    return f"{unsigned}.{sign_with_token(token, f'link {unsigned}')}"


@dataclass(slots=True)
class Logins:
    """Logins of this process, which end with it; cookies are kept as hashes only."""

    token: str  # the owner's
    wall_clock: Callable[[], float] = time.time
    clock: Callable[[], float] = time.monotonic
    _used: dict[str, float] = field(default_factory=dict)  # codes, and when each is void
    _logins: dict[bytes, Login] = field(default_factory=dict)

    def log_in(self, code: str) -> str | None:
        """Return the cookie of a new login in exchange for a link's code; None for a used, void or wrong one."""
        unsigned, _, signature = code.rpartition(".")
        if not hmac.compare_digest(
            sign_with_token(self.token, f"link {unsigned}").encode(), signature.encode("utf-8", "replace")
        ):
            return None
        void_at = float(unsigned.partition(".")[0])
        self._used = {used: until for used, until in self._used.items() if until > self.wall_clock()}
        if void_at <= self.wall_clock() or code in self._used or len(self._used) >= _MAX_USED:
            return None
        self._used[code] = void_at
        cookie = secrets.token_urlsafe(32)
        self._logins[_hash(cookie)] = Login(OWNER, secrets.token_urlsafe(32), self.clock() + LOGIN_SECONDS)
        while len(self._logins) > MAX_LOGINS:
            del self._logins[next(iter(self._logins))]
        return cookie

    def find(self, cookie: str) -> Login | None:
        """Return the login of a cookie; None where there is none, or it has ended."""
        login = self._logins.get(_hash(cookie))
        return login if login is not None and login.ends_at > self.clock() else None

    def log_out(self, cookie: str) -> None:
        """End the login of a cookie."""
        self._logins.pop(_hash(cookie), None)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
