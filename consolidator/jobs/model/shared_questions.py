"""Asks a model about several small sessions of one scope at once, before each is worked on.

The answers are stored in parts, as those to each session's own question, where whoever works on the session finds them:
a retry, another replica, the next night. Nothing else depends on them: a chunk without a part is asked about alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from consolidator.errors import ModelError, ModelMalformed
from consolidator.jobs.gather import gather
from consolidator.jobs.model.extraction import RETRY_LATER, FactReader, Known
from consolidator.llm.client import ModelRequest
from consolidator.llm.redaction.redact import redact
from consolidator.llm.tokens import count_tokens
from consolidator.memory.facts.candidates import SessionContext
from consolidator.memory.facts.extraction_prompt import MAX_TOKENS, SCHEMA, SYSTEM
from consolidator.memory.facts.shared_question import SharedQuestion
from consolidator.memory.facts.transcript import TranscriptChunk
from consolidator.models.event import Event

log = logging.getLogger("consolidator.jobs")
MAX_CHUNKS = 16  # of one question
MAX_BAD_ANSWERS_IN_A_ROW = 6  # more than halving one question gives; then this model is asked about each session alone


@dataclass(frozen=True, slots=True)
class SharedChunk:
    """A chunk of a session, what its own question's answer is stored by, and how long it is."""

    chunk: TranscriptChunk
    key: str
    session_id: str
    tokens: int


@dataclass(slots=True)
class SharedReader:
    """Asks about sessions of one scope together; `add` them one after another, then `ask`."""

    reader: FactReader
    bad_answers_in_a_row: int = 0
    _chunks: list[SharedChunk] = field(default_factory=list)
    _session: SessionContext | None = None  # one of those added: they belong to one scope

    async def add(self, session: SessionContext, events: Sequence[Event], before: Sequence[Event]) -> None:
        """Add what a model has to read next of a session."""
        self._session = session
        self._chunks += await asyncio.to_thread(self._measure_chunks, session, events, before)

    async def ask(self) -> None:
        """Ask about the chunks that have no answer yet, as many at once as one question holds; leave single ones."""
        chunks, self._chunks = {chunk.key: chunk for chunk in self._chunks}, []
        if self._session is None or len(chunks) < 2:
            return
        unanswered = await self.reader.calls.list_unanswered(list(chunks))
        groups = pack_chunks(
            [chunk for key, chunk in chunks.items() if key in unanswered], budget=self.reader.shared_tokens
        )
        known = await self.reader.load_known(self._session)
        await gather(*(self._ask_group(group, known) for group in groups if len(group) > 1))

    def _measure_chunks(
        self, session: SessionContext, events: Sequence[Event], before: Sequence[Event]
    ) -> list[SharedChunk]:
        reader = self.reader
        return [
            SharedChunk(chunk, reader.build_request(chunk).key, session.session_id, count_tokens(chunk.render()))
            for chunk in reader.split_chunks(session, events, before)
        ]

    async def _ask_group(self, group: Sequence[SharedChunk], known: Known) -> None:
        """Ask one question; where its answer is bad, ask about each half of it, down to two chunks."""
        reader = self.reader
        if self.bad_answers_in_a_row >= MAX_BAD_ANSWERS_IN_A_ROW:
            return
        question = SharedQuestion(tuple(chunk.chunk for chunk in group))
        prompt = question.render()
        hint = known.hint(prompt)
        request = ModelRequest("extract", reader.model, SYSTEM, prompt, "facts", SCHEMA, MAX_TOKENS, hint=hint)
        try:
            parts = [(chunk.key, chunk.session_id) for chunk in group]
            await reader.calls.ask_shared(request, parts, partial(_split, question))
        except RETRY_LATER:  # each session is asked about alone, or waits for another night
            return
        except ModelError as error:
            self.bad_answers_in_a_row += 1
            log.info("a question about %d chunks is asked again in halves: %s", len(group), redact(str(error))[:200])
            middle = len(group) // 2
            for half in (group[:middle], group[middle:]):
                if len(half) > 1:
                    await self._ask_group(half, known)
        else:
            self.bad_answers_in_a_row = 0


def _split(question: SharedQuestion, answer: dict[str, object]) -> list[dict[str, object] | None]:
    """Return the parts of an answer; raise ModelMalformed where it has none."""
    parts = question.split(answer)
    if all(part is None for part in parts):
        raise ModelMalformed("no part of the answer is of one session alone")
    return parts


def pack_chunks(chunks: Sequence[SharedChunk], *, budget: int) -> list[list[SharedChunk]]:
    """Return groups of chunks for one question each, in order: a chunk joins the first group that has room for it."""
    groups: list[list[SharedChunk]] = []
    room: list[int] = []
    for chunk in chunks:
        for number, group in enumerate(groups):
            if chunk.tokens <= room[number] and len(group) < MAX_CHUNKS:
                group.append(chunk)
                room[number] -= chunk.tokens
                break
        else:
            groups.append([chunk])
            room.append(budget - chunk.tokens)
    return groups
