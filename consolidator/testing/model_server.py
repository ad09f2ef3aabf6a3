"""A stand-in for a model server: real HTTP, the OpenAI protocol, scripted replies, and a record of every request.

`async with ModelServer(answers=...) as server:` starts one at the base URL `server.url`. `python -m
consolidator.testing.model_server` runs one from a shell.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from consolidator.service.request_limits import BoundedServer


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One reply of the server; the class methods create the usual ones."""

    text: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    refusal: str | None = None
    body: Any = None  # the whole body, instead of a completion
    delay: float = 0  # seconds before the first byte
    disconnect: bool = False  # end the connection in the middle of the body
    usage: dict[str, Any] | None = None  # instead of the counted usage; {} omits it
    as_parts: bool = False  # send the text as a list of parts
    calls: tuple[tuple[str, Any], ...] = ()  # tool calls: a name, and arguments or a string sent as the arguments
    pace: float = 0  # seconds between two pieces of a stream
    stall_after: int | None = None  # pieces of a stream after which nothing follows until the client disconnects
    disconnect_after: int | None = None  # pieces of a stream before a `disconnect`; None: half of them

    @classmethod
    def json(cls, value: Any) -> ScriptedReply:
        """Answer with a JSON value."""
        return cls(text=json.dumps(value, ensure_ascii=False))

    @classmethod
    def calling(cls, *calls: tuple[str, Any], text: str | None = None) -> ScriptedReply:
        """Call tools: each a name with its arguments, or with a string of malformed JSON."""
        return cls(text=text, calls=calls, finish_reason="tool_calls")

    @classmethod
    def disconnecting(cls, text: str, after: int) -> ScriptedReply:
        """Stream the first pieces of a text, then end the connection."""
        return cls(text=text, disconnect=True, disconnect_after=after)

    @classmethod
    def truncated(cls, text: str = '{"facts": [{"subj') -> ScriptedReply:
        """Stop at the token limit."""
        return cls(text=text, finish_reason="length")

    @classmethod
    def refused(cls, refusal: str = "I cannot help with that.") -> ScriptedReply:
        """Refuse to answer."""
        return cls(refusal=refusal)

    @classmethod
    def failed(cls, status: int, *, retry_after: float | None = None, message: str = "overloaded") -> ScriptedReply:
        """Fail with an HTTP status."""
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        return cls(status=status, headers=headers, body={"error": {"message": message, "type": "server_error"}})

    @classmethod
    def unknown_option(cls, name: str = "response_format") -> ScriptedReply:
        """Reject an option of the request that this server does not support."""
        message = f"Unsupported parameter: '{name}' is not supported with this model."
        return cls(status=400, body={"error": {"message": message, "type": "invalid_request_error", "param": name}})


DIMENSIONS = 64
AnswerFunction = Callable[[dict[str, Any]], ScriptedReply | str | dict[str, Any]]
EmbeddingRefusal = Callable[[list[str]], ScriptedReply | None]  # texts -> an error reply; None: send their vectors


@dataclass
class ModelServer:
    """A server on a loopback port; it replies by a function, or from a list whose last reply is repeated."""

    answers: AnswerFunction | Sequence[ScriptedReply | str | dict[str, Any]] = field(
        default_factory=lambda: [ScriptedReply.json({})]
    )
    port: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)  # bodies of completion requests, in order
    embedded_texts: list[list[str]] = field(default_factory=list)  # texts of each embedding request
    raw_bodies: list[str] = field(default_factory=list)  # every body received, to search for what must not be sent
    embedding_reply: ScriptedReply | EmbeddingRefusal | None = None  # sent instead of vectors
    hold_batches: bool = False  # keep batches in progress
    without_batches: bool = False  # answer 404 to uploads, as servers without batches do
    mute_batches: bool = False  # accept batches, and never respond
    prefill: bool = False  # continue a partial answer in the last message
    files: dict[str, str] = field(default_factory=dict)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def __aenter__(self) -> ModelServer:
        # With the protocol named, asyncio sets TCP_NODELAY; else each small piece waits 40 ms for an acknowledgement.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", self.port))
        self.port = self._socket.getsockname()[1]
        routes = [
            Route("/v1/chat/completions", self._complete, methods=["POST"]),
            Route("/v1/models", self._list_models),
            Route("/v1/embeddings", self._embed, methods=["POST"]),
            Route("/v1/files", self._upload, methods=["POST"]),
            Route("/v1/files/{name}/content", self._download),
            Route("/v1/batches", self._create_batch, methods=["POST"]),
            Route("/v1/batches/{name}", self._get_batch),
            Route("/v1/batches/{name}/cancel", self._cancel_batch, methods=["POST"]),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), log_level="critical", lifespan="off", timeout_graceful_shutdown=0
        )
        self._server = BoundedServer(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started:  # noqa: ASYNC110 - the server offers no event to wait for
            await asyncio.sleep(0.005)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        await self._serving
        self._socket.close()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def create_reply(self, body: dict[str, Any]) -> ScriptedReply:
        """Return the reply to a completion request."""
        if callable(self.answers):
            answer = self.answers(body)
        else:
            answer = self.answers[min(len(self.requests) - 1, len(self.answers) - 1)]
        if isinstance(answer, ScriptedReply):
            return answer
        return ScriptedReply(text=answer) if isinstance(answer, str) else ScriptedReply.json(answer)

    async def _read_body(self, request: Request) -> dict[str, Any]:
        text = (await request.body()).decode()
        self.raw_bodies.append(text)
        body: dict[str, Any] = json.loads(text)
        return body

    async def _complete(self, request: Request) -> Response:
        body = await self._read_body(request)
        self.requests.append(body)
        reply = self.create_reply(body)
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if body.get("stream") and reply.status == 200:
            last_message = body["messages"][-1] if self.prefill else {}
            prefix = str(last_message.get("content") or "") if last_message.get("role") == "assistant" else ""
            if prefix and (reply.text or "").startswith(prefix):
                reply = replace(reply, text=(reply.text or "")[len(prefix) :])
            return StreamingResponse(_stream_completion(body, reply), media_type="text/event-stream")
        response_body = build_completion(body, reply) if reply.body is None else reply.body
        if reply.disconnect:
            text = json.dumps(response_body)
            return StreamingResponse(
                _stream_partial(text[: len(text) // 2]),
                headers={"content-length": str(len(text))},
                media_type="application/json",
            )
        return JSONResponse(response_body, status_code=reply.status, headers=reply.headers)

    async def _embed(self, request: Request) -> Response:
        body = await self._read_body(request)
        texts = [body["input"]] if isinstance(body["input"], str) else list(body["input"])
        reply = self.embedding_reply(texts) if callable(self.embedding_reply) else self.embedding_reply
        if reply is not None:
            return JSONResponse(reply.body, status_code=reply.status, headers=reply.headers)
        self.embedded_texts.append(texts)
        data = [
            {"object": "embedding", "index": index, "embedding": embed_text(text)} for index, text in enumerate(texts)
        ]
        tokens = sum(_estimate_tokens(text) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse({"object": "list", "data": data, "model": body["model"], "usage": usage})

    async def _upload(self, request: Request) -> Response:
        if self.without_batches:
            return JSONResponse({"error": {"message": "not found"}}, status_code=404)
        async with request.form() as form:
            upload = form["file"]
            text = upload if isinstance(upload, str) else (await upload.read()).decode()
        self.raw_bodies.append(text)
        return JSONResponse(self._save_file(text))

    def _save_file(self, text: str) -> dict[str, Any]:
        name = f"file-{len(self.files) + 1}"
        self.files[name] = text
        size = len(text.encode())
        return {
            "id": name, "object": "file", "bytes": size, "created_at": 0, "filename": "batch.jsonl",
            "purpose": "batch", "status": "processed",
        }  # fmt: skip

    async def _list_models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "stand-in", "object": "model"}]})

    async def _download(self, request: Request) -> Response:
        text = self.files.get(request.path_params["name"])
        return PlainTextResponse(text) if text is not None else JSONResponse({"error": {}}, status_code=404)

    async def _create_batch(self, request: Request) -> Response:
        body = await self._read_body(request)
        name = f"batch-{len(self.batches) + 1}"
        self.batches[name] = {
            "id": name, "object": "batch", "endpoint": body["endpoint"], "input_file_id": body["input_file_id"],
            "completion_window": body["completion_window"], "status": "in_progress", "created_at": 0,
            "output_file_id": None, "error_file_id": None,
        }  # fmt: skip
        if self.mute_batches:
            await asyncio.Event().wait()
        return JSONResponse(self.batches[name])

    async def _cancel_batch(self, request: Request) -> Response:
        batch = self.batches[request.path_params["name"]]
        batch["status"] = "cancelling"
        return JSONResponse(batch)

    async def _get_batch(self, request: Request) -> Response:
        batch = self.batches.get(request.path_params["name"])
        if batch is None:
            return JSONResponse({"error": {"message": "no such batch"}}, status_code=404)
        if batch["status"] == "in_progress" and not self.hold_batches:
            lines = [self._answer_line(json.loads(line)) for line in self.files[batch["input_file_id"]].splitlines()]
            batch["output_file_id"] = self._save_file("".join(json.dumps(line) + "\n" for line in lines))["id"]
            batch["status"] = "completed"
        return JSONResponse(batch)

    def _answer_line(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return the output line of a batch's input line."""
        self.requests.append(line["body"])
        reply = self.create_reply(line["body"])
        body = build_completion(line["body"], reply) if reply.body is None else reply.body
        response = {"status_code": reply.status, "request_id": line["custom_id"], "body": body}
        return {"id": line["custom_id"], "custom_id": line["custom_id"], "response": response, "error": None}


def build_completion(request_body: dict[str, Any], reply: ScriptedReply) -> dict[str, Any]:
    """Return a reply as a chat completion."""
    content: Any = [{"type": "text", "text": reply.text}] if reply.as_parts else reply.text
    message = {"role": "assistant", "content": content, "refusal": reply.refusal}
    if reply.calls:
        message["tool_calls"] = [_format_tool_call(index, *call) for index, call in enumerate(reply.calls)]
    completion = {
        "id": f"chatcmpl-{hashlib.sha1(json.dumps(request_body).encode(), usedforsecurity=False).hexdigest()[:12]}",
        "object": "chat.completion",
        "created": 0,
        "model": request_body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
        "usage": _count_usage(request_body, reply),
    }
    if not completion["usage"]:
        del completion["usage"]
    return completion


def _count_usage(request_body: dict[str, Any], reply: ScriptedReply) -> dict[str, Any]:
    """Return the usage that a reply scripts, or else one that counts its tokens and the request's."""
    if reply.usage is not None:
        return reply.usage
    input_tokens = sum(_estimate_tokens(str(message.get("content", ""))) for message in request_body["messages"])
    output_tokens = _estimate_tokens(reply.text or reply.refusal or "")
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
    }


def embed_text(text: str) -> list[float]:
    """Return a text's vector: its words hashed into a few dimensions, so that texts with common words are near."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.casefold()):
        digest = hashlib.blake2b(word.encode(), digest_size=4).digest()
        vector[digest[0] % DIMENSIONS] += 1.0 if digest[1] % 2 else -1.0
    norm = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / norm for value in vector]


def _estimate_tokens(text: str) -> int:
    """Count four characters as a token."""
    return -(-len(text) // 4)


async def _stream_completion(request_body: dict[str, Any], reply: ScriptedReply) -> AsyncIterator[str]:
    """Yield a reply as server-sent events; raise ConnectionResetError where it disconnects."""
    frame = {"id": "chatcmpl-stream", "object": "chat.completion.chunk", "created": 0, "model": request_body["model"]}
    pieces: list[dict[str, Any]] = [{"content": word} for word in re.findall(r"\S+\s*|\s+", reply.text or "")]
    for index, call in enumerate(reply.calls):
        pieces += _split_tool_call(_format_tool_call(index, *call))
    disconnect_after = len(pieces) // 2 if reply.disconnect_after is None else reply.disconnect_after
    for number, piece in enumerate(pieces):
        if reply.disconnect and number >= disconnect_after:
            raise ConnectionResetError("cut")
        if number == reply.stall_after:
            await asyncio.Event().wait()
        if reply.pace and number:
            await asyncio.sleep(reply.pace)
        choice = {"index": 0, "delta": piece, "finish_reason": None}
        yield f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n"
    if reply.disconnect:
        raise ConnectionResetError("cut")
    choice = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
    yield f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n"
    if (request_body.get("stream_options") or {}).get("include_usage"):
        usage = _count_usage(request_body, reply) or None
        yield f"data: {json.dumps({**frame, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


def _format_tool_call(index: int, name: str, arguments: Any) -> dict[str, Any]:
    """Return a tool call in the protocol's form."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": text}}


def _split_tool_call(call: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a tool call as two deltas of a stream: its name with half of the arguments, then the other half."""
    arguments = call["function"]["arguments"]
    half = len(arguments) // 2
    first = {**call, "function": {"name": call["function"]["name"], "arguments": arguments[:half]}}
    rest = {"index": call["index"], "function": {"arguments": arguments[half:]}}
    return [{"tool_calls": [first]}, {"tool_calls": [rest]}]


async def _stream_partial(text: str) -> AsyncIterator[str]:
    """Yield less than the announced length, so that the server ends the connection."""
    yield text


async def _serve_forever() -> None:
    async with ModelServer(port=8399) as server:
        Console().print(f"answering {{}} to everything at {server.url}; end with Ctrl-C")
        await asyncio.Event().wait()


if __name__ == "__main__":
    from contextlib import suppress

    from rich.console import Console

    with suppress(KeyboardInterrupt):
        asyncio.run(_serve_forever())
