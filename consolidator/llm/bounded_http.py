"""Bounds for what a model's server may send: bytes of an answer, the length of a line of a stream, and redirects.

They hold below the openai client, which reads an answer, or a line of a stream, to its end before it looks at it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING

from consolidator.errors import ModelUnavailable

if TYPE_CHECKING:
    import httpx2  # takes a while, so it is imported only where a model is asked
    import openai

MAX_ANSWER_BYTES = 8 << 20
MAX_EMBEDDING_BYTES = 32 << 20
MAX_FILE_BYTES = 256 << 20  # the answers of a batch
MAX_STREAM_BYTES = 128 << 20  # of a whole stream, which is not kept
MAX_LINE_BYTES = 512 << 10  # of one line of a stream
MAX_REDIRECTS = 3


class ResponseTooLarge(Exception):
    """A server sent more than an answer may have."""


async def read_bounded(body: AsyncIterable[bytes], limit: int, line_limit: int | None = None) -> AsyncIterator[bytes]:
    """Yield a body; raise ResponseTooLarge where it, or a line of it, is too long."""
    size = line_size = 0
    async for part in body:
        size += len(part)
        last_end = max(part.rfind(b"\n"), part.rfind(b"\r"))
        line_size = line_size + len(part) if last_end < 0 else len(part) - last_end - 1
        if size > limit:
            raise ResponseTooLarge(f"the model's server sent more than {limit:,} bytes")
        if line_limit is not None and line_size > line_limit:
            raise ResponseTooLarge(f"the model's server sent a line of more than {line_limit:,} bytes")
        yield part


async def bound_response(response: httpx2.Response) -> None:
    """Limit what is read of a response, and where it may redirect to: only to its own origin.

    Raises ModelUnavailable, and ResponseTooLarge for a compressed response, whose size cannot be known.
    """
    if response.has_redirect_location:
        origin, target = response.url, response.url.join(response.headers["location"])
        if (target.scheme, target.host, _port(target)) != (origin.scheme, origin.host, _port(origin)):
            raise ModelUnavailable(
                f"the model's server redirects to another address, which is not followed: {target.scheme}://"
                f"{target.netloc.decode('ascii', 'replace')[:100]} (if it is right, set OPENAI_BASE_URL to it)",
                is_permanent=True,
            )
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise ResponseTooLarge(f"the model's server compressed its answer ({encoding[:20]}), which was not asked for")
    path, line_limit = response.request.url.path, None
    if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
        limit, line_limit = MAX_STREAM_BYTES, MAX_LINE_BYTES
    elif path.endswith("/embeddings"):
        limit = MAX_EMBEDDING_BYTES
    elif "/files/" in path:
        limit = MAX_FILE_BYTES
    else:
        limit = MAX_ANSWER_BYTES
    response.stream = _bounded_stream(response.stream, limit, line_limit)


def _port(url: httpx2.URL) -> int | None:
    return url.port or {"http": 80, "https": 443}.get(url.scheme)


def _bounded_stream(
    stream: httpx2.SyncByteStream | httpx2.AsyncByteStream, limit: int, line_limit: int | None
) -> httpx2.AsyncByteStream:
    import httpx2

    assert isinstance(stream, httpx2.AsyncByteStream)
    body = stream

    class BoundedStream(httpx2.AsyncByteStream):
        def __aiter__(self) -> AsyncIterator[bytes]:
            return read_bounded(body, limit, line_limit)

        async def aclose(self) -> None:
            await body.aclose()

    return BoundedStream()


def create_http_client(timeout: float) -> openai.DefaultAsyncHttpxClient:
    """Return the openai client's own HTTP client, with bounds."""
    import openai

    return openai.DefaultAsyncHttpxClient(
        timeout=timeout,
        max_redirects=MAX_REDIRECTS,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [bound_response]},
    )
