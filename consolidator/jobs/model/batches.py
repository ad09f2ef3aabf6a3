"""Questions through the provider's batches, at half the price: handed in at night, collected by a later tick.

A batch only fills the store of answers; the night that comes after finds them there. What fails goes the normal way.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal

from ulid import ULID

from consolidator.database import Connection, Database
from consolidator.errors import ModelUnavailable
from consolidator.llm.client import ModelClient, ModelReply, client_of, failure, read_completion
from consolidator.llm.prices import price
from consolidator.llm.redaction.redact import redact
from consolidator.settings import Settings
from consolidator.store.log import sessions
from consolidator.store.nights import answers
from consolidator.store.queries import Row

log = logging.getLogger("consolidator.llm")
MOST = 10_000  # questions of one batch
WINDOW = timedelta(hours=24)  # what has not come back by then goes the normal way
HANDING_IN = timedelta(hours=1)  # after which nobody is handing a batch in any more
ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_OURS = "handing-in:"
_OVER = ("completed", "failed", "expired", "cancelled")


@dataclass(slots=True)
class Batches:
    """The batches of a database."""

    database: Database
    settings: Settings
    client: ModelClient = field(init=False)

    def __post_init__(self) -> None:
        self.client = client_of(self.settings)

    async def submit(self) -> int:
        """Hand in what waits; return how many questions. No connection is held while the provider takes them.

        A crash in between leaves them with a batch that has only our name: they go the normal way an hour later.
        """
        import openai

        ours = f"{_OURS}{ULID()}"
        async with self.database.transaction() as conn:
            waiting = await answers.queued(conn, limit=MOST)
            if not waiting:
                return 0
            now = self.database.clock.now()
            keys = [one["key"] for one in waiting]
            await answers.submitted(conn, ours, keys, status="handing in", now=now, due=now + HANDING_IN)
        try:
            name, status = await self._handed_in(waiting)
        except openai.APIError as error:
            log.warning("no batch could be handed in, so the questions go the normal way: %s", redact(str(error)))
            meant = failure(error)
            await self._end(ours, {}, "refused", paid=isinstance(meant, ModelUnavailable) and meant.paid)
            return 0
        async with self.database.transaction() as conn:
            await answers.rename_batch(conn, ours, name, status=status, due=now + WINDOW)
        log.info("batch %s: %d questions", name, len(waiting))
        return len(waiting)

    async def collect(self) -> int:
        """Keep the answers of the batches that have come back, or are overdue; return how many answers came."""
        import openai

        async with self.database.connection() as conn:
            waiting = await answers.open_batches(conn)
        found = 0
        for batch in waiting:
            overdue = self.database.clock.now() >= batch["due_at"]
            if batch["id"].startswith(_OURS):
                if overdue:
                    await self._end(batch["id"], {}, "lost", paid=True)
                continue
            known = True
            try:
                told = await self.client.opened().batches.retrieve(batch["id"])
                over = told.status in _OVER
                lines = await self._lines(told.output_file_id) if over else {}
            except openai.NotFoundError:
                over, lines, known = True, {}, False
            except openai.APIError as error:
                log.warning("batch %s: %s", batch["id"], redact(str(error)))
                over, lines = False, {}
            if over:
                found += await self._end(batch["id"], lines, "collected", paid=not known)
            elif overdue:
                await self._cancel(batch["id"])
                await self._end(batch["id"], {}, "overdue", paid=True)
        return found

    async def _cancel(self, name: str) -> None:
        """Have the provider give a batch up, since nobody will fetch its answers."""
        import openai

        try:
            await self.client.opened().batches.cancel(name)
        except openai.APIError as error:
            log.warning("batch %s could not be cancelled: %s", name, redact(str(error)))

    async def _end(self, name: str, lines: Mapping[str, Any], status: str, *, paid: bool) -> int:
        """Keep a batch's answers, let the rest of its questions go the normal way, and be done with it.

        With `paid` the provider may charge for the rest, too: then their reserves are what they cost.
        """
        found = 0
        async with self.database.transaction() as conn:
            if await answers.take_batch(conn, name, status=status, now=self.database.clock.now()):
                questions = await answers.questions_of(conn, name)
                asked = {question["session_id"] for question in questions} - {None}
                there = await sessions.keep(conn, list(asked)) | {None}  # first, as whoever erases one locks it first
                for question in questions:
                    response, kept = lines.get(question["key"]), question["session_id"] in there
                    if response is None:
                        await self._given_up(conn, question, f"its batch was {status}", paid=paid)
                    else:
                        found += await self._take(conn, question, response, kept=kept)
        return found

    async def close(self) -> None:
        """Close the connections to the server."""
        await self.client.close()

    async def _handed_in(self, waiting: Sequence[Row]) -> tuple[str, str]:
        """Hand questions in; return the batch's name and status."""
        lines = [{"custom_id": one["key"], "method": "POST", "url": ENDPOINT, "body": one["body"]} for one in waiting]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        client = self.client.opened()
        file = await client.files.create(file=("questions.jsonl", text.encode()), purpose="batch")
        made = await client.batches.create(input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h")
        return made.id, made.status

    async def _lines(self, file: str | None) -> dict[str, Any]:
        """Return the lines of a batch's answers, by question; those that cannot be read are left out."""
        if file is None:
            return {}
        text = (await self.client.opened().files.content(file)).text
        found = {}
        for line in text.splitlines():
            try:
                told = json.loads(line)
                found[str(told["custom_id"])] = told["response"]
            except (ValueError, KeyError, TypeError):
                continue
        return found

    async def _take(self, conn: Connection, question: Row, response: Any, *, kept: bool) -> int:
        """Keep one answer, but of an erased session, and what it took; or let its question go the normal way."""
        good = isinstance(response, dict) and response.get("status_code") == 200
        body = json.dumps(response.get("body")).encode() if good else b""
        reply = read_completion(body, question["model"], json.dumps(question["body"]["messages"])) if good else None
        if reply is None or not reply.text or reply.finish == "length" or reply.refusal:
            await self._given_up(conn, question, "its batch did not answer it", paid=good, reply=reply)
            return 0
        now = self.database.clock.now()
        await answers.settle_call(conn, question["call_id"], _taken(question, reply, "answered in a batch"), now=now)
        if kept:
            await answers.save_answer(
                conn, question["key"], reply.text,
                purpose=question["purpose"], model=question["model"], run_id=question["run_id"], now=now,
            )  # fmt: skip
        await answers.end_question(conn, question["key"], status="answered")
        return int(kept)

    async def _given_up(
        self, conn: Connection, question: Row, why: str, *, paid: bool, reply: ModelReply | None = None
    ) -> None:
        now = self.database.clock.now()
        if reply is not None:
            await answers.settle_call(conn, question["call_id"], _taken(question, reply, f"failed: {why}"), now=now)
        else:
            await answers.release(conn, question["call_id"], outcome=f"failed: {why}", now=now, paid=paid)
        await answers.end_question(conn, question["key"], status="failed")


def _taken(question: Row, reply: ModelReply, outcome: str) -> dict[str, Any]:
    cost = price(
        question["model"],
        input_tokens=reply.input_tokens,
        cached_tokens=reply.cached_tokens,
        output_tokens=reply.output_tokens,
    )
    return {
        "input_tokens": reply.input_tokens,
        "cached_tokens": reply.cached_tokens,
        "output_tokens": reply.output_tokens,
        "cost": None if cost is None else cost / Decimal(2),
        "outcome": outcome,
    }


@asynccontextmanager
async def batches_of(database: Database, settings: Settings) -> AsyncIterator[Batches]:
    """Yield the batches, closed at the end."""
    found = Batches(database, settings)
    try:
        yield found
    finally:
        await found.close()
