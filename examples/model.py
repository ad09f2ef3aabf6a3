"""A stand-in for a model server, for use without an API key: canned answers over the real protocol, slowly.

python examples/model.py        # then, in another terminal: OPENAI_BASE_URL=http://127.0.0.1:8399/v1
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from typing import Any

from consolidator.testing import ModelServer, ScriptedReply

HELP = (
    "I am a stand-in with canned answers. Say `story` for a long one, to kill me in the middle of; `diff`, `note TEXT` "
    "or `deploy` to see the tools of examples/mytools.py; anything else to see how much I remember."
)
STORY = " ".join(
    f"{number}. The {item} was written to the log before anybody saw it."
    for number, item in enumerate(("first word", "second word", "question", "answer", "call", "result") * 5, 1)
)


def answer(request: dict[str, Any]) -> ScriptedReply:
    """Answer as the last message asks. Like any model, it knows only what the request holds."""
    messages = request["messages"]
    last = messages[-1]
    text = str(last["content"] or "").rpartition("</recalled-memory>")[2].strip()
    tools = {tool["function"]["name"] for tool in request.get("tools", ())}
    if last["role"] == "tool":
        return ScriptedReply(text=f"The tool says: {text[:300]}", pace=0.02)
    for command, tool, arguments in (
        ("diff", "git_diff", {"ref": "HEAD"}),
        ("note", "note", {"text": text.partition(" ")[2] or "nothing much"}),
        ("deploy", "deploy", {"version": "1.0"}),
        ("remember", "remember", {"statement": text.partition(" ")[2] or "nothing much"}),
        ("recall", "recall", {"query": text.partition(" ")[2] or "anything"}),
    ):
        if text.startswith(command):
            return (
                ScriptedReply.calling((tool, arguments))
                if tool in tools
                else ScriptedReply(text=f"I have no tool {tool}.")
            )
    if text.startswith("story"):
        return ScriptedReply(text=STORY, pace=0.05)
    if text in ("hello", "hi", "help", "/help"):
        return ScriptedReply(text=HELP, pace=0.02)
    earlier = [str(message["content"]) for message in messages if message["role"] == "user"][:-1]
    memory = (
        f"Before that you said {earlier[-1].rpartition('>')[2].strip()[:80]!r}."
        if earlier
        else "It is the first thing you say."
    )
    return ScriptedReply(text=f"You say {text[:80]!r}. {memory} I see {len(messages)} messages.", pace=0.02)


async def main(port: int) -> None:
    """Serve until Ctrl-C."""
    async with ModelServer(answers=answer, port=port) as server:
        print(f"answering at {server.url}; end with Ctrl-C", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8399)
    with suppress(KeyboardInterrupt):
        asyncio.run(main(parser.parse_args().port))
