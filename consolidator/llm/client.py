"""Asks a model over the OpenAI protocol: one question, one JSON object that fits its schema, or a ModelError.

Failures are classified here; nothing is retried, stored or counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from consolidator.errors import ModelMalformed, ModelRefused, ModelTruncated, ModelUnavailable
from consolidator.llm.protocol import Dialect, ResponseTooLarge, create_http_client, list_violations
from consolidator.llm.redaction.redact import redact
from consolidator.llm.tokens import count_tokens, read_count, settled_tokens
from consolidator.telemetry import open_span

if TYPE_CHECKING:
    import openai  # takes half a second, so it is imported only where a model is asked

    from consolidator.settings import Settings

T = TypeVar("T")
_MESSAGE_OVERHEAD = 16  # tokens of a message besides its text
_MIN_ANSWER = 256  # tokens that an answer may have, however long the question is
_MAX_ANSWER_LENGTH = 2_000_000  # characters of an answer that are read
_PERMANENT = {
    401: "the key is not accepted: set OPENAI_API_KEY to a valid one",
    402: "the account has no credit",
    403: "the key may not do this: check OPENAI_API_KEY and CONSOLIDATOR_MODEL",
    404: "no such model or address: check CONSOLIDATOR_MODEL, CONSOLIDATOR_EXTRACT_MODEL and OPENAI_BASE_URL",
}
# Servers report these also as 400 or 429, where asking again would otherwise help.
_PERMANENT_TEXTS = (
    (
        401,
        re.compile(
            r"invalid_api_key|(in(valid|correct)|wrong|missing) api.?key|api.?key (is )?(not valid|invalid)", re.I
        ),
    ),
    (
        402,
        re.compile(
            r"insufficient_quota|exceeded your current quota|billing_hard_limit|insufficient (balance|credit)", re.I
        ),
    ),
    (404, re.compile(r"model_not_found|\bmodel\b.{0,80}(does not exist|not found|is not supported)", re.I)),
)
_PERMANENT_IN_WORDS = (400, 422, 429)
_MAX_ERROR_TEXT = 1000  # characters of a server's error that are looked at
_TOO_LARGE = 413
_REFUSALS = (400, _TOO_LARGE, 422)  # of this question; the server may take another one
_MAX_REASON_LENGTH = 64  # characters
_MAX_REAL = 3.4e38  # of the numbers of a vector, which are stored in four bytes
_THINKING_END = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.I)
_THINKING_START = re.compile(r"\s*<(?:think|thinking|thought|reasoning)>", re.I)
_OBJECT_START = re.compile(r'\{(?![^{}":]+\})')  # no word in braces, as prose has it
_REFUSAL_TEXT = re.compile(r"\b(?:sorry|cannot|can.?t|unable|won.?t|not able|decline|refuse|as an ai)\b", re.I)
_OVERLOAD_TEXT = re.compile(
    r"quota|rate.?limit|billing|credit|overloaded|too many requests|insufficient|try again later", re.I
)
_TOO_LONG_TEXT = re.compile(r"context.?(length|window)|maximum context|too long|too many tokens", re.I)
# Exceptions of httpx that mean the request was never sent.
_UNSENT_ERRORS = [
    "ConnectError",
    "ConnectTimeout",
    "PoolTimeout",
    "UnsupportedProtocol",
    "LocalProtocolError",
    "ProxyError",
]
OPENAI_URL = "https://api.openai.com/v1"
_NO_KEY = "none"  # local servers need no key, but the openai client does


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question, and the JSON schema of its answer."""

    purpose: str  # extract | reconcile | compact
    model: str
    system: str
    prompt: str
    schema_name: str
    schema: dict[str, Any]
    max_tokens: int
    turns: tuple[tuple[str, str], ...] = ()  # role and text after the prompt: an invalid answer, and what is wrong
    hint: str = ""  # said before the prompt; an answer stays valid if it changes, so it is no part of the key

    @property
    def key(self) -> str:
        """A hash of everything that determines whether a stored answer is one to this question."""
        parts = [self.model, self.system, self.prompt, self.schema_name, self.schema, self.max_tokens, self.turns]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def cache_key(self) -> str:
        """What questions have in common that begin alike; nothing of what they are about."""
        start = json.dumps([self.model, self.system, self.schema], sort_keys=True)
        return f"consolidator-{self.purpose}-{hashlib.sha256(start.encode()).hexdigest()[:16]}"

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages to send, redacted once more, since what was sent cannot be taken back."""
        prompt = f"{self.hint}\n\n{self.prompt}" if self.hint else self.prompt
        messages = [("system", self.system), ("user", prompt), *self.turns]
        return [{"role": role, "content": redact(text)} for role, text in messages]

    @property
    def texts(self) -> list[str]:
        """The texts of the question, without what the protocol adds."""
        return [self.system, self.hint, self.prompt, *(text for _, text in self.turns)]

    @property
    def schema_text(self) -> str:
        """The schema as it is sent."""
        return json.dumps(self.schema, separators=(",", ":"))

    @property
    def tokens(self) -> int:
        """The number of tokens of the question, or slightly more."""
        return sum(count_tokens(text) + _MESSAGE_OVERHEAD for text in [*self.texts, self.schema_text])


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A completion as it came back, not validated."""

    text: str | None
    refusal: str | None
    finish_reason: str | None
    model: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: Decimal | None = None  # USD, where whoever answered reports it


@dataclass(frozen=True, slots=True)
class EmbeddingResult:
    """Vectors, and the tokens that they used."""

    vectors: list[list[float]]
    tokens: int


@dataclass(slots=True)
class ModelClient:
    """A client of one server, and the options that the server is known to take."""

    base_url: str | None
    api_key: str | None
    timeout: float
    dialect: Dialect = field(default_factory=Dialect)
    window: int | None = None  # tokens of a question and its answer together; None: not known
    _client: openai.AsyncOpenAI | None = field(default=None, repr=False)
    _closed: bool = field(default=False, repr=False)

    async def send(self, request: ModelRequest) -> ModelReply:
        """Send one question and return the reply; raise ModelUnavailable, ModelRefused or ModelTruncated."""
        return await send_traced(request, self.span_attributes("chat", request.model), self._send)

    async def _send(self, request: ModelRequest) -> ModelReply:
        import openai

        for _ in range(6):  # each time without an option that the server refused
            dialect = self.dialect
            body = self.build_body(request)
            try:
                raw = await self._receive_all(self.get_client().chat.completions.with_raw_response.create(**body))
                content = raw.http_response.content
                reply = read_completion(content, request.model, sum(map(count_tokens, request.texts)))
                if reply is None:
                    shown = redact(content[:2000].decode("utf-8", "replace"))[:200]
                    raise ModelUnavailable(f"the server's answer is not a completion: {shown}")
                return reply
            except openai.APIError as error:
                is_refusal = isinstance(error, (openai.BadRequestError, openai.UnprocessableEntityError))
                if not is_refusal or not self.learn_refusal(error, dialect):
                    raise classify_error(error) from error
        raise ModelRefused("the server refuses the question in every form")

    async def embed(self, model: str, texts: Sequence[str]) -> EmbeddingResult:
        """Return a vector for each text; raise ModelUnavailable, ModelRefused or ModelTruncated."""
        import openai

        redacted = [redact(text) for text in texts]
        with open_span("model", f"embeddings {model}", self.span_attributes("embeddings", model)) as span:
            try:
                create = self.get_client().embeddings.with_raw_response.create
                raw = await self._receive_all(create(model=model, input=redacted, encoding_format="float"))
            except openai.APIError as error:
                raise classify_error(error) from error
            vectors, reported = read_vectors(raw.http_response.content)
            if len(vectors) != len(texts) or len({len(vector) for vector in vectors}) > 1:
                message = f"{model} gave {len(vectors)} vectors for {len(texts)} texts"
                raise ModelUnavailable(message, may_be_charged=True)
            tokens = settled_tokens(reported, sum(map(count_tokens, redacted)))
            span.attributes["gen_ai.usage.input_tokens"] = tokens
            return EmbeddingResult(vectors, tokens)

    def span_attributes(self, operation: str, model: str) -> dict[str, Any]:
        """Return what a span of a call says before its answer, as OpenTelemetry's conventions name it."""
        address = urlsplit(self.base_url or OPENAI_URL)
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "openai",  # whose protocol it is
            "gen_ai.request.model": model,
            "server.address": address.hostname,
            "server.port": address.port or (443 if address.scheme == "https" else 80),
        }

    async def _receive_all(self, answer: Awaitable[T]) -> T:
        """Await a whole answer within the timeout: the client's own timeout restarts with each byte."""
        try:
            async with asyncio.timeout(self.timeout):
                return await answer
        except TimeoutError as error:
            message = f"the model's server gave no complete answer within {self.timeout:g} s"
            raise ModelUnavailable(message, may_be_charged=True) from error
        except ResponseTooLarge as error:
            raise ModelUnavailable(str(error), may_be_charged=True) from error

    async def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._closed = True
        if self._client is not None:
            await self._client.close()
            self._client = None

    def learn_refusal(self, error: openai.APIError, dialect: Dialect) -> bool:
        """Drop the option that a server refused; return whether sending the question again may help.

        `dialect` is the one of the refused question: a concurrent question may have changed the client's meanwhile.
        """
        reduced = dialect.without(_describe(error))
        if reduced is None:
            return False
        self.dialect = self.dialect.intersect(reduced)
        return True

    def get_client(self) -> openai.AsyncOpenAI:
        """Return the openai client, for requests that have no method here."""
        import openai

        if self._closed:  # nobody would close another one
            raise RuntimeError("the model's client is closed")
        if self._client is None:
            self._client = openai.AsyncOpenAI(
                base_url=self.base_url,
                api_key=self.api_key or _NO_KEY,
                timeout=self.timeout,
                max_retries=0,
                http_client=create_http_client(self.timeout),
            )
        return self._client

    def build_body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request body of a question.

        What all questions of a purpose share comes first, so that providers' caches find it: schema and system text.
        """
        dialect = self.dialect
        room = request.max_tokens if self.window is None else self.window - request.tokens
        body: dict[str, Any] = {
            "model": request.model,
            "messages": request.messages,
            dialect.max_tokens_name: min(request.max_tokens, max(_MIN_ANSWER, room)),
        }
        if dialect.takes_temperature:
            body["temperature"] = 0
        if dialect.takes_cache_key:
            body["prompt_cache_key"] = request.cache_key
        if dialect.json_mode == "schema":
            # A lenient reader may ask for less.
            strict = request.schema | {"required": list(request.schema.get("properties", ()))}
            schema = {"name": request.schema_name, "strict": True, "schema": strict}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        else:
            instruction = f"Answer with one JSON object of this schema and nothing else:\n{request.schema_text}"
            body["messages"] = [{"role": "system", "content": f"{request.messages[0]['content']}\n\n{instruction}"}]
            body["messages"] += request.messages[1:]
        if dialect.json_mode == "object":
            body["response_format"] = {"type": "json_object"}
        return body


async def send_traced(
    request: ModelRequest, attributes: Mapping[str, Any], send: Callable[[ModelRequest], Awaitable[ModelReply]]
) -> ModelReply:
    """Send a question within a span that says what it used."""
    attributes = {**attributes, "consolidator.purpose": request.purpose}
    with open_span("model", f"chat {request.model}", attributes) as span:
        reply = await send(request)
        span.attributes |= {
            "gen_ai.usage.input_tokens": reply.input_tokens,
            "gen_ai.usage.cache_read.input_tokens": reply.cached_tokens,
            "gen_ai.usage.output_tokens": reply.output_tokens,
            "gen_ai.response.finish_reasons": [reply.finish_reason] if reply.finish_reason else [],
        }
        return reply


def create_client(settings: Settings) -> ModelClient:
    """Return a client of the configured server."""
    key, base_url = settings.openai_api_key, settings.openai_base_url
    dialect = Dialect(takes_cache_key=urlsplit(base_url or OPENAI_URL).hostname == urlsplit(OPENAI_URL).hostname)
    return ModelClient(
        base_url,
        key.get_secret_value() if key else None,
        timeout=settings.model_timeout_seconds,
        dialect=dialect,
        window=settings.model_window,
    )


def parse_reply(reply: ModelReply, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a reply; raise ModelRefused, ModelTruncated, ModelMalformed or ModelUnavailable."""
    if reply.refusal or reply.finish_reason == "content_filter":
        raise ModelRefused(f"{reply.model} refused: {redact(reply.refusal or 'filtered by its server')[:300]}")
    if reply.finish_reason == "length":
        raise ModelTruncated(f"{reply.model} was cut off after {reply.output_tokens} tokens")
    return parse_answer(reply.text or "", schema)


def parse_answer(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a text that fits a schema; raise ModelMalformed, or ModelUnavailable for an error.

    Reasoning before it, a fence and prose around it are left out.
    """
    try:
        answer = _read_json(text[:_MAX_ANSWER_LENGTH])
    except (ValueError, RecursionError) as error:
        raise ModelMalformed(f"the answer is not JSON: {type(error).__name__}", text) from error
    if not isinstance(answer, dict):
        raise ModelMalformed(f"the answer is a {type(answer).__name__}, not an object", text)

    violation = next(list_violations(answer, schema), None)
    if violation is not None:
        if "error" in answer:
            raise ModelUnavailable(f"the answer is an error: {redact(str(answer['error']))[:200]}")
        raise ModelMalformed(f"the answer does not fit: {violation[0]}: {redact(violation[1])[:300]}", text)
    return answer


def _read_json(text: str) -> Any:
    """Return the JSON that a text is, or the only object in it; raise ValueError, or ModelUnavailable for an error.

    What a model thought aloud is no answer, and prose that refuses or reports an overload makes none of an example.
    """
    try:
        return json.loads(text)
    except ValueError:
        ends = list(_THINKING_END.finditer(text))
        if ends:
            text = text[ends[-1].end() :]
        elif _THINKING_START.match(text):
            raise
    object_start = _OBJECT_START.search(text)
    start = object_start.start() if object_start else -1
    before = text if start < 0 else text[:start]
    answer, end = (None, len(text)) if start < 0 else json.JSONDecoder().raw_decode(text, start)
    prose = f"{before[:1000]} {text[end : end + 1000]}"
    if start < 0 and _OVERLOAD_TEXT.search(prose):
        raise ModelUnavailable(f"the answer is an error text, not data: {redact(text[:2000])[:200]}")
    is_one = start >= 0 and not _OBJECT_START.search(text, end) and before.count("[") <= before.count("]")
    if not is_one or _REFUSAL_TEXT.search(prose) or _OVERLOAD_TEXT.search(prose):
        raise ValueError("the text is not one object")
    return answer


def read_completion(content: bytes, model: str, question_tokens: int) -> ModelReply | None:
    """Read a completion leniently, since servers differ in everything but the choice's text; None if it is invalid.

    Its tokens are what the server reports or what we counted, whichever is more: `question_tokens` in the question.
    """
    try:
        body = json.loads(content)
        choice = body["choices"][0]
        message = choice["message"]
        text = read_text(message.get("content"))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return None
    usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    refusal = message.get("refusal")
    return ModelReply(
        text=text,
        refusal=str(refusal) if refusal else None,
        finish_reason=str(choice.get("finish_reason") or "")[:_MAX_REASON_LENGTH] or None,
        model=model,
        input_tokens=settled_tokens(usage.get("prompt_tokens"), question_tokens),
        cached_tokens=min(read_count(cached) or 0, read_count(usage.get("prompt_tokens")) or 0),
        output_tokens=settled_tokens(usage.get("completion_tokens"), count_tokens(text or "")),
    )


def read_vectors(content: bytes) -> tuple[list[list[float]], Any]:
    """Return the vectors of an answer, in order, and its reported tokens; raise ModelUnavailable if it is invalid."""
    try:
        body = json.loads(content)
        items = sorted(body["data"], key=lambda item: item.get("index", 0))
        vectors = [list(map(float, item["embedding"])) for item in items]
        usage = body.get("usage")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        shown = redact(content[:2000].decode("utf-8", "replace"))[:200]
        raise ModelUnavailable(f"the server's answer has no vectors: {shown}", may_be_charged=True) from error
    if not all(abs(number) <= _MAX_REAL for number in chain.from_iterable(vectors)):  # so none that is not a number
        raise ModelUnavailable("the server's answer has vectors that are not finite", may_be_charged=True)
    return vectors, usage.get("prompt_tokens") if isinstance(usage, dict) else None


def read_text(content: Any) -> str | None:
    """Return a message's text: a string, or parts, of which those that are no text are left out."""
    if content is None or isinstance(content, str):
        return content
    texts = [
        part.get("text") if isinstance(part, dict) and part.get("type", "text") in ("text", "output_text") else part
        for part in (content if isinstance(content, list) else [content])
    ]
    return "".join(text for text in texts if isinstance(text, str))


def _describe(error: openai.APIError) -> str:
    return f"{error.message} {json.dumps(error.body) if isinstance(error.body, dict) else ''}"


def classify_error(error: openai.APIError) -> Exception:
    """Return what an error of the openai client means: ModelRefused, ModelTruncated or ModelUnavailable."""
    import openai

    if isinstance(error, openai.APIStatusError) and error.status_code in _REFUSALS and not _permanent_status(error):
        text = redact(_describe(error))[:300]
        if error.status_code == _TOO_LARGE or _TOO_LONG_TEXT.search(text):
            return ModelTruncated(f"the question is too long for the model: {text}")
        return ModelRefused(f"the server refuses the question: {text}")
    if isinstance(error, openai.APITimeoutError) and _was_sent(error):
        return ModelUnavailable("the model's server did not answer in time", may_be_charged=True)
    if not isinstance(error, openai.APIStatusError):
        if isinstance(error.__cause__, ResponseTooLarge):
            return ModelUnavailable(str(error.__cause__), may_be_charged=True)
        cause = redact(str(error.__cause__ or error))[:200]
        message = f"the model's server cannot be reached (check OPENAI_BASE_URL): {cause}"
        return ModelUnavailable(message, may_be_charged=_was_sent(error))
    status = error.status_code
    message = f"the model's server says {status}: {redact(error.message)[:200]}"
    permanent = _permanent_status(error)
    if permanent is not None:
        return ModelUnavailable(f"{message} ({_PERMANENT[permanent]})", is_permanent=True, status=status)
    return ModelUnavailable(message, retry_after=retry_delay(error.response.headers), status=status)


def _permanent_status(error: openai.APIStatusError) -> int | None:
    """Return which permanent error a server reports, by its status or its words; None if asking again may help."""
    if error.status_code in _PERMANENT:
        return error.status_code
    if error.status_code not in _PERMANENT_IN_WORDS:
        return None
    text = f"{error.code or ''} {error.type or ''} {error.message}"[:_MAX_ERROR_TEXT]
    return next((status for status, pattern in _PERMANENT_TEXTS if pattern.search(text)), None)


def _was_sent(error: openai.APIError) -> bool:
    """Tell whether the server may have received the question before the connection broke."""
    return type(error.__cause__).__name__ not in _UNSENT_ERRORS


def retry_delay(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks to wait: it says so in milliseconds, in seconds, or as a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            return max(0.0, float(headers.get(name, "")) * unit)
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError):  # not a date, or one without a time zone
        return None
