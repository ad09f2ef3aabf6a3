"""Asks questions through the provider's batches, at half the price: submitted at night, collected by a later tick.

A batch only fills the store of answers, where the next night finds them. A question that fails is asked directly then.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Literal

from ulid import ULID

from consolidator.database import Connection, Database
from consolidator.errors import ModelUnavailable
from consolidator.jobs.model.calls import charge
from consolidator.llm.client import ModelClient, ModelReply, classify_error, create_client, read_completion
from consolidator.llm.protocol import ResponseTooLarge
from consolidator.llm.redaction.redact import redact
from consolidator.llm.tokens import count_tokens
from consolidator.models.run import ModelBatchRow, ModelQuestionRow
from consolidator.settings import Settings
from consolidator.store.nights import model_calls
from consolidator.store.sessions import sessions

log = logging.getLogger("consolidator.llm")
MAX_QUESTIONS = 10_000  # of one batch
COMPLETION_WINDOW = timedelta(hours=24)  # after which unanswered questions are asked directly
SUBMISSION_TIMEOUT = timedelta(hours=1)  # after which a batch without the provider's id is given up
HALF_PRICE = 2  # what providers divide the price of a batch by
ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_FINISHED = ("completed", "failed", "expired", "cancelled")


@dataclass(slots=True)
class ModelBatches:
    """The batches of a database."""

    database: Database
    settings: Settings
    client: ModelClient = field(init=False)
    failure: str | None = None  # why the provider takes no batches: a wrong key, or no credit

    def __post_init__(self) -> None:
        self.client = create_client(self.settings)

    async def submit(self) -> int:
        """Submit the queued questions and return how many; no connection is held while the provider takes them.

        A crash in between leaves them in a batch without the provider's id: an hour later they are asked directly.
        """
        import openai

        batch_id = str(ULID())
        async with self.database.transaction() as conn:
            questions = await model_calls.lock_queued(conn, MAX_QUESTIONS)
            if not questions:
                return 0
            now = self.database.clock.now()
            keys = [question.key for question in questions]
            await model_calls.save_batch(conn, batch_id, keys, now=now, due=now + SUBMISSION_TIMEOUT)
        try:
            provider_id, status = await self._upload(questions)
        except (openai.APIError, ModelUnavailable, ResponseTooLarge) as error:
            log.warning("the batch was not accepted, so its questions are asked directly: %s", redact(str(error)))
            cause = classify_error(error) if isinstance(error, openai.APIError) else error
            # A provider without batches (404) can be asked directly.
            if isinstance(cause, ModelUnavailable) and cause.is_permanent and cause.status != HTTPStatus.NOT_FOUND:
                self.failure = str(cause)
            charged = isinstance(cause, ModelUnavailable) and cause.may_be_charged
            await self._finish(batch_id, {}, "refused", may_be_charged=charged)
            return 0
        async with self.database.transaction() as conn:
            due = now + COMPLETION_WINDOW
            await model_calls.set_provider_id(conn, batch_id, provider_id, status=status, due=due)
        log.info("batch %s: %d questions", provider_id, len(questions))
        return len(questions)

    async def collect(self) -> int:
        """Store the answers of finished batches, and give overdue ones up; return how many answers were stored."""
        async with self.database.connection() as conn:
            batches = await model_calls.list_open(conn)
        return sum([await self._collect_batch(batch) for batch in batches])

    async def _collect_batch(self, batch: ModelBatchRow) -> int:
        import openai

        is_overdue = self.database.clock.now() >= batch.due_at
        if batch.status == model_calls.SUBMITTING:
            return await self._finish(batch.id, {}, "lost", may_be_charged=True) if is_overdue else 0
        try:
            remote = await self.client.get_client().batches.retrieve(batch.id)
            if remote.status in _FINISHED:
                responses = await self._download(remote.output_file_id)
                return await self._finish(batch.id, responses, "collected", may_be_charged=False)
        except openai.NotFoundError:
            return await self._finish(batch.id, {}, "collected", may_be_charged=True)
        except (openai.APIError, ModelUnavailable, ResponseTooLarge) as error:
            log.warning("batch %s: %s", batch.id, redact(str(error)))
        if is_overdue:
            await self._cancel(batch.id)
            return await self._finish(batch.id, {}, "overdue", may_be_charged=True)
        return 0

    async def _cancel(self, batch_id: str) -> None:
        """Cancel a batch, since nobody will collect its answers."""
        import openai

        try:
            await self.client.get_client().batches.cancel(batch_id)
        except (openai.APIError, ModelUnavailable, ResponseTooLarge) as error:
            log.warning("batch %s could not be cancelled: %s", batch_id, redact(str(error)))

    async def _finish(self, batch_id: str, responses: Mapping[str, Any], status: str, *, may_be_charged: bool) -> int:
        """Store a batch's answers and close it; return how many were stored. Other questions are asked directly.

        With `may_be_charged` the provider may charge for these questions, too, so they have cost their reserves.
        """
        stored = 0
        async with self.database.transaction() as conn:
            if not await model_calls.mark_collected(conn, batch_id, status=status, now=self.database.clock.now()):
                return 0
            questions = await model_calls.list_unanswered(conn, batch_id)
            session_ids = {question.session_id for question in questions if question.session_id is not None}
            # Lock the sessions before their calls, as an erasure does.
            existing = await sessions.lock_shared(conn, list(session_ids))
            for question in questions:
                response = responses.get(question.key)
                if response is None:
                    reason = f"its batch was {status}"
                    await self._fail_question(conn, question, reason, may_be_charged=may_be_charged)
                elif await self._store_response(conn, question, response, existing):
                    stored += 1
        return stored

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self.client.close()

    async def _upload(self, questions: Sequence[ModelQuestionRow]) -> tuple[str, str]:
        """Submit questions; return the id and status that the provider gives the batch."""
        lines = [
            {"custom_id": question.key, "method": "POST", "url": ENDPOINT, "body": question.body}
            for question in questions
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        client = self.client.get_client()
        file = await client.files.create(file=("questions.jsonl", text.encode()), purpose="batch")
        batch = await client.batches.create(input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h")
        return batch.id, batch.status

    async def _download(self, file_id: str | None) -> dict[str, Any]:
        """Return the responses of a batch by question key; lines that cannot be read are skipped."""
        if file_id is None:
            return {}
        text = (await self.client.get_client().files.content(file_id)).text
        responses = {}
        for line in text.splitlines():
            try:
                record = json.loads(line)
                responses[str(record["custom_id"])] = record["response"]
            except (ValueError, KeyError, TypeError):
                continue
        return responses

    async def _store_response(
        self, conn: Connection, question: ModelQuestionRow, response: Any, existing: set[str]
    ) -> bool:
        """Store what a question used and its answer, unless its session was erased; return whether it was stored."""
        is_ok = isinstance(response, dict) and response.get("status_code") == 200
        reply = None
        if is_ok:
            content = json.dumps(response.get("body")).encode()
            tokens = sum(count_tokens(str(message.get("content") or "")) for message in question.body["messages"])
            reply = read_completion(content, question.model, tokens)
        if reply is None or not reply.text or reply.finish_reason == "length" or reply.refusal:
            reason = "its batch did not answer it"
            await self._fail_question(conn, question, reason, may_be_charged=is_ok, reply=reply)
            return False
        now = self.database.clock.now()
        await model_calls.settle_call(
            conn, question.call_id, charge(reply, "answered in a batch", share=HALF_PRICE), now=now
        )
        exists = question.session_id is None or question.session_id in existing
        if exists:
            await model_calls.save_answer(
                conn, question.key, reply.text, purpose=question.purpose, model=question.model, run_id=question.run_id,
                session_id=question.session_id, now=now,
            )  # fmt: skip
        await model_calls.finish_question(conn, question.key, "answered")
        return exists

    async def _fail_question(
        self,
        conn: Connection,
        question: ModelQuestionRow,
        reason: str,
        *,
        may_be_charged: bool,
        reply: ModelReply | None = None,
    ) -> None:
        now, outcome = self.database.clock.now(), f"failed: {reason}"
        if reply is not None:
            await model_calls.settle_call(conn, question.call_id, charge(reply, outcome, share=HALF_PRICE), now=now)
        else:
            await model_calls.release_call(
                conn, question.call_id, outcome=outcome, now=now, may_be_charged=may_be_charged
            )
        await model_calls.finish_question(conn, question.key, "failed")
