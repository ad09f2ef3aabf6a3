"""An agent in a dozen lines: run it, end it with kill -9, run it again.

python examples/agent.py "summarise this change"
"""

from __future__ import annotations

import asyncio
import sys

from mytools import git_diff, note

from consolidator import Consolidator


async def main(said: str) -> None:
    """Go on with what was open, then say something."""
    async with Consolidator(tools=[git_diff, note]) as agent:
        session = await agent.open("example:cli:you", system="You are brief.")
        print(f"[{session.restored_turns} earlier turns]")
        async for piece in session.resume():  # what the last process was stopped in
            print(piece, end="", flush=True)
        print(f"\n> {said}")
        async for piece in session.send(said):
            print(piece, end="", flush=True)
        print(f"\n[{session.result.finish_reason if session.result else 'nothing to do'}]")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "hello"))
