"""A durable engine drives `step`: DBOS keeps the pointer, the log keeps everything else. pip install dbos

python examples/durable.py "diff"       # and, after kill -9, again: DBOS goes on with the turn that was open
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from dbos import DBOS, SetWorkflowID
from mytools import git_diff, note

from consolidator import Consolidator, Session

agent = Consolidator(tools=[git_diff, note])


@DBOS.step(retries_allowed=True, max_attempts=60, interval_seconds=1, backoff_rate=1)  # another may drive it
async def one_step(session_id: str) -> dict[str, Any]:
    """Take one step: what DBOS keeps of it is a pointer into the log, not the conversation."""
    done = await agent.step(session_id)
    return {"to_seq": done.to_seq, "finish_reason": done.finish_reason}


@DBOS.workflow()
async def turn(session_id: str) -> dict[str, Any]:
    """Step until the model has answered, or a person has to say a word."""
    while True:
        pointer = await one_step(session_id)
        if pointer["finish_reason"] not in ("tool_calls", "interrupted"):
            return pointer


async def main(said: str) -> None:
    """Say something in a session, and have a workflow answer it."""
    DBOS(config={"name": "example", "system_database_url": os.environ.get("DBOS_SYSTEM_DATABASE_URL")})
    async with agent:
        DBOS.launch()  # goes on with workflows that a crash left open
        session = await agent.open("durable:cli:you")
        seq = await session.follow_up(said)
        with SetWorkflowID(f"{session.id}:{seq}"):  # the same message never has two workflows
            handle = await DBOS.start_workflow_async(turn, session.id)
        pointer = await handle.get_result()
        await show(session, after=seq, upto=pointer["to_seq"])
    DBOS.destroy()  # last: it ends the threads that closing the agent needs


async def show(session: Session, *, after: int, upto: int) -> None:
    """Print what a pointer points to."""
    for told in await session.history():
        if after < told.seq <= upto:
            print(told.text)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "diff"))
