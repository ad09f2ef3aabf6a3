"""Streams a model's answer: its text is committed in small batches and only then delivered.

Each way in which a stream can end is distinguished: complete, cut off, refused, server unavailable.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from consolidator.errors import ModelUnavailable
from consolidator.llm.client import ModelClient, classify_error, read_text
from consolidator.llm.protocol import ResponseTooLarge, encode_body
from consolidator.runtime.session.boundaries import boundary
from consolidator.runtime.session.budget import Usage
from consolidator.telemetry import open_span

BATCH_SECONDS = 0.05
BATCH_PIECES = 32
MAX_TOKEN_COUNT = 10**9  # of one call; a server that reports more is not believed
MAX_TOKEN_CHARACTERS = 128  # of one token; a server that sends more text than was requested is cut off
MAX_CALLS = 64  # of one answer
MAX_TOTAL_FACTOR = 10  # the longest time of a whole answer, in timeouts; each piece has one timeout
_MAX_NAME = 200  # characters that are kept of what a server calls a tool, its model, or the end of an answer
_MALFORMED = "the model's server sent something that is not part of an answer"

CommitText = Callable[[str, bool], Awaitable[None]]  # a batch, and whether it ends an answer that came whole


class StreamCutOff(ModelUnavailable):
    """The stream ended before the answer did. What came of the answer stays and can be resumed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, may_be_charged=True)


@dataclass(slots=True)
class StreamedToolCall:
    """A tool call, as the model wrote it."""

    tool: str = ""
    arguments: str = ""
    id: str = ""  # the server's; its calls are told apart by it where their numbers do not

    def parsed_arguments(self) -> Any:
        """Return the arguments as an object; if they are no JSON object, the text that the model wrote."""
        try:
            parsed = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            return self.arguments
        return parsed if isinstance(parsed, dict) else self.arguments

    def is_followed_by(self, call_id: str, name: str, arguments: str) -> bool:
        """Tell whether a delta with the number of this call begins another one: it has another id, or comes whole."""
        if call_id and self.id:
            return bool(name) and call_id != self.id
        is_whole = bool(name) and arguments.startswith("{") and self.arguments.endswith("}")
        return is_whole and isinstance(self.parsed_arguments(), dict)


@dataclass(slots=True)
class StreamedAnswer:
    """What came of one call of a model so far."""

    finish_reason: str | None = None
    refusal: str = ""
    usage: Usage | None = None  # None: the server did not report it
    model: str | None = None
    tool_calls: dict[int, StreamedToolCall] = field(default_factory=dict)
    last_calls: dict[object, int] = field(default_factory=dict)  # the server's number or id of a call -> its key above
    pieces: list[str] = field(default_factory=list)  # committed batches of text
    received: list[str] = field(default_factory=list)  # all that was streamed but calls, also what the model thought
    call_characters: int = 0  # received in tool calls
    max_calls: int = MAX_CALLS
    dropped_calls: int = 0  # calls beyond `max_calls`, of which nothing is kept


async def stream_answer(
    client: ModelClient, body: Mapping[str, Any], answer: StreamedAnswer, commit: CommitText
) -> None:
    """Call a model and fill `answer`, committing its text batch by batch.

    Raises StreamCutOff if the stream ends early, else what `ModelClient.send` raises.
    """
    model = str(body["model"])
    attributes = {**client.span_attributes("chat", model), "gen_ai.request.max_tokens": body["max_tokens"]}
    with open_span("model", f"chat {model}", attributes) as span:
        try:
            await _stream_answer(client, body, answer, commit)
        finally:
            usage = answer.usage or Usage()
            span.attributes |= {
                "gen_ai.usage.input_tokens": usage.input_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
                "gen_ai.usage.output_tokens": usage.output_tokens,
                "gen_ai.response.model": answer.model,
                "gen_ai.response.finish_reasons": [answer.finish_reason] if answer.finish_reason else [],
            }


async def _stream_answer(
    client: ModelClient, body: Mapping[str, Any], answer: StreamedAnswer, commit: CommitText
) -> None:
    batches = _TextBatches()
    reader = asyncio.create_task(_read_stream(client, body, answer, batches.put))
    reader.add_done_callback(lambda _: batches.end())
    try:
        with boundary("model"):
            async for batch, is_last in batches:
                with boundary("batch"):
                    answer.pieces.append(batch)
                    await commit(batch, is_last and reader.exception() is None)
            await reader
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


class _TextBatches:
    """The text that came meanwhile, of at most BATCH_SECONDS and BATCH_PIECES, and whether the stream ended with it."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._has_ended = False
        self._ready = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def put(self, piece: str) -> None:
        """Add a piece of the text."""
        self._pieces.append(piece)
        self._set_ready()

    def end(self) -> None:
        """Add no more."""
        self._has_ended = True
        self._set_ready()

    def _set_ready(self) -> None:
        if self._has_ended or len(self._pieces) >= BATCH_PIECES:
            self._ready.set()
        elif self._pieces and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._ready.set)

    async def __aiter__(self) -> AsyncIterator[tuple[str, bool]]:
        while not (self._has_ended and not self._pieces):
            await self._ready.wait()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            batch, self._pieces = self._pieces[:BATCH_PIECES], self._pieces[BATCH_PIECES:]
            self._ready.clear()
            self._set_ready()
            if batch:
                yield "".join(batch), self._has_ended and not self._pieces


async def _read_stream(
    client: ModelClient, body: Mapping[str, Any], answer: StreamedAnswer, put: Callable[[str], None]
) -> None:
    """Read a stream to its end and put its text."""
    import openai

    began, characters_left = False, MAX_TOKEN_CHARACTERS * int(body["max_tokens"])
    loop = asyncio.get_running_loop()
    last_end = loop.time() + MAX_TOTAL_FACTOR * client.timeout
    try:
        async with (
            asyncio.timeout(client.timeout) as deadline,
            contextlib.aclosing(await _open_stream(client, body)) as stream,
        ):
            async for chunk in stream:
                began = True
                latest = min(loop.time() + client.timeout, last_end)
                # Pieces without content do not keep a call alive; each timer costs more than a piece.
                if (deadline.when() or 0) < latest and _has_content(chunk):
                    deadline.reschedule(min(latest + client.timeout / 20, last_end))
                call_characters = answer.call_characters
                for piece in _take_chunk(answer, chunk):
                    put(piece)
                    characters_left -= len(piece)
                characters_left -= 1 + answer.call_characters - call_characters
                if characters_left < 0:
                    raise StreamCutOff("the model's server went on beyond the requested length")
        if answer.finish_reason is None:
            raise StreamCutOff("the model's server ended its answer in the middle")
    except openai.APIError as error:
        if began and not isinstance(error, openai.APIStatusError):
            raise StreamCutOff(
                f"the model's server was lost in the middle of its answer: {type(error).__name__}"
            ) from error
        raise classify_error(error) from error
    except TimeoutError as error:
        if began:
            raise StreamCutOff("the model's server did not go on with its answer in time") from error
        raise ModelUnavailable("the model's server did not answer in time", may_be_charged=True) from error
    except ResponseTooLarge as error:
        raise StreamCutOff(str(error)) from error
    except (ValueError, RecursionError) as error:  # malformed JSON, or nested too deep
        raise StreamCutOff(_MALFORMED) from error


async def _open_stream(client: ModelClient, body: Mapping[str, Any]) -> Any:
    """Open a stream; try again without the options that the server turns out not to support."""
    import openai

    request = {**body, **body.get("extra_body", {}), "stream": True}
    request.pop("extra_body", None)
    while True:
        limit = request.pop("max_tokens")
        dialect = client.dialect
        try:
            usage_option = {"stream_options": {"include_usage": True}} if dialect.takes_stream_options else {}
            # As `chat.completions.create`, less its models of the request and of each chunk: they took most of a step.
            return await client.get_client().post(
                "/chat/completions",
                content=encode_body({**request, **usage_option, dialect.max_tokens_name: limit}),
                options={"security": {"bearer_auth": True}},
                cast_to=object,
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
        except openai.BadRequestError as error:
            if not client.learn_refusal(error, dialect):
                raise
            request["max_tokens"] = limit


def _take_chunk(answer: StreamedAnswer, chunk: object) -> list[str]:
    """Add a chunk to the answer and return its text. Raises StreamCutOff for a malformed chunk."""
    try:
        return _take_chunk_leniently(answer, chunk if isinstance(chunk, dict) else {})
    except (AttributeError, KeyError, TypeError) as error:
        raise StreamCutOff(_MALFORMED) from error


def _take_chunk_leniently(answer: StreamedAnswer, chunk: dict[str, Any]) -> list[str]:
    """Add a chunk to the answer and return its text. Servers differ, so every field may be missing."""
    answer.usage = _parse_usage(chunk.get("usage")) or answer.usage
    model = chunk.get("model")
    answer.model = model[:_MAX_NAME] if model and isinstance(model, str) else answer.model
    texts = []
    for choice in (chunk.get("choices") or [])[:1]:
        finish_reason = choice.get("finish_reason")
        answer.finish_reason = (
            finish_reason[:_MAX_NAME] if finish_reason and isinstance(finish_reason, str) else answer.finish_reason
        )
        delta = choice.get("delta")
        if delta is None:
            continue
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        answer.received += [thought] if isinstance(thought, str) else []
        if content := read_text(delta.get("content")):
            texts.append(content)
        if delta.get("refusal"):
            answer.refusal += delta["refusal"]
            texts.append(str(delta["refusal"]))
        for call_delta in delta.get("tool_calls") or []:
            _take_call(answer, call_delta)
    answer.received += texts
    return texts


def _has_content(chunk: object) -> bool:
    """Tell whether a chunk brings something: text, a part of a call, reasoning, the end, or the usage."""
    fields = chunk if isinstance(chunk, dict) else {}
    choices = fields.get("choices")
    if not isinstance(choices, list) or not choices:
        return fields.get("usage") is not None
    choice = choices[0] if isinstance(choices[0], dict) else {}
    delta = choice.get("delta")
    values = delta if isinstance(delta, dict) else {}
    return bool(choice.get("finish_reason")) or any(value for name, value in values.items() if name != "role")


def _parse_usage(reported: object) -> Usage | None:
    """Return the usage that a server reports; None if it reports none, or impossible numbers."""
    if not isinstance(reported, dict):
        return None
    counts = [reported.get(name) or 0 for name in ("prompt_tokens", "completion_tokens")]
    details = reported.get("prompt_tokens_details")
    cached = (details.get("cached_tokens") or 0) if isinstance(details, dict) else 0
    if any(type(count) is not int or not 0 <= count < MAX_TOKEN_COUNT for count in [*counts, cached]):
        return None
    return Usage(counts[0], cached, counts[1])


def _take_call(answer: StreamedAnswer, delta: dict[str, Any]) -> None:
    """Add a delta to its tool call, by its number and its id.

    Servers that do not number their calls send each one whole; others give parallel calls the same number.
    """
    index, function = delta.get("index"), delta.get("function") or {}
    call_id = delta["id"][:_MAX_NAME] if isinstance(delta.get("id"), str) else ""
    name, arguments = function.get("name") or "", function.get("arguments") or ""
    answer.call_characters += 1 + len(name) + len(arguments)
    alias = index if type(index) is int else call_id
    number = answer.last_calls.get(alias) if alias != "" else None
    if number is not None and answer.tool_calls[number].is_followed_by(call_id, name, arguments):
        number = None
    if call_id and not name:
        number = answer.last_calls.get(call_id, number)
    if number is None:
        if len(answer.tool_calls) >= answer.max_calls:
            answer.dropped_calls += 1 if name else 0
            return
        number = index if type(index) is int and index not in answer.tool_calls else None
        number = max(answer.tool_calls, default=-1) + 1 if number is None else number
        answer.tool_calls[number] = StreamedToolCall(id=call_id)
    answer.last_calls.update({key: number for key in (alias, call_id) if key != ""})
    call = answer.tool_calls[number]
    call.tool = (name if name.startswith(call.tool) else call.tool + name)[:_MAX_NAME]  # some repeat it
    call.arguments += arguments
