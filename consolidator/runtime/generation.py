"""Hears a model out: what it says is committed in small batches, then handed on; never the other way round.

Every way in which a stream can end is told apart: complete, cut off, refused, out of reach.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from consolidator.errors import ModelUnavailable
from consolidator.llm.client import ModelClient, failure
from consolidator.runtime.boundaries import around
from consolidator.runtime.harness import Usage

BATCH_SECONDS = 0.05
BATCH_PIECES = 32
MOST = 10**9  # tokens of one call that a server may tell of
ROOM = 128  # characters that a token has at most; a server that says more than was asked for is not heard to its end
_END = object()
_ODD = "the model's server said something that is no part of an answer"

Commit = Callable[[str], Awaitable[None]]


class CutOff(ModelUnavailable):
    """The stream ended before the model did: what came of it stays, and can be gone on from."""

    def __init__(self, told: str) -> None:
        super().__init__(told, paid=True)


@dataclass(slots=True)
class ModelRequest:
    """A tool call, as the model wrote it."""

    tool: str = ""
    arguments: str = ""

    def told(self) -> Any:
        """Return the arguments as a value; what is no JSON object stays as the model wrote it."""
        try:
            found = json.loads(self.arguments or "{}")
        except (ValueError, RecursionError):
            return self.arguments
        return found if isinstance(found, dict) else self.arguments


@dataclass(slots=True)
class Generated:
    """What a model said in one call."""

    finish: str | None = None
    refusal: str = ""
    usage: Usage | None = None  # None: its server did not say
    model: str | None = None
    calls: dict[int, ModelRequest] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)

    written: int = 0  # characters of calls

    @property
    def text(self) -> str:
        """The text of this call."""
        return "".join(self.pieces)


async def stream_answer(client: ModelClient, body: Mapping[str, Any], heard: Generated, commit: Commit) -> None:
    """Ask a model and fill `heard`, committing its text batch by batch.

    Raises CutOff where it ended in the middle, else what `ModelClient.send` raises.
    """
    queue: asyncio.Queue[object] = asyncio.Queue()
    reading = asyncio.create_task(_read(client, body, heard, queue))
    try:
        with around("model"):
            async for batch in _batches(queue):
                with around("batch"):
                    heard.pieces.append(batch)
                    await commit(batch)
            await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _batches(queue: asyncio.Queue[object]) -> AsyncIterator[str]:
    """Yield what was said in the meantime: for at most BATCH_SECONDS, at most BATCH_PIECES."""
    loop = asyncio.get_running_loop()
    ended = False
    while not ended:
        pieces = [await queue.get()]
        until = loop.time() + BATCH_SECONDS
        while pieces[-1] is not _END and len(pieces) < BATCH_PIECES:
            try:
                pieces.append(queue.get_nowait())
            except asyncio.QueueEmpty:
                try:
                    async with asyncio.timeout_at(until):
                        pieces.append(await queue.get())
                except TimeoutError:
                    break
        ended = pieces[-1] is _END
        said = "".join(piece for piece in pieces if isinstance(piece, str))
        if said:
            yield said


async def _read(client: ModelClient, body: Mapping[str, Any], heard: Generated, queue: asyncio.Queue[object]) -> None:
    """Read a stream to its end, putting its text into the queue, and the end of it in any case."""
    import openai

    began, room = False, ROOM * int(body["max_tokens"])
    try:
        stream = await _opened(client, body)
        async with contextlib.aclosing(stream):
            async for chunk in stream:
                began = True
                before = heard.written
                for piece in _pieces(heard, chunk):
                    queue.put_nowait(piece)
                    room -= len(piece)
                room -= 1 + heard.written - before
                if room < 0:
                    raise CutOff("the model's server went on beyond the length that was asked for")
        if heard.finish is None:
            raise CutOff("the model's server ended its answer in the middle")
    except openai.APIError as error:
        if began and not isinstance(error, openai.APIStatusError):
            raise CutOff(f"the model's server was lost in the middle of its answer: {type(error).__name__}") from error
        raise failure(error) from error
    except ValueError as error:  # of JSON
        raise CutOff(_ODD) from error
    finally:
        queue.put_nowait(_END)


async def _opened(client: ModelClient, body: Mapping[str, Any]) -> Any:
    """Begin a stream, without what the server turns out not to know."""
    import openai

    asked = dict(body)
    # Past the client's search of every message for what to rename: it takes longer than all else that a step does.
    raw = {name: asked.pop(name) for name in ("messages", "tools") if name in asked}
    asked["extra_body"] = {**asked.get("extra_body", {}), **raw}
    while True:
        limit = asked.pop("max_tokens")
        taken = client.dialect
        try:
            wish = {"stream_options": {"include_usage": True}} if taken.tells else {}
            told = {**asked, **wish, taken.limit: limit}
            return await client.opened().chat.completions.create(**told, messages=[], stream=True)
        except openai.BadRequestError as error:
            if not client.learns(error, taken):
                raise
            asked["max_tokens"] = limit


def _pieces(heard: Generated, chunk: Any) -> list[str]:
    """Take in a chunk and return the text in it; raise CutOff for what has the shape of none."""
    try:
        return _taken(heard, chunk)
    except (AttributeError, TypeError) as error:
        raise CutOff(_ODD) from error


def _taken(heard: Generated, chunk: Any) -> list[str]:
    """Take in a chunk leniently, since servers differ, and return the text in it."""
    heard.usage = _usage(getattr(chunk, "usage", None)) or heard.usage
    model = getattr(chunk, "model", None)
    heard.model = model if model and isinstance(model, str) else heard.model
    said = []
    for choice in (getattr(chunk, "choices", None) or [])[:1]:
        finish = choice.finish_reason
        heard.finish = finish if finish and isinstance(finish, str) else heard.finish
        delta = choice.delta
        if delta is None:
            continue
        if delta.content:
            said.append(str(delta.content))
        if getattr(delta, "refusal", None):
            heard.refusal += delta.refusal
            said.append(str(delta.refusal))
        for call in delta.tool_calls or []:
            _call(heard, call)
    return said


def _usage(told: Any) -> Usage | None:
    """Return what a server counted; None where it tells nothing that can be."""
    counts = [getattr(told, name, None) or 0 for name in ("prompt_tokens", "completion_tokens")]
    cached = getattr(getattr(told, "prompt_tokens_details", None), "cached_tokens", None) or 0
    if told is None or any(type(count) is not int or not 0 <= count < MOST for count in [*counts, cached]):
        return None
    return Usage(counts[0], cached, counts[1])


def _call(heard: Generated, told: Any) -> None:
    """Add a piece of a tool call; servers that do not number their calls tell each one whole."""
    number = told.index if type(told.index) is int else len(heard.calls)
    call = heard.calls.setdefault(number, ModelRequest())
    if told.function is not None:
        name, arguments = told.function.name or "", told.function.arguments or ""
        call.tool += name
        call.arguments += arguments
        heard.written += len(name) + len(arguments)
