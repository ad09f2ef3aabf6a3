"""Streamed calls of a model's server: as the openai client makes them, less its models of the request and of a piece.

These took most of a step. The errors are that client's, so that nobody needs to know others.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx2  # takes a while, so it is imported only where a model is asked
    import openai

_LINE_END = re.compile(rb"\r\n|\n|\r")
_DONE = b"[DONE]"
_DRAIN_SECONDS = 0.1  # that a server has to end what it called done: only then its connection can be used again


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """Where streams are asked for, and how: to make an address and headers anew took longer than to send them."""

    http: httpx2.AsyncClient
    url: httpx2.URL
    headers: httpx2.Headers
    timeouts: dict[str, float | None]  # a reader of the stream has one of its own for what is sent and read

    @classmethod
    def of(cls, client: openai.AsyncOpenAI, http: httpx2.AsyncClient) -> StreamTarget:
        """Return what the openai client would do with an HTTP client, without what it says of this machine."""
        import httpx2

        headers = {name: value for name, value in client.default_headers.items() if not name.startswith("X-Stainless")}
        texts = {name: value for name, value in headers.items() if isinstance(value, str)}
        timeouts = httpx2.Timeout(None, connect=http.timeout.connect, pool=http.timeout.pool)
        url = client.base_url.join("chat/completions")
        request = http.build_request("POST", url, headers=texts | client.auth_headers)
        del request.headers["content-length"]
        return cls(http, url, request.headers, timeouts.as_dict())


async def post(target: StreamTarget, body: bytes) -> httpx2.Response:
    """Send JSON and return the response, not read yet; raise the openai client's error for any but a success."""
    import httpx2
    import openai

    extensions = {"timeout": target.timeouts}
    request = httpx2.Request("POST", target.url, content=body, headers=target.headers, extensions=extensions)
    try:
        response = await target.http.send(request, stream=True)
        if response.is_success:
            return response
        async with aclosing(response):
            text = (await response.aread()).decode("utf-8", "replace")
    except _connection_errors() as error:
        raise _connection_error(error, request) from error
    content: Any = text
    with suppress(ValueError, RecursionError):
        content = json.loads(text)
    told = content.get("error", content) if isinstance(content, dict) else content
    raise openai.APIStatusError(f"Error code: {response.status_code} - {content}", response=response, body=told)


async def read_events(response: httpx2.Response) -> AsyncIterator[Any]:
    """Yield the JSON of each event of a stream; raise the openai client's errors, and ValueError for other data."""
    import openai

    parts = response.aiter_raw()
    try:
        async with aclosing(_read_data(parts)) as texts:  # what is left to the collector costs a task
            async for text in texts:
                if text.startswith(_DONE):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_DRAIN_SECONDS):
                            async for _ in parts:
                                pass
                    return
                data = json.loads(text.decode())
                if isinstance(data, dict) and (error := data.get("error")):
                    message = error.get("message") if isinstance(error, dict) else None
                    message = message if isinstance(message, str) else "An error occurred during streaming"
                    raise openai.APIError(message, response.request, body=error)
                yield data
    except _connection_errors() as error:
        raise _connection_error(error, response.request) from error


async def _read_data(parts: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the data of each server-sent event; what else a server says there is left out."""
    rest, data, follows_return = bytearray(), list[bytes](), False
    async for part in parts:
        rest += part[1:] if follows_return and part[:1] == b"\n" else part  # of one line end
        follows_return = part[-1:] == b"\r"
        if b"\n" not in part and b"\r" not in part:
            continue
        *lines, last = _LINE_END.split(rest)
        rest = bytearray(last)
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data)
                data.clear()


def _connection_errors() -> tuple[type[Exception], ...]:
    """Return what may be raised where a connection breaks: HTTP's own client lets errors of TLS through."""
    import anyio
    import httpx2

    return httpx2.RequestError, ssl.SSLError, anyio.EndOfStream


def _connection_error(error: Exception, request: httpx2.Request) -> openai.APIConnectionError:
    import httpx2
    import openai

    kind = openai.APITimeoutError if isinstance(error, httpx2.TimeoutException) else openai.APIConnectionError
    return kind(request=request)
