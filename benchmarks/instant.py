"""A model's server in a process of its own that answers at once; says its base URL, ends with its standard input."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from consolidator.testing import ModelServer, ScriptedReply

LONG = "tell all"  # to be said, to be told all of a long text
TOOL = "look"  # to be said, to be asked for a call of the tool of that name
TOKENS = 400


def answer(asked: dict[str, Any]) -> ScriptedReply:
    """Answer as the last message wants it."""
    last = asked["messages"][-1]
    said = str(last["content"])
    if said.endswith(LONG):
        return ScriptedReply(text=" ".join(["token"] * TOKENS))
    if last["role"] == "user" and said.endswith(TOOL):
        return ScriptedReply.calling((TOOL, {"path": "src"}))
    return ScriptedReply(text="Done.")


async def main() -> None:
    """Serve until nobody holds the other end any more."""
    async with ModelServer(answers=answer) as server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
