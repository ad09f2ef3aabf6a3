"""What every side shares: the interface, the tool, and a streamed call of the model for libraries that bring none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from openai import AsyncOpenAI

MODEL = "stand-in"
TOOL = "look"  # as the instant model calls it
ANSWER = "Done."
MESSAGES_OF_A_TURN = 4  # the person's, the model's call, the tool's result, the answer
TOOL_SCHEMA: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": TOOL,
        "description": "Look at a path.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


class Side(Protocol):
    """One library with its database open."""

    version: str

    async def open_session(self, key: str) -> None:
        """Make a session ready for its first turn."""
        ...

    async def take_turn(self, key: str, text: str, mode: str) -> None:
        """Send a message to a session and read its whole answer; `mode` is how a library with a choice writes."""
        ...

    async def count_messages(self, key: str) -> int:
        """Return how many messages a fresh read of the store finds."""
        ...


def look(path: str) -> str:
    """Look at a path."""
    return f"{path} is there"


def create_client(request: dict[str, Any]) -> AsyncOpenAI:
    """Return the client of the model's server."""
    return AsyncOpenAI(base_url=request["model_url"], api_key="none", max_retries=0)


def server_url(request: dict[str, Any], scheme: str, database: str | None = None) -> str:
    """Return the address of the side's database for SQLAlchemy; the host may be a folder with a socket."""
    server = request["server"]
    login = quote(server["user"]) + (f":{quote(server['password'])}" if server.get("password") else "")
    place = urlencode({"host": server["host"], "port": server["port"]})
    return f"{scheme}://{login}@/{database or server['dbname']}?{place}"


async def stream_reply(
    client: AsyncOpenAI, messages: list[dict[str, Any]], on_token: Callable[[str], object] | None = None
) -> dict[str, Any]:
    """Return the model's reply as a message; with `on_token` it is streamed."""
    conversation: Any = messages
    tools: Any = [TOOL_SCHEMA]
    completions = client.chat.completions
    if on_token is None:
        completion = await completions.create(model=MODEL, messages=conversation, tools=tools)
        message: dict[str, Any] = completion.choices[0].message.model_dump(exclude_none=True)
        return message
    text = ""
    calls: dict[int, dict[str, str]] = {}
    async for chunk in await completions.create(model=MODEL, messages=conversation, tools=tools, stream=True):
        for choice in chunk.choices:
            if choice.delta.content:
                on_token(choice.delta.content)
                text += choice.delta.content
            for delta in choice.delta.tool_calls or ():
                call = calls.setdefault(delta.index, {"id": "", "name": "", "arguments": ""})
                call["id"] += delta.id or ""
                if delta.function is not None:
                    call["name"] += delta.function.name or ""
                    call["arguments"] += delta.function.arguments or ""
    if not calls:
        return {"role": "assistant", "content": text}
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in calls.values()
        ],
    }


def run_tools(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of the calls in a reply, as messages."""
    return [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "content": look(**json.loads(call["function"]["arguments"])),
        }
        for call in reply.get("tool_calls", ())
    ]
