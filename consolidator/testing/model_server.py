"""A stand-in for a model's server: real HTTP, the OpenAI protocol, answers by a script, and a log of all it was asked.

`async with ModelServer(answers=...) as server:` then `server.url` is a base URL. `python -m
consolidator.testing.model_server` runs one by hand.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from consolidator.testing.replies import ScriptedReply

DIMENSIONS = 64
Answer = Callable[[dict[str, Any]], ScriptedReply | str | dict[str, Any]]
Refusal = Callable[
    [list[str]], ScriptedReply | None
]  # what some texts are answered with, None where they get their vectors


class _HttpServer(uvicorn.Server):
    """A server that leaves the process's signals alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass
class ModelServer:
    """A server on a loopback port; it answers by a function, or by a list, whose last reply is repeated."""

    answers: Answer | Sequence[ScriptedReply | str | dict[str, Any]] = field(
        default_factory=lambda: [ScriptedReply.json({})]
    )
    port: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)  # bodies of completions, as they came
    embedded: list[list[str]] = field(default_factory=list)  # texts of embeddings, by request
    raw: list[str] = field(default_factory=list)  # every body that arrived, to look for what must not have
    embedding: ScriptedReply | Refusal | None = None  # what embeddings are answered with, in place of vectors
    hold_batches: bool = False  # leave batches unfinished
    without_batches: bool = False
    mute_batches: bool = False  # take batches, and never say so
    prefill: bool = False  # go on from an answer's beginning, where the last message is one
    files: dict[str, str] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def __aenter__(self) -> ModelServer:
        # Named as TCP, so that asyncio has small pieces leave at once: else each waits 40 ms for a receipt.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", self.port))
        self.port = self._socket.getsockname()[1]
        routes = [
            Route("/v1/chat/completions", self._complete, methods=["POST"]),
            Route("/v1/embeddings", self._embed, methods=["POST"]),
            Route("/v1/files", self._upload, methods=["POST"]),
            Route("/v1/files/{name}/content", self._download),
            Route("/v1/batches", self._batch, methods=["POST"]),
            Route("/v1/batches/{name}", self._batch_state),
            Route("/v1/batches/{name}/cancel", self._cancel, methods=["POST"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), log_level="critical", lifespan="off", timeout_graceful_shutdown=0
        )
        self._server = _HttpServer(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.005)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        await self._serving
        self._socket.close()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def reply(self, asked: dict[str, Any]) -> ScriptedReply:
        """Return what is answered to a completion."""
        if callable(self.answers):
            found = self.answers(asked)
        else:
            found = self.answers[min(len(self.requests) - 1, len(self.answers) - 1)]
        if isinstance(found, ScriptedReply):
            return found
        return ScriptedReply(text=found) if isinstance(found, str) else ScriptedReply.json(found)

    async def _read(self, request: Request) -> dict[str, Any]:
        body = (await request.body()).decode()
        self.raw.append(body)
        found: dict[str, Any] = json.loads(body)
        return found

    async def _complete(self, request: Request) -> Response:
        asked = await self._read(request)
        self.requests.append(asked)
        told = self.reply(asked)
        if told.hang:
            await asyncio.sleep(told.hang)
        if asked.get("stream") and told.status == 200:
            begun = asked["messages"][-1] if self.prefill else {}
            said = str(begun.get("content") or "") if begun.get("role") == "assistant" else ""
            if said and (told.text or "").startswith(said):
                told = replace(told, text=(told.text or "")[len(said) :])
            return StreamingResponse(_streamed(asked, told), media_type="text/event-stream")
        body = completion(asked, told) if told.body is None else told.body
        if told.cut:
            whole = json.dumps(body)
            return StreamingResponse(
                _cut(whole[: len(whole) // 2]),
                headers={"content-length": str(len(whole))},
                media_type="application/json",
            )
        return JSONResponse(body, status_code=told.status, headers=told.headers)

    async def _embed(self, request: Request) -> Response:
        asked = await self._read(request)
        texts = [asked["input"]] if isinstance(asked["input"], str) else list(asked["input"])
        told = self.embedding(texts) if callable(self.embedding) else self.embedding
        if told is not None:
            return JSONResponse(told.body, status_code=told.status, headers=told.headers)
        self.embedded.append(texts)
        data = [{"object": "embedding", "index": n, "embedding": vector(text)} for n, text in enumerate(texts)]
        tokens = sum(_tokens(text) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse({"object": "list", "data": data, "model": asked["model"], "usage": usage})

    async def _upload(self, request: Request) -> Response:
        if self.without_batches:
            return JSONResponse({"error": {"message": "not found"}}, status_code=404)
        async with request.form() as form:
            upload = form["file"]
            text = upload if isinstance(upload, str) else (await upload.read()).decode()
        self.raw.append(text)
        return JSONResponse(self._keep(text))

    def _keep(self, text: str) -> dict[str, Any]:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = text
        size = len(text.encode())
        return {
            "id": name, "object": "file", "bytes": size, "created_at": 0, "filename": "batch.jsonl",
            "purpose": "batch", "status": "processed",
        }  # fmt: skip

    async def _download(self, request: Request) -> Response:
        text = self.files.get(request.path_params["name"])
        return PlainTextResponse(text) if text is not None else JSONResponse({"error": {}}, status_code=404)

    async def _batch(self, request: Request) -> Response:
        asked = await self._read(request)
        name = f"batch-{len(self.batches) + 1}"
        self.batches[name] = {
            "id": name, "object": "batch", "endpoint": asked["endpoint"], "input_file_id": asked["input_file_id"],
            "completion_window": asked["completion_window"], "status": "in_progress", "created_at": 0,
            "output_file_id": None, "error_file_id": None,
        }  # fmt: skip
        if self.mute_batches:
            await asyncio.Event().wait()
        return JSONResponse(self.batches[name])

    async def _cancel(self, request: Request) -> Response:
        found = self.batches[request.path_params["name"]]
        found["status"] = "cancelling"
        return JSONResponse(found)

    async def _batch_state(self, request: Request) -> Response:
        found = self.batches.get(request.path_params["name"])
        if found is None:
            return JSONResponse({"error": {"message": "no such batch"}}, status_code=404)
        if found["status"] == "in_progress" and not self.hold_batches:
            lines = [self._line(json.loads(line)) for line in self.files[found["input_file_id"]].splitlines()]
            found["output_file_id"] = self._keep("".join(json.dumps(line) + "\n" for line in lines))["id"]
            found["status"] = "completed"
        return JSONResponse(found)

    def _line(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(asked["body"])
        told = self.reply(asked["body"])
        body = completion(asked["body"], told) if told.body is None else told.body
        response = {"status_code": told.status, "request_id": asked["custom_id"], "body": body}
        return {"id": asked["custom_id"], "custom_id": asked["custom_id"], "response": response, "error": None}


def completion(asked: dict[str, Any], told: ScriptedReply) -> dict[str, Any]:
    """Return a completion as the protocol has it."""
    sent = sum(_tokens(str(message.get("content", ""))) for message in asked["messages"])
    back = _tokens(told.text or told.refusal or "")
    usage = {"prompt_tokens": sent, "completion_tokens": back, "total_tokens": sent + back}
    content: Any = [{"type": "text", "text": told.text}] if told.parts else told.text
    message = {"role": "assistant", "content": content, "refusal": told.refusal}
    if told.calls:
        message["tool_calls"] = [_asked_for(n, *call) for n, call in enumerate(told.calls)]
    found = {
        "id": f"chatcmpl-{hashlib.sha1(json.dumps(asked).encode(), usedforsecurity=False).hexdigest()[:12]}",
        "object": "chat.completion",
        "created": 0,
        "model": asked["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": told.finish}],
        "usage": usage if told.usage is None else told.usage,
    }
    if not found["usage"]:
        del found["usage"]
    return found


def vector(text: str) -> list[float]:
    """Return a text's vector: its words hashed into a few dimensions, so that texts that share words are near."""
    found = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.casefold()):
        digest = hashlib.blake2b(word.encode(), digest_size=4).digest()
        found[digest[0] % DIMENSIONS] += 1.0 if digest[1] % 2 else -1.0
    size = math.sqrt(sum(value * value for value in found)) or 1.0
    return [value / size for value in found]


def _tokens(text: str) -> int:
    """Count four characters as a token, as a rule of thumb says."""
    return -(-len(text) // 4)


async def _streamed(asked: dict[str, Any], told: ScriptedReply) -> AsyncIterator[str]:
    frame = {"id": "chatcmpl-stream", "object": "chat.completion.chunk", "created": 0, "model": asked["model"]}
    pieces: list[dict[str, Any]] = [{"content": word} for word in re.findall(r"\S+\s*|\s+", told.text or "")]
    for number, call in enumerate(told.calls):
        pieces += _call_pieces(_asked_for(number, *call))
    last = len(pieces) // 2 if told.cut_after is None else told.cut_after
    for number, piece in enumerate(pieces):
        if told.cut and number >= last:
            raise ConnectionResetError("cut")
        if number == told.silent_after:
            await asyncio.Event().wait()
        if told.pace and number:
            await asyncio.sleep(told.pace)
        choice = {"index": 0, "delta": piece, "finish_reason": None}
        yield f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n"
    if told.cut:
        raise ConnectionResetError("cut")
    choice = {"index": 0, "delta": {}, "finish_reason": told.finish}
    yield f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n"
    if (asked.get("stream_options") or {}).get("include_usage"):
        usage = completion(asked, told).get("usage")
        yield f"data: {json.dumps({**frame, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


def _asked_for(number: int, name: str, arguments: Any) -> dict[str, Any]:
    """Return a tool call as the protocol has it."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "index": number,
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": written},
    }


def _call_pieces(call: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a tool call as a stream has it: its name, then its arguments in halves."""
    written = call["function"]["arguments"]
    half = len(written) // 2
    first = {**call, "function": {"name": call["function"]["name"], "arguments": written[:half]}}
    rest = {"index": call["index"], "function": {"arguments": written[half:]}}
    return [{"tool_calls": [first]}, {"tool_calls": [rest]}]


async def _cut(text: str) -> AsyncIterator[str]:
    """Say a part, then end the connection: the server refuses to have said less than it announced."""
    yield text


async def _by_hand() -> None:
    async with ModelServer(port=8399) as server:
        Console().print(f"answering {{}} to everything at {server.url}; end with Ctrl-C")
        await asyncio.Event().wait()


if __name__ == "__main__":
    from contextlib import suppress

    from rich.console import Console

    with suppress(KeyboardInterrupt):
        asyncio.run(_by_hand())
