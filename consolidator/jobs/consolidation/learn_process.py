"""A process that learns from sessions for a night in another one, which `learn_pool` is a part of.

It reads requests from its standard input and answers on its standard output, a line of JSON each. It opens one
connection of its own: events come to it from the database, and what they taught goes there, not through the other
process. Nothing of any event is written anywhere else. When the other process ends, this one ends too.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any, BinaryIO

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import ConsolidatorError, DatabaseUnavailable, DiskFull, Interrupted, raise_if_disk_full
from consolidator.jobs.consolidation.session_worker import SessionWorker
from consolidator.jobs.ledger import LostClaim, Unit
from consolidator.llm.redaction.redact import redact
from consolidator.settings import Settings

MAX_LINE = 1 << 24  # bytes of a request or an answer: a few names and an error
STOP = "stop"


class LearningFailed(ConsolidatorError):
    """A process failed to learn from sessions, or died."""


ERRORS: dict[str, type[ConsolidatorError]] = {  # by what an answer calls them
    "interrupted": Interrupted,
    "lost": LostClaim,
    "full": DiskFull,
    "unavailable": DatabaseUnavailable,
    "failed": LearningFailed,
}


def main() -> None:
    """Serve requests until the other process closes the input."""
    # A Ctrl-C in a terminal and a service manager's stop reach all processes: the other one decides what ends when.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    silent = os.open(os.devnull, os.O_RDWR)
    os.dup2(silent, 1)
    os.dup2(silent, 2)  # a traceback may quote an event
    asyncio.run(_serve(answers))


async def _serve(answers: BinaryIO) -> None:
    lines = asyncio.StreamReader(limit=MAX_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    start = json.loads(await lines.readline())
    clock, stop = FrozenClock(datetime.fromisoformat(start["now"])), asyncio.Event()
    database = Database(start["dsn"], clock, pool_size=1)
    settings = Settings.model_construct(**start["settings"])
    worker = SessionWorker(database, settings, bytes.fromhex(start["salt"]), stop)
    _send(answers, {"ready": True})
    requests: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    reading = asyncio.create_task(_read_requests(lines, requests, stop))  # the name keeps the task alive
    while True:
        request = await requests.get()
        clock.set(datetime.fromisoformat(request["now"]))
        units = [Unit(request["run"], "session", name, request["owner"], 1) for name in request["sessions"]]
        _send(answers, {**await _learn(worker, units), "titles": worker.titles})
        worker.titles.clear()
        assert not reading.done()


async def _read_requests(
    lines: asyncio.StreamReader, requests: asyncio.Queue[dict[str, Any]], stop: asyncio.Event
) -> None:
    """Pass requests on; end the process when the other one has ended, whatever it is doing."""
    try:
        while line := await lines.readline():
            request = json.loads(line)
            if request == STOP:
                stop.set()
            else:
                requests.put_nowait(request)
    finally:
        os._exit(0)  # the database rolls back what is not committed


async def _learn(worker: SessionWorker, units: list[Unit]) -> dict[str, Any]:
    """Learn from sessions; return what went wrong as a kind and a message, nothing if all went well."""
    try:
        try:
            await worker.run(units)
        except Exception as error:
            raise_if_disk_full(error)
            raise
    except Exception as error:  # noqa: BLE001 - the edge: it is told to the other process, which records it
        kind = next((name for name, known in ERRORS.items() if isinstance(error, known)), None)
        if kind is None:
            return {"error": "failed", "message": redact(f"{type(error).__name__}: {error}")[:2000]}
        return {"error": kind, "message": str(error)}
    return {}


def _send(answers: BinaryIO, answer: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the other process has ended: the next read ends this one
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
