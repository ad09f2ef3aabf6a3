"""A durable engine calls `step`: DBOS keeps a pointer, the log keeps everything else. pip install dbos

python examples/durable.py "diff"       # and again after kill -9: DBOS continues the turn that was open
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import asdict
from typing import Any

from dbos import DBOS, SetWorkflowID
from mytools import git_diff, note

from consolidator import Consolidator, Session

agent = Consolidator(tools=[git_diff, note])


@DBOS.step(retries_allowed=True, max_attempts=60, interval_seconds=1, backoff_rate=1)  # retries SessionBusy
async def take_step(session_id: str) -> dict[str, Any]:
    """Take one step. DBOS stores its pointer into the log, not the conversation."""
    result = await agent.step(session_id)
    return {
        "to_message_number": result.to_seq,
        "finish_reason": result.finish_reason,
        "usage": asdict(result.usage),
        "executed_tool_count": result.executed_tool_count,
    }


@DBOS.workflow()
async def run_turn(session_id: str) -> dict[str, Any]:
    """Step until the model has answered, or a person must decide."""
    while True:
        pointer = await take_step(session_id)
        if pointer["finish_reason"] not in ("tool_calls", "interrupted"):
            return pointer


async def main(message: str) -> None:
    """Send a message, and have a workflow answer it."""
    DBOS(config={"name": "example", "system_database_url": os.environ.get("DBOS_SYSTEM_DATABASE_URL")})
    async with agent:
        DBOS.launch()  # continues workflows that a crash left open
        session = await agent.open("durable:cli:you")
        seq = await session.follow_up(message)
        with SetWorkflowID(f"{session.id}:{seq}"):  # one workflow for each message
            handle = await DBOS.start_workflow_async(run_turn, session.id)
        pointer = await handle.get_result()
        await print_messages(session, after=seq, upto=pointer["to_message_number"])
    DBOS.destroy()  # last: it ends the threads that closing the agent needs


async def print_messages(session: Session, *, after: int, upto: int) -> None:
    """Print the messages that a pointer covers."""
    for message in await session.history():
        if after < message.seq <= upto:
            print(message.text)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "diff"))
