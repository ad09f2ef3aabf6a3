"""The OpenAI protocol: options that a server takes, the body of a request, and bounds and schema of an answer.

Bounds hold below the openai client, which reads an answer, or a line of a stream, to its end before it looks at it.
Answers are checked by the few words of JSON Schema that our own questions use; schemas of other people's tools are
checked by jsonschema, which the extra `mcp` brings.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from consolidator.errors import ModelUnavailable

if TYPE_CHECKING:
    import httpx2  # takes a while, so it is imported only where a model is asked
    import openai


_JSON_MODES = ("schema", "object", "prose")  # from the strictest to none at all


@dataclass(frozen=True, slots=True)
class Dialect:
    """The options to send to a server."""

    json_mode: str = "schema"  # schema | object | prose: how a JSON answer is requested
    max_tokens_name: str = "max_completion_tokens"  # or max_tokens
    takes_temperature: bool = True
    takes_stream_options: bool = True  # which ask for the usage of a stream
    takes_cache_key: bool = False  # which says what questions begin alike; only OpenAI's own server is known to take it

    def without(self, refusal: str) -> Dialect | None:
        """Return the dialect without the option that a refusal is about; None if it is about none of them."""
        text = refusal.lower()
        if "max_completion_tokens" in text and self.max_tokens_name == "max_completion_tokens":
            return replace(self, max_tokens_name="max_tokens")
        if "stream_options" in text and self.takes_stream_options:
            return replace(self, takes_stream_options=False)
        if "temperature" in text and self.takes_temperature:
            return replace(self, takes_temperature=False)
        if "prompt_cache_key" in text and self.takes_cache_key:
            return replace(self, takes_cache_key=False)
        if self.json_mode != "prose" and any(
            word in text for word in ("response_format", "json_schema", "json_object")
        ):
            return replace(self, json_mode=_JSON_MODES[_JSON_MODES.index(self.json_mode) + 1])
        return None

    def intersect(self, other: Dialect) -> Dialect:
        """Return the options that both dialects have: concurrent requests may have met different refusals."""
        return Dialect(
            max(self.json_mode, other.json_mode, key=_JSON_MODES.index),
            self.max_tokens_name if self.max_tokens_name == other.max_tokens_name else "max_tokens",
            self.takes_temperature and other.takes_temperature,
            self.takes_stream_options and other.takes_stream_options,
            self.takes_cache_key and other.takes_cache_key,
        )


_TYPES: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_WORDS = {"type", "enum", "minLength", "items", "properties", "required", "additionalProperties"}


def list_violations(value: Any, schema: Mapping[str, Any], path: str = "$") -> Iterator[tuple[str, str]]:
    """Yield where a value does not fit a schema, and what is wrong there. Raises ValueError for words not in use."""
    if unknown := schema.keys() - _WORDS:
        raise ValueError(f"no question of ours says {', '.join(sorted(unknown))}")
    types = schema.get("type", [*_TYPES])
    types = [types] if isinstance(types, str) else types
    if type(value) not in [_TYPES[name] for name in types]:
        yield path, f"{value!r} is not of type {' or '.join(map(repr, types))}"
        return
    if value not in schema.get("enum", [value]):
        yield path, f"{value!r} is not one of {schema['enum']!r}"
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        yield path, f"{value!r} is too short"
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from list_violations(item, schema.get("items", {}), f"{path}[{position}]")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                yield path, f"{name!r} is a required property"
        for name, member in value.items():
            if name in properties:
                yield from list_violations(member, properties[name], f"{path}.{name}")
            elif schema.get("additionalProperties") is False:
                yield path, f"{name!r} was unexpected"


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Message(dict[str, Any]):
    """A message that nobody changes, with its JSON once it was sent."""

    __slots__ = ("encoded",)
    encoded: str


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Return a body with `messages` and more as JSON."""
    messages = ",".join([getattr(message, "encoded", "") or _encode_message(message) for message in body["messages"]])
    others = _encode({name: value for name, value in body.items() if name != "messages"})
    return f'{{"messages":[{messages}],{others[1:]}'.encode()


def _encode_message(message: dict[str, Any]) -> str:
    encoded = _encode(message)
    if isinstance(message, Message):
        message.encoded = encoded
    return encoded


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
