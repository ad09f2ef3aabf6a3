"""The door of the HTTP API: who asks, from which host, how often and how much, before anything else is looked at."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from consolidator.api import problems
from consolidator.api.problems import Problem, error_response, problem_response
from consolidator.llm.redaction.redact import format_redacted_traceback
from consolidator.models.viewer import Viewer
from consolidator.service.credentials import BearerTokens
from consolidator.service.request_limits import WorkPlaces, is_called_rightly, read_pieces, receive_again

BODY_BYTES = 4 * 1024 * 1024
IMPORT_BYTES = 256 * 1024 * 1024  # of a bundle
STREAMS = 64  # that one credential may have open
WRONG_TOKENS_PER_MINUTE = 60  # of one address that are looked at
DROPPED_BYTES = 4 * BODY_BYTES  # of a request that was refused as too large
WORKED_ON = 8  # requests at once
PREVIEWS = 4  # of those, that wait for a model to try a steer
PREVIEWS_EACH = 2  # of those, of one credential
WAITING = 64  # requests that wait to be worked on
WAIT_SECONDS = 10.0  # for that
REQUEST_SECONDS = 110.0  # until a request is given up; a compaction waits for a model
_BURST_SECONDS = 2.0  # of requests that may come at once
_MAX_BUCKETS = 10_000


@dataclass(slots=True)
class RequestRates:
    """Token buckets, one for each credential: `per_second` requests in the long run, twice that at once."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    size: float = 0.0  # of a bucket; by default what comes in two seconds
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)  # tokens, and when it had them

    def take(self, name: str) -> float:
        """Take a request's token; return 0, or after how many seconds there is one again."""
        wait = self.wait(name)
        if not wait:
            self.spend(name)
        return wait

    def wait(self, name: str) -> float:
        """Return after how many seconds there is a token; 0 for at once."""
        return max(0.0, 1 - self._fill(name)) / self.per_second

    def spend(self, name: str) -> None:
        """Take a token out of a bucket if it has one; the buckets that were used least recently are forgotten."""
        self._buckets[name] = max(0.0, self._fill(name) - 1), self.clock()
        self._buckets.move_to_end(name)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)

    def _fill(self, name: str) -> float:
        size = self.size or max(1.0, self.per_second * _BURST_SECONDS)
        tokens, filled_at = self._buckets.get(name, (size, 0.0))
        return min(size, tokens + (self.clock() - filled_at) * self.per_second)


class WrongTokens:
    """Counts wrong tokens by address, and remembers which were right: a flood of others keeps nobody out."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = RequestRates(per_minute / 60, clock, per_minute)  # by address
        self._right: OrderedDict[bytes, None] = OrderedDict()  # hashes

    def wait(self, address: str, token: bytes) -> float:
        """Return 0 where a token is to be looked at, or after how many seconds it is."""
        return 0.0 if _hash(token) in self._right else self._rates.wait(address)

    def add_right(self, token: bytes) -> None:
        """Remember a token that was right; those that came least recently are forgotten."""
        self._right[_hash(token)] = None
        self._right.move_to_end(_hash(token))
        if len(self._right) > _MAX_BUCKETS:
            self._right.popitem(last=False)

    def add_wrong(self, address: str) -> None:
        """Count a wrong token."""
        self._rates.spend(address)


def _hash(token: bytes) -> bytes:
    return hashlib.blake2b(token, digest_size=16).digest()


@dataclass(slots=True)
class Places:
    """Counts what each credential has open at once, such as streams."""

    most: int  # of one credential
    most_in_all: int | None = None
    _open: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many are open."""
        return sum(self._open.values())

    @contextmanager
    def opened(self, name: str) -> Iterator[bool]:
        """Count one while it is open; yield False, and count nothing, where there are too many."""
        is_full = self.most_in_all is not None and self.count >= self.most_in_all
        if is_full or self._open.get(name, 0) >= self.most:
            yield False
            return
        self._open[name] = self._open.get(name, 0) + 1
        try:
            yield True
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]


log = logging.getLogger("consolidator.api")
EVENT_STREAM = "text/event-stream"
JSON_LINES = "application/x-ndjson"
_CHALLENGE = 'Bearer realm="consolidator"'


@dataclass(slots=True)
class ApiGuard:
    """An ASGI application that lets authorized requests through, within bounds; it answers the others by itself.

    What it found out about a request is in its `state`: `viewer`, and `body` as it came; of JSON lines `body_file`,
    which holds them until the request is answered, and `body_hash`.
    """

    app: ASGIApp
    tokens: BearerTokens
    rates: RequestRates
    streams: Places
    wrong_tokens: WrongTokens
    stopping: asyncio.Event
    hosts: Collection[str] | None  # by which it may be called besides loopback's; None: any
    open_paths: Collection[str] = ()  # that need no token
    lines_paths: Collection[str] = ()  # whose bodies are JSON lines, kept in a file and not in memory
    lines_bytes: int = BODY_BYTES  # of such a body
    _places: WorkPlaces = field(default_factory=lambda: WorkPlaces(WORKED_ON, WAITING, WAIT_SECONDS, REQUEST_SECONDS))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Nothing that goes wrong leaves this function."""
        if scope["type"] != "http":
            return
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        path = str(scope["path"])
        try:
            await self._answer(scope, receive, note_start)
        except Exception as error:  # noqa: BLE001 - the edge: a request that fails must not end the service
            response = error_response(error, path)
            if response is None:
                log.error("%s %s failed: %s", scope["method"], path[:200], format_redacted_traceback(error))
                response = problem_response(problems.INTERNAL, problems.INTERNAL.title, path)
        else:
            return
        if not started and response.status_code == problems.TOO_LARGE.status:
            await _answer_and_drop(response, receive, send)
        elif not started:
            await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if not is_called_rightly(headers, self.hosts):
            raise Problem(problems.WRONG_HOST, "this service is not called by the name in the header Host")
        state = scope.setdefault("state", {})
        if scope["path"] in self.open_paths:
            await self.app(scope, receive, send)
            return
        viewer = state["viewer"] = replace(await self._authorize(scope, headers), may_abbreviate=False)
        wait = self.rates.take(viewer.name)
        if wait:
            raise Problem(problems.TOO_MANY, "this credential asks too often", {"retry-after": str(math.ceil(wait))})
        if self.stopping.is_set():
            raise Problem(problems.UNAVAILABLE, "the service is stopping")
        if EVENT_STREAM in headers.get("accept", ""):
            with self.streams.opened(viewer.name) as has_place:
                if not has_place:
                    raise Problem(problems.TOO_MANY_STREAMS, f"at most {self.streams.most} streams are open at once")
                state["streaming"] = True
                await self._read_and_answer(scope, headers, receive, send)
            return
        async with self._places.taken():
            await self._read_and_answer(scope, headers, receive, send)

    async def _authorize(self, scope: Scope, headers: Headers) -> Viewer:
        token = headers.get("authorization", "").encode("latin-1", "replace")
        address = str((scope.get("client") or ("",))[0])
        wait = self.wrong_tokens.wait(address, token) if token else 0.0
        if wait:
            raise Problem(problems.TOO_MANY, "too many wrong tokens", {"retry-after": str(math.ceil(wait))})
        viewer = await self.tokens.authorize(scope["headers"])
        if viewer is not None:
            self.wrong_tokens.add_right(token)
        elif token:
            self.wrong_tokens.add_wrong(address)
        if viewer is None:
            wrong = ', error="invalid_token"' if "authorization" in headers else ""
            refusal = await self.tokens.explain(scope["headers"]) or problems.UNAUTHORIZED.title
            raise Problem(problems.UNAUTHORIZED, refusal, {"www-authenticate": _CHALLENGE + wrong})
        return viewer

    async def _read_and_answer(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        if scope["path"] in self.lines_paths and scope["method"] == "POST":
            await self._spool_and_answer(scope, headers, receive, send)
            return
        body = b"".join([piece async for piece in read_pieces(headers, receive, BODY_BYTES)])
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if body:
            _check_type(kind, "application/json")
        scope["state"]["body"] = body
        await self.app(scope, receive_again(body, receive), send)

    async def _spool_and_answer(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        """Read a body of lines into a file that is gone with the request, however it ends."""
        viewer: Viewer = scope["state"]["viewer"]
        viewer.check_may("admin")  # before anything is stored for it
        _check_type(headers.get("content-type", "").partition(";")[0].strip().lower(), JSON_LINES)
        with tempfile.TemporaryFile(prefix="consolidator-body-") as file:
            digest = hashlib.sha256()
            async for piece in read_pieces(headers, receive, self.lines_bytes, "a bundle"):
                digest.update(piece)
                await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(file.flush)
            scope["state"] |= {"body": b"", "body_file": file, "body_hash": digest.digest()}
            await self.app(scope, receive_again(b"", receive), send)


def _check_type(kind: str, expected: str) -> None:
    if kind != expected:
        raise Problem(problems.UNSUPPORTED_TYPE, f"the body of this request is {expected}", {"accept": expected})


async def _answer_and_drop(response: Response, receive: Receive, send: Send) -> None:
    """Answer at once, then read much of what still comes and drop it: who still sends would not hear the answer."""
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    dropped, is_sending = 0, True
    while is_sending and dropped <= DROPPED_BYTES:
        message = await receive()
        dropped += len(message.get("body", b""))
        is_sending = message["type"] == "http.request" and message.get("more_body", False)
    await send({"type": "http.response.body", "body": b"", "more_body": False})
