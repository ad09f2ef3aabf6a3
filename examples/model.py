"""A stand-in for a model's server, for those without a key: canned answers over the real protocol, slowly.

python examples/model.py        # then, elsewhere: OPENAI_BASE_URL=http://127.0.0.1:8399/v1
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import suppress
from typing import Any

from consolidator.testing import ModelServer, ScriptedReply

HELP = (
    "I am a stand-in with canned answers. Say `story` for a long one, to end me in the middle of; `diff`, `note TEXT` "
    "or `deploy` to see tools of examples/mytools.py; anything else to hear how much I remember."
)
STORY = " ".join(
    f"{number}. The {what} was written to the log before anybody saw it."
    for number, what in enumerate(("first word", "second word", "question", "answer", "call", "result") * 5, 1)
)


def answer(asked: dict[str, Any]) -> ScriptedReply:
    """Answer as the last message wants it; only what was sent is known, as with any model."""
    messages = asked["messages"]
    last = messages[-1]
    said = str(last["content"] or "").rpartition("</recalled-memory>")[2].strip()
    tools = {one["function"]["name"] for one in asked.get("tools", ())}
    if last["role"] == "tool":
        return ScriptedReply(text=f"The tool says: {said[:300]}", pace=0.02)
    for word, tool, arguments in (
        ("diff", "git_diff", {"ref": "HEAD"}),
        ("note", "note", {"text": said.partition(" ")[2] or "nothing much"}),
        ("deploy", "deploy", {"version": "1.0"}),
    ):
        if said.startswith(word):
            return (
                ScriptedReply.calling((tool, arguments))
                if tool in tools
                else ScriptedReply(text=f"I have no tool {tool}.")
            )
    if said.startswith("story"):
        return ScriptedReply(text=STORY, pace=0.05)
    if said in ("hello", "hi", "help", "/help"):
        return ScriptedReply(text=HELP, pace=0.02)
    earlier = [str(one["content"]) for one in messages if one["role"] == "user"][:-1]
    told = (
        f"Before that you said {earlier[-1].rpartition('>')[2].strip()[:80]!r}."
        if earlier
        else "It is the first thing you say."
    )
    return ScriptedReply(text=f"You say {said[:80]!r}. {told} I see {len(messages)} messages.", pace=0.02)


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
