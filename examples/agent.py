"""An agent in a dozen lines. Run it, kill it with kill -9, run it again.

python examples/agent.py "summarise this change"
"""

from __future__ import annotations

import asyncio
import sys

from mytools import git_diff, note

from consolidator import Consolidator


async def main(message: str) -> None:
    """Resume the open turn, then send a message."""
    async with Consolidator(tools=[git_diff, note]) as agent:
        session = await agent.open("example:cli:you", system="You are brief.")
        print(f"[{session.restored_turns} earlier turns]")
        async for text in session.resume():  # the turn that the last process left open
            print(text, end="", flush=True)
        print(f"\n> {message}")
        async for text in session.send(message):
            print(text, end="", flush=True)
        print(f"\n[{session.result.finish_reason if session.result else 'nothing to do'}]")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "hello"))
