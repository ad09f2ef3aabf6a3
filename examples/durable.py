"""A durable engine calls `step`: Absurd keeps a pointer, the log keeps everything else.

pip install absurd-sdk absurdctl
absurdctl init && absurdctl create-queue default     # once, in the database of ABSURD_DATABASE_URL
python examples/durable.py "diff"       # and again after kill -9: Absurd continues the turn that was open
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from typing import Any

from absurd_sdk import AsyncAbsurd, AsyncTaskContext, RetryStrategy
from mytools import git_diff, note

from consolidator import Consolidator, Session

agent = Consolidator(tools=[git_diff, note])
engine = AsyncAbsurd()
LEASE_SECONDS = 30  # then another worker takes over the task of one that died
RETRIES: RetryStrategy = {"kind": "fixed", "base_seconds": 1}  # such as of SessionBusy


async def take_step(session_id: str) -> dict[str, Any]:
    """Take one step. Absurd stores its pointer into the log, not the conversation."""
    result = await agent.step(session_id)
    return {
        "to_message_number": result.to_seq,
        "finish_reason": result.finish_reason,
        "usage": asdict(result.usage),
        "executed_tool_count": result.executed_tool_count,
    }


@engine.register_task(name="turn")
async def run_turn(params: Any, task: AsyncTaskContext) -> dict[str, Any]:
    """Step until every message is answered, or a person must decide."""
    while True:
        pointer: dict[str, Any] = await task.step("step", lambda: take_step(params["session_id"]))
        if pointer["finish_reason"] not in ("tool_calls", "interrupted", "stop"):  # `idle` once all is answered
            return pointer


async def main(message: str) -> None:
    """Send a message, and have a task answer it."""
    async with agent:
        session = await agent.open("durable:cli:you")
        seq = await session.follow_up(message)
        task = await engine.spawn(
            "turn",
            {"session_id": session.id},
            max_attempts=60,
            retry_strategy=RETRIES,
            idempotency_key=f"{session.id}:{seq}",  # one task for each message
        )
        worker = asyncio.create_task(engine.start_worker(claim_timeout=LEASE_SECONDS))  # of tasks left open, too
        done = await engine.await_task_result(task["task_id"])
        engine.stop_worker()
        await worker
        if isinstance(done.result, dict):
            await print_messages(session, after=seq, upto=int(str(done.result["to_message_number"])))
    await engine.close()


async def print_messages(session: Session, *, after: int, upto: int) -> None:
    """Print the messages that a pointer covers."""
    for message in await session.history():
        if after < message.seq <= upto:
            print(message.text)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "diff"))
