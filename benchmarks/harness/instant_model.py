"""A model server that answers at once, in a child process; prints its base URL and ends with its standard input."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from consolidator.testing import ModelServer, ScriptedReply

LONG_PROMPT = "tell all"  # a message that ends with it gets a long answer
TOOL = "look"  # a message that ends with it gets a call of the tool of that name
TOKENS = 400  # of the long answer


def answer(request: dict[str, Any]) -> ScriptedReply:
    """Answer as the last message asks."""
    last = request["messages"][-1]
    text = str(last["content"])
    if text.endswith(LONG_PROMPT):
        return ScriptedReply(text=" ".join(["token"] * TOKENS))
    if last["role"] == "user" and text.endswith(TOOL):
        return ScriptedReply.calling((TOOL, {"path": "src"}))
    return ScriptedReply(text="Done.")


async def main() -> None:
    """Serve until the parent process closes standard input."""

    def answer_and_forget(request: dict[str, Any]) -> ScriptedReply:
        server.requests.clear()  # a thousand long conversations would take gigabytes
        server.raw_bodies.clear()
        return answer(request)

    server = ModelServer(answers=answer_and_forget)
    async with server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
