"""Passes requests of OpenAI's and Anthropic's APIs on to their servers, and records the exchanges it can read.

A reply goes on as it comes; only its last piece waits until the exchange is in the log, so that what a client has whole
is never lost. Credentials go through in their headers and are kept nowhere. What is not a chat completion, a response
or a message (models, embeddings) passes through unread.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from consolidator.errors import ConsolidatorError, OverBudget
from consolidator.formats.common.drafts import object_of
from consolidator.formats.common.json_parsing import parse_json
from consolidator.formats.exchange import Message, ReplyReader, read_messages
from consolidator.formats.openai.responses import continued_id
from consolidator.service.log.exchanges import ExchangeLog
from consolidator.service.request_limits import is_called_rightly

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger("consolidator.proxy")
MAX_REQUEST_BYTES = 32 * 1024 * 1024
DEFAULT_OUTPUT_TOKENS = 8192  # that a call is reserved for where it names no limit
CONNECT_SECONDS, READ_SECONDS = 10.0, 600.0
MAX_BRIEFS = 1000  # of conversations under way
_BYTES_PER_TOKEN = 3  # of a request, at least: what is reserved is too much rather than too little
_CHAT, _RESPONSES, _MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
Recording = Callable[[ReplyReader], Awaitable[None]]
_HOP_BY_HOP = {
    "connection", "content-length", "host", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "accept-encoding",
}  # fmt: skip
_NOT_PASSED = frozenset(name.encode() for name in _HOP_BY_HOP)


@dataclass(slots=True)
class Proxy:
    """Where requests go, and what is recorded of them."""

    exchanges: ExchangeLog
    client: httpx2.AsyncClient
    openai: str
    anthropic: str
    tells_brief: bool
    hosts: Collection[str] = ()
    _briefs: dict[str | None, str] = field(default_factory=dict)  # by session: it stays the same in one conversation

    async def answer(self, request: Request) -> Response:
        """Answer a request as the server behind does."""
        if not is_called_rightly(request.headers, self.hosts):
            return _refuse(421, "this host is not served here")
        content = await _read_body(request)
        if content is None:
            return _refuse(413, f"a request of more than {MAX_REQUEST_BYTES} bytes")
        path = request.url.path
        is_anthropic = path.startswith(_MESSAGES) or "anthropic-version" in request.headers
        body = _load(content) if request.method == "POST" and path in (_CHAT, _RESPONSES, _MESSAGES) else None
        try:
            if body is None or not (messages := read_messages(body)):
                sent = await self._send(request, content, is_anthropic=is_anthropic)
                return _forward(sent, _pass_on(sent))
            return await self._exchange(request, content, body, messages, is_anthropic=is_anthropic)
        except OverBudget as error:
            return _refuse(402, str(error))
        except ConsolidatorError as error:
            return _refuse(503, f"the exchange cannot be recorded, so it was not made: {error}")
        except OSError as error:
            return _refuse(502, f"the model's server cannot be reached: {error}")

    async def _exchange(
        self, request: Request, content: bytes, body: dict[str, Any], messages: list[Message], *, is_anthropic: bool
    ) -> Response:
        model = str(body.get("model") or "")
        session_id, is_unsent = await self.exchanges.begin(messages)
        if self.tells_brief and (text := await self._load_brief(session_id)):
            content = json.dumps(_with_brief(body, text, is_anthropic=is_anthropic)).encode()
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or body.get("max_output_tokens")
        output = limit if isinstance(limit, int) and limit > 0 else DEFAULT_OUTPUT_TOKENS
        call_id = await self.exchanges.reserve(model, len(content) // _BYTES_PER_TOKEN, output)
        sent = await self._send(request, content, is_anthropic=is_anthropic)
        if sent.status_code != 200:
            await self.exchanges.settle(call_id, model, None)
            return _forward(sent, _pass_on(sent))

        recorded_in = ""

        async def record(reader: ReplyReader) -> None:
            nonlocal recorded_in
            await self.exchanges.settle(call_id, model, reader.usage)
            recorded_in = await self.exchanges.finish(session_id, messages, reader.message, model)

        async def mark_sent(reader: ReplyReader) -> None:
            if is_unsent:
                await self.exchanges.mark_sent(messages, reader.message)
            if reader.response_id is not None:
                conversation = None if body.get("previous_response_id") else continued_id(body)
                name = conversation or reader.response_id
                await self.exchanges.mark_response(recorded_in, name, is_conversation=conversation is not None)

        is_stream = sent.headers.get("content-type", "").startswith("text/event-stream")
        pieces = _pass_on(sent, ReplyReader(is_stream), record, mark_sent)
        return _forward(sent, pieces)

    async def _load_brief(self, session_id: str | None) -> str:
        if session_id is None:
            return await self.exchanges.start_brief()
        if session_id not in self._briefs:
            if len(self._briefs) >= MAX_BRIEFS:
                self._briefs.pop(next(iter(self._briefs)))
            self._briefs[session_id] = await self.exchanges.start_brief()
        return self._briefs[session_id]

    async def _send(self, request: Request, content: bytes, *, is_anthropic: bool) -> httpx2.Response:
        import httpx2

        server = self.anthropic if is_anthropic else self.openai
        url = server.rstrip("/") + request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP]
        headers.append(("accept-encoding", "identity"))
        try:
            prepared = self.client.build_request(request.method, url, headers=headers, content=content)
            return await self.client.send(prepared, stream=True)
        except httpx2.HTTPError as error:
            raise OSError(type(error).__name__) from error


def create_app(proxy: Proxy) -> Starlette:
    """Return the application: every path below /v1."""
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    return Starlette(routes=[Route("/v1/{path:path}", proxy.answer, methods=methods)])


def create_client() -> httpx2.AsyncClient:
    """Return the client that asks the models' servers; it follows no redirect, which could carry a key elsewhere."""
    import httpx2

    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # or one client's would go with another's requests
    return httpx2.AsyncClient(timeout=timeout, follow_redirects=False, cookies=cookies)


async def _pass_on(
    sent: httpx2.Response, reader: ReplyReader | None = None, record: Any = None, mark_sent: Any = None
) -> AsyncIterator[bytes]:
    """Yield a reply's pieces as they come; the one that makes it whole after the exchange is recorded."""
    try:
        waiting: list[bytes] = []
        async for piece in sent.aiter_raw():
            if reader is None or record is None:
                yield piece
                continue
            reader.feed(piece)
            if not reader.is_stream:
                waiting.append(piece)  # a whole reply comes at once
                continue
            if reader.is_finished:
                await record(reader)
                record = None
                yield piece
                await asyncio.shield(mark_sent(reader))  # its client may hang up now
                continue
            yield piece
        if reader is not None and record is not None:
            reader.close()
            if reader.is_finished:
                await record(reader)
            else:
                log.warning("a reply ended before it was whole, or could not be read: it is not recorded")
        for piece in waiting:
            yield piece
        if waiting and reader is not None and reader.is_finished:
            await mark_sent(reader)
    finally:
        await sent.aclose()


def _with_brief(body: dict[str, Any], text: str, *, is_anthropic: bool) -> dict[str, Any]:
    """Return a request with what memory tells; it is not recorded as anybody's words."""
    if is_anthropic:
        system = body.get("system")
        blocks = system if isinstance(system, list) else [{"type": "text", "text": system}] if system else []
        return {**body, "system": [*blocks, {"type": "text", "text": text}]}
    if "messages" not in body:
        own = body.get("instructions")
        return {**body, "instructions": f"{own}\n\n{text}" if isinstance(own, str) and own else text}
    messages = list(body["messages"])
    at = 1 if object_of(messages[0]).get("role") in ("system", "developer") else 0
    return {**body, "messages": [*messages[:at], {"role": "system", "content": text}, *messages[at:]]}


async def _read_body(request: Request) -> bytes | None:
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_REQUEST_BYTES:
            return None
    return bytes(content)


def _load(content: bytes) -> dict[str, Any] | None:
    try:
        body = parse_json(content)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _forward(sent: httpx2.Response, pieces: AsyncIterator[bytes]) -> Response:
    """Return an answer with its server's status and headers, of which one may stand there several times."""
    answer = StreamingResponse(pieces, sent.status_code)
    answer.raw_headers = [(name.lower(), value) for name, value in sent.headers.raw if name.lower() not in _NOT_PASSED]
    return answer


def _refuse(status: int, reason: str) -> JSONResponse:
    """Return an error in the form that clients of both APIs read."""
    error = {"type": "consolidator_proxy", "message": reason}
    return JSONResponse({"type": "error", "error": error}, status)
