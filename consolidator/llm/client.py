"""Asks a model over the OpenAI protocol: one question, one JSON object that fits its schema, or a ModelError.

Every kind of failure is told apart here; nothing is retried, stored or counted here.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from itertools import chain
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from jsonschema import Draft202012Validator

from consolidator.errors import ModelMalformed, ModelRefused, ModelTruncated, ModelUnavailable
from consolidator.llm.dialect import Dialect
from consolidator.llm.redaction.redact import redact
from consolidator.llm.tokens import count_tokens

if TYPE_CHECKING:
    import openai  # half a second, which only those pay who ask a model

    from consolidator.settings import Settings

T = TypeVar("T")
_OVERHEAD = 16  # tokens that a message's frame takes
_LONGEST = 2_000_000  # characters of an answer that are looked at
_LASTING = {401: "the key is not accepted", 403: "the key may not do this", 404: "no such model or address"}
_TOO_LARGE = 413
_REFUSALS = (400, _TOO_LARGE, 422)  # of this question; another may be taken
_FENCED = re.compile(r"^\s*```(?:json)?\s*\n(.*?)\n?```\s*$", re.DOTALL)
_PLEA = re.compile(r"quota|rate.?limit|billing|credit|overloaded|too many requests|insufficient|try again later", re.I)
_CONTEXT = re.compile(r"context.?(length|window)|maximum context|too long|too many tokens", re.I)
# What httpx calls it when a question never left this machine.
_UNSENT = (
    "ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "LocalProtocolError", "ProxyError"
)  # fmt: skip
_NO_KEY = "none"  # local servers ask for no key, and the client for some


@dataclass(frozen=True, slots=True)
class Request:
    """One question, and the JSON schema of its answer."""

    purpose: str  # extract | reconcile | compact
    model: str
    system: str
    prompt: str
    schema_name: str
    schema: dict[str, Any]
    max_tokens: int
    turns: tuple[tuple[str, str], ...] = ()  # (role, text) after the prompt: a bad answer, and what is wrong with it

    @property
    def key(self) -> str:
        """A hash of all that decides the answer."""
        parts = [self.model, self.system, self.prompt, self.schema_name, self.schema, self.max_tokens, self.turns]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages to send, redacted once more, since nobody can take back what has left the process."""
        told = [("system", self.system), ("user", self.prompt), *self.turns]
        return [{"role": role, "content": redact(text)} for role, text in told]

    @property
    def tokens(self) -> int:
        """How many tokens the question has, or a little more."""
        told = [self.system, self.prompt, json.dumps(self.schema), *(text for _, text in self.turns)]
        return sum(count_tokens(text) + _OVERHEAD for text in told)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What came back, before anybody looked into it."""

    text: str | None
    refusal: str | None
    finish: str | None
    model: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors, and the tokens that they took."""

    vectors: list[list[float]]
    tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and what it took."""

    text: str
    model: str
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: Decimal | None = None
    cached: bool = False  # it was known already, and nothing was paid


@dataclass(slots=True)
class ModelClient:
    """A server, and what was learned of what it takes."""

    base_url: str | None
    api_key: str | None
    timeout: float
    dialect: Dialect = field(default_factory=Dialect)
    _client: openai.AsyncOpenAI | None = field(default=None, repr=False)
    _closed: bool = field(default=False, repr=False)

    async def send(self, request: Request) -> ModelReply:
        """Send one question; raise ModelUnavailable, ModelRefused or ModelTruncated where none comes back."""
        import openai

        for _ in range(6):  # each time without something that the server does not know
            asked = self.dialect
            body = self.body(request)
            try:
                raw = await self._whole(self.opened().chat.completions.with_raw_response.create(**body))
                content = raw.http_response.content
                reply = read_completion(content, request.model, json.dumps(request.messages))
                if reply is None:
                    shown = redact(content[:200].decode("utf-8", "replace"))
                    raise ModelUnavailable(f"the server's answer is no completion: {shown}")
                return reply
            except openai.APIError as error:
                refused = isinstance(error, (openai.BadRequestError, openai.UnprocessableEntityError))
                if not refused or not self.learns(error, asked):
                    raise failure(error) from error
        raise ModelRefused("the server takes the question in no form")

    async def embed(self, model: str, texts: Sequence[str]) -> Embedded:
        """Return a vector for each text; raise ModelUnavailable, ModelRefused or ModelTruncated where none come."""
        import openai

        told = [redact(text) for text in texts]
        try:
            raw = await self._whole(
                self.opened().embeddings.with_raw_response.create(model=model, input=told, encoding_format="float")
            )
        except openai.APIError as error:
            raise failure(error) from error
        vectors, used = read_vectors(raw.http_response.content)
        if len(vectors) != len(texts) or len({len(vector) for vector in vectors}) > 1:
            raise ModelUnavailable(f"{model} gave {len(vectors)} vectors for {len(texts)} texts", paid=True)
        return Embedded(vectors, used if _is_count(used) else sum(count_tokens(text) for text in told))

    async def _whole(self, answer: Awaitable[T]) -> T:
        """Wait for all of an answer: the client's own timeout begins anew with each byte."""
        try:
            async with asyncio.timeout(self.timeout):
                return await answer
        except TimeoutError as error:
            told = f"the model's server gave no whole answer within {self.timeout:g} s"
            raise ModelUnavailable(told, paid=True) from error

    async def close(self) -> None:
        """Close the connections; nothing is asked after that."""
        self._closed = True
        if self._client is not None:
            await self._client.close()
            self._client = None

    def learns(self, error: openai.APIError, asked: Dialect) -> bool:
        """Take note of what a server refuses for not knowing it; tell whether asking again without it may help.

        `asked` is the dialect of the question that it refused: another may have learned the same meanwhile.
        """
        left = asked.without(_told(error))
        if left is None:
            return False
        self.dialect = self.dialect.common(left)
        return True

    def opened(self) -> openai.AsyncOpenAI:
        """Return the client below, for what has no method here."""
        import openai

        if self._closed:  # opened anew, it would be closed by nobody
            raise RuntimeError("the model's client is closed")
        if self._client is None:
            self._client = openai.AsyncOpenAI(
                base_url=self.base_url, api_key=self.api_key or _NO_KEY, timeout=self.timeout, max_retries=0
            )
        return self._client

    def body(self, request: Request) -> dict[str, Any]:
        """Return a question as the protocol has it."""
        taken = self.dialect
        body: dict[str, Any] = {"model": request.model, "messages": request.messages, taken.limit: request.max_tokens}
        if taken.steady:
            body["temperature"] = 0
        if taken.shape == "schema":
            schema = {"name": request.schema_name, "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        else:
            asked = f"Answer with one JSON object of this schema and nothing else:\n{json.dumps(request.schema)}"
            body["messages"] = [{"role": "system", "content": f"{request.messages[0]['content']}\n\n{asked}"}]
            body["messages"] += request.messages[1:]
        if taken.shape == "object":
            body["response_format"] = {"type": "json_object"}
        return body


def client_of(settings: Settings) -> ModelClient:
    """Return the client of the configured server."""
    key = settings.openai_api_key
    return ModelClient(
        settings.openai_base_url, key.get_secret_value() if key else None, timeout=settings.model_timeout_seconds
    )


def read(reply: ModelReply, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a reply; raise ModelRefused, ModelTruncated, ModelMalformed or ModelUnavailable."""
    if reply.refusal or reply.finish == "content_filter":
        raise ModelRefused(f"{reply.model} refused: {redact(reply.refusal or 'filtered by its server')[:300]}")
    if reply.finish == "length":
        raise ModelTruncated(f"{reply.model} was cut off after {reply.output_tokens} tokens")
    return parsed(reply.text or "", schema)


def parsed(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a text that fits a schema; raise ModelMalformed or, for a plea, ModelUnavailable."""
    fenced = _FENCED.match(text[:_LONGEST])
    inner = fenced[1] if fenced else text[:_LONGEST]
    try:
        found = json.loads(inner)
    except (ValueError, RecursionError) as error:
        if "{" not in inner and _PLEA.search(inner[:1000]):
            raise ModelUnavailable(f"the answer is a plea, not data: {redact(inner[:200])}") from error
        raise ModelMalformed(f"the answer is not JSON: {type(error).__name__}", text) from error
    if not isinstance(found, dict):
        raise ModelMalformed(f"the answer is a {type(found).__name__}, not an object", text)
    wrong = next(iter(Draft202012Validator(dict(schema)).iter_errors(found)), None)
    if wrong is not None:
        if "error" in found:
            raise ModelUnavailable(f"the answer is an error: {redact(str(found['error']))[:200]}")
        raise ModelMalformed(f"the answer does not fit: {wrong.json_path}: {redact(wrong.message)[:300]}", text)
    return found


def read_completion(content: bytes, model: str, asked: str) -> ModelReply | None:
    """Read a completion leniently, since servers differ in all but the choice's text; None where it is none.

    Tokens that the server does not tell are counted in `asked` and the answer.
    """
    try:
        body = json.loads(content)
        choice = body["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return None
    usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    refusal = message.get("refusal")
    sent, back = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return ModelReply(
        text=text,
        refusal=str(refusal) if refusal else None,
        finish=choice.get("finish_reason"),
        model=model,
        input_tokens=sent if _is_count(sent) else count_tokens(asked) + _OVERHEAD,
        cached_tokens=cached if _is_count(cached) else 0,
        output_tokens=back if _is_count(back) else count_tokens(text or ""),
    )


def read_vectors(content: bytes) -> tuple[list[list[float]], Any]:
    """Return an answer's vectors, in order, and what it says of its tokens; raise ModelUnavailable where it is none."""
    try:
        body = json.loads(content)
        vectors = [
            list(map(float, one["embedding"])) for one in sorted(body["data"], key=lambda one: one.get("index", 0))
        ]
        usage = body.get("usage")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        shown = redact(content[:200].decode("utf-8", "replace"))
        raise ModelUnavailable(f"the server's answer holds no vectors: {shown}", paid=True) from error
    if not all(map(isfinite, chain.from_iterable(vectors))):
        raise ModelUnavailable("the server's answer holds vectors that are no numbers", paid=True)
    return vectors, usage.get("prompt_tokens") if isinstance(usage, dict) else None


def _text(content: Any) -> str | None:
    """Return a message's text: a string, or a list of parts."""
    if isinstance(content, list):
        parts = [part.get("text", "") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(str(part) for part in parts)
    return None if content is None else str(content)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _told(error: openai.APIError) -> str:
    return f"{error.message} {json.dumps(error.body) if isinstance(error.body, dict) else ''}"


def _refused(error: openai.APIStatusError) -> Exception:
    told = redact(_told(error))[:300]
    if error.status_code == _TOO_LARGE or _CONTEXT.search(told):
        return ModelTruncated(f"the question is too long for the model: {told}")
    return ModelRefused(f"the server does not take the question: {told}")


def failure(error: openai.APIError) -> Exception:
    """Return what an error of the protocol means: ModelRefused, ModelTruncated or ModelUnavailable."""
    import openai

    if isinstance(error, openai.APIStatusError) and error.status_code in _REFUSALS:
        return _refused(error)
    return _unavailable(error)


def _unavailable(error: openai.APIError) -> ModelUnavailable:
    import openai

    if isinstance(error, openai.APITimeoutError) and _was_sent(error):
        return ModelUnavailable("the model's server did not answer in time", paid=True)
    if not isinstance(error, openai.APIStatusError):
        told = f"the model's server cannot be reached: {redact(str(error.__cause__ or error))[:200]}"
        return ModelUnavailable(told, paid=_was_sent(error))
    status = error.status_code
    told = f"the model's server says {status}: {redact(error.message)[:200]}"
    if status in _LASTING:
        return ModelUnavailable(f"{told} ({_LASTING[status]})", lasting=True)
    return ModelUnavailable(told, wait=rest(error.response.headers))


def _was_sent(error: openai.APIError) -> bool:
    """Tell whether the question may have arrived before the connection broke."""
    return type(error.__cause__).__name__ not in _UNSENT


def rest(headers: Mapping[str, str]) -> float | None:
    """Return how long a server asks us to wait, where it says so: in milliseconds, in seconds, or until a moment."""
    for name, share in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            return max(0.0, float(headers.get(name, "")) * share)
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError):  # no date, or one without a zone
        return None
