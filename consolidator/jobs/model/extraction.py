"""Has a model read a session's events for facts: chunk by chunk, a bad answer repaired once, then the chunk halved.

What no answer can be had for tonight is left for another night; an event that no answer survives is set aside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from consolidator.errors import (
    AnswerPending,
    ModelError,
    ModelMalformed,
    ModelRefused,
    ModelTruncated,
    ModelUnavailable,
    OverBudget,
)
from consolidator.jobs.gather import gather
from consolidator.jobs.model.calls import ModelCalls
from consolidator.llm.client import ModelRequest
from consolidator.llm.redaction.redact import redact
from consolidator.llm.tokens import count_tokens
from consolidator.memory.facts.candidates import Candidate, RejectedCandidate, SessionContext
from consolidator.memory.facts.extraction_prompt import MAX_TOKENS, SCHEMA, SYSTEM
from consolidator.memory.facts.model_extraction import FactExtractor, model_extractor, read_facts
from consolidator.memory.facts.transcript import TranscriptChunk, cut_chunks, transcript_lines
from consolidator.models.event import Event

log = logging.getLogger("consolidator.jobs")
BACKGROUND = 8  # events before the new ones that are read for context
BAD_IN_A_ROW = 12  # answers that are none, with no good one between them: the fault is the model's
_SHOWN = 2000  # characters of a bad answer that the model is shown again
LATER = (ModelUnavailable, OverBudget, AnswerPending)  # no fault of the chunk


@dataclass(slots=True)
class ReadResult:
    """What a model read in some events."""

    candidates: list[Candidate] = field(default_factory=list)
    rejected: list[RejectedCandidate] = field(default_factory=list)
    dead: dict[int, str] = field(default_factory=dict)  # seq -> "model: error"
    stopped_before: int | None = None  # the first seq that has to wait for another night

    def take(self, other: ReadResult) -> None:
        """Add what was read after it; nothing behind a stop counts."""
        if self.stopped_before is None:
            self.candidates += other.candidates
            self.rejected += other.rejected
            self.dead |= other.dead
            self.stopped_before = other.stopped_before

    def upto(self, seq: int) -> ReadResult:
        """Return what rests on events up to a seq alone."""
        return replace(
            self,
            candidates=[c for c in self.candidates if max([c.seq, *(at for at, _ in c.evidence)]) <= seq],
            rejected=[r for r in self.rejected if r.seq <= seq],
            dead={at: told for at, told in self.dead.items() if at <= seq},
        )

    @property
    def sources(self) -> set[int]:
        """The events that something was learned from."""
        return {at for c in self.candidates for at in (c.seq, *(seq for seq, _ in c.evidence))} - set(self.dead)


@dataclass(slots=True)
class FactReader:
    """A model that reads for facts in one run."""

    calls: ModelCalls
    model: str
    chunk_tokens: int
    revision: int = 1
    bad_in_a_row: int = 0

    async def read(self, session: SessionContext, events: Sequence[Event], before: Sequence[Event] = ()) -> ReadResult:
        """Read a session's next events; `before` are some that were read already, for context."""
        cut = await asyncio.to_thread(self._chunks, session, events, before)
        source = FactExtractor(session, model_extractor(self.model), self.revision)
        found = await gather(*(self._chunk(chunk, source) for chunk in cut))
        whole = ReadResult()
        for one in found:
            whole.take(one)
        return whole

    def _chunks(
        self, session: SessionContext, events: Sequence[Event], before: Sequence[Event]
    ) -> list[TranscriptChunk]:
        zone = ZoneInfo(self.calls.settings.timezone)
        lines = transcript_lines(events, session, redact, zone)
        return cut_chunks(
            lines, transcript_lines(before, session, redact, zone), budget=self.chunk_tokens, count=count_tokens
        )

    async def _chunk(self, chunk: TranscriptChunk, source: FactExtractor) -> ReadResult:
        """Read one chunk, or as much of it as can be had answers for."""
        request = ModelRequest("extract", self.model, SYSTEM, chunk.render(), "facts", SCHEMA, MAX_TOKENS)
        try:
            answer = await self._answer(request, source.session.session_id)
        except LATER:
            return ReadResult(stopped_before=chunk.lines[0].seq)
        except ModelError as error:
            return await self._halved(chunk, source, error)
        self.bad_in_a_row = 0
        found = read_facts(chunk, answer, source)
        return ReadResult(found.candidates, found.rejected)

    async def _answer(self, request: ModelRequest, session: str) -> dict[str, object]:
        """Ask, and once more where the answer is not what was asked for."""
        try:
            return await self.calls.ask(request, session=session)
        except ModelMalformed as error:
            if self._is_hopeless(error):
                raise ModelUnavailable(self.calls.stopped or "") from error
            wrong = f"{error}. Answer again, with one JSON object of the schema and nothing else."
            turns = (("assistant", error.text[:_SHOWN] or "(nothing)"), ("user", wrong))
            return await self.calls.ask(replace(request, turns=turns), session=session)

    async def _halved(self, chunk: TranscriptChunk, source: FactExtractor, error: ModelError) -> ReadResult:
        """Read the halves of a chunk that no answer survives; set its event aside where only one is left."""
        assert isinstance(error, (ModelMalformed, ModelRefused, ModelTruncated))
        if self._is_hopeless(error):
            return ReadResult(stopped_before=chunk.lines[0].seq)
        if len(chunk.lines) == 1:
            told = redact(f"model: {type(error).__name__}: {error}")[:500]
            return ReadResult(dead={chunk.lines[0].seq: told})
        found = ReadResult()
        for half in chunk.split():
            if any(line.citable for line in half.lines):
                found.take(await self._chunk(half, source))
        return found

    def _is_hopeless(self, error: ModelError) -> bool:
        """Count a bad answer; tell whether there were so many in a row that events are not to blame."""
        self.bad_in_a_row += 1
        if self.bad_in_a_row >= BAD_IN_A_ROW and self.calls.stopped is None:
            self.calls.stopped = f"{self.bad_in_a_row} answers in a row were none, the last: {error}"
            log.error("no more is asked in this run: %s", self.calls.stopped)
        return self.calls.stopped is not None
