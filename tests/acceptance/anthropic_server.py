"""A stand-in for Anthropic's server: real HTTP, the messages API whole and as a stream, with scripted answers."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from consolidator.service.request_limits import BoundedServer

Block = dict[str, Any]
USAGE = {"input_tokens": 20, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 0, "output_tokens": 1}
OUTPUT_TOKENS = 30


@dataclass
class AnthropicServer:
    """Answers requests one after the other: each answer is the blocks of a message, or the status of an error."""

    answers: Sequence[list[Block] | int]
    url: str = ""
    breaks_after: int | None = None  # events of the next stream, once
    bodies: list[bytes] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        """Answer `POST /v1/messages`."""
        self.bodies.append(await request.body())
        self.keys.append(request.headers.get("authorization"))
        body, answer = json.loads(self.bodies[-1]), self.answers[min(len(self.bodies), len(self.answers)) - 1]
        if isinstance(answer, int):
            error = {"type": "overloaded_error", "message": "Overloaded"}
            return JSONResponse({"type": "error", "error": error}, answer, {"request-id": "req_1"})
        stop = "tool_use" if any(block["type"] == "tool_use" for block in answer) else "end_turn"
        message = {
            "id": f"msg_{len(self.bodies)}", "type": "message", "role": "assistant", "model": body["model"],
            "content": answer, "stop_reason": stop, "stop_sequence": None,
            "usage": {**USAGE, "output_tokens": OUTPUT_TOKENS},
        }  # fmt: skip
        if not body.get("stream"):
            return JSONResponse(message)
        breaks_after, self.breaks_after = self.breaks_after, None
        return StreamingResponse(_stream(message, breaks_after), media_type="text/event-stream")


async def _stream(message: dict[str, Any], breaks_after: int | None) -> AsyncIterator[str]:
    for number, event in enumerate(_list_events(message)):
        if number == breaks_after:
            raise ConnectionResetError("cut")
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _list_events(message: dict[str, Any]) -> list[dict[str, Any]]:
    begun = {**message, "content": [], "stop_reason": None, "usage": USAGE}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(message["content"]):
        start, deltas = _split_block(block)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": OUTPUT_TOKENS}})
    return [*events, {"type": "message_stop"}]


def _split_block(block: Block) -> tuple[Block, list[Block]]:
    match block["type"]:
        case "text":
            words = block["text"].split(" ")
            parts = [word if number == 0 else f" {word}" for number, word in enumerate(words)]
            return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in parts]
        case "thinking":
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                signature,
            ]
        case "tool_use" | "server_tool_use":
            text = json.dumps(block["input"])
            parts = ["", text[:7], text[7:]]
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
    return block, []


@asynccontextmanager
async def serve_anthropic(*answers: list[Block] | int) -> AsyncIterator[AnthropicServer]:
    """Serve on a free port of this machine; the last answer is repeated."""
    server = AnthropicServer(answers)
    listener = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/v1/messages", server.answer, methods=["POST"])])
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
    uvicorn_server = BoundedServer(config)
    serving = asyncio.create_task(uvicorn_server.serve(sockets=[listener]))
    server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield server
    finally:
        uvicorn_server.should_exit = uvicorn_server.force_exit = True
        await serving
        listener.close()
