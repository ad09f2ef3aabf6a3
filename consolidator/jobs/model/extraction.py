"""Has a model read a session's events for facts and observations; mostly in one question.

An invalid answer is repaired once, then the chunk is halved. An event that gets no valid answer even alone is set aside
as a dead letter; where the model is unavailable, the rest of the session waits for another night.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from consolidator.database import Database
from consolidator.errors import (
    AnswerPending,
    ModelError,
    ModelMalformed,
    ModelRefused,
    ModelTruncated,
    ModelUnavailable,
    OverBudget,
)
from consolidator.jobs.consolidation.learning import ReadResult, redact_call
from consolidator.jobs.gather import gather
from consolidator.jobs.model.calls import ModelCalls
from consolidator.jobs.model.prior import KNOWN_SHARE, Prior, load_held
from consolidator.llm.choice import ModelChoice, choose_model
from consolidator.llm.client import ModelRequest
from consolidator.llm.redaction.redact import redact
from consolidator.llm.tokens import count_tokens
from consolidator.memory.facts.candidates import FactExtractor, SessionContext
from consolidator.memory.facts.questions.extraction_prompt import MAX_TOKENS, SCHEMA, SYSTEM, relations_hint
from consolidator.memory.facts.questions.model_extraction import model_extractor, read_facts, state_again
from consolidator.memory.facts.questions.quote_repair import plan_repair
from consolidator.memory.facts.questions.session_lines import transcript_lines
from consolidator.memory.facts.questions.shared_question import SharedQuestion
from consolidator.memory.facts.questions.transcript import TranscriptChunk, cut_chunks
from consolidator.memory.observations.doubts import PASSING
from consolidator.memory.observations.observation import KnownObservation, ProjectWords, read_observations
from consolidator.memory.observations.origins import read_origins, words_of_names
from consolidator.memory.text.words import split_words
from consolidator.models.event import Event
from consolidator.settings import Settings
from consolidator.store.facts import facts, revisions

log = logging.getLogger("consolidator.jobs")
SHOWN_BEFORE = 8  # of them, which are read for context
MAX_BAD_ANSWERS_IN_A_ROW = 12  # invalid answers without a valid one between them, before the model is to blame
_MIN_QUESTION = 300  # tokens of a session in one question, however small the model's window is
_MAX_QUOTED_ANSWER = 2000  # characters of an invalid answer that the model is shown again
RETRY_LATER = (ModelUnavailable, OverBudget, AnswerPending)  # not the chunk's fault


QUESTION_TOKENS = 2400  # of a session in one question; with what is known beside it, 3,000
SHARED_TOKENS = 6000  # of several small sessions in one question


def fit_question(settings: Settings, model: str, most: int = QUESTION_TOKENS) -> int:
    """Return how many tokens of sessions one question holds: as many as fit the model's window beside an answer."""
    window = settings.model_window
    if window is None:
        return most
    empty = ModelRequest("extract", model, SYSTEM, "", "facts", SCHEMA, MAX_TOKENS).tokens
    room = window - empty - _answer_room(window)
    return max(_MIN_QUESTION, min(most, room - room // KNOWN_SHARE))


def _answer_room(window: int) -> int:
    return min(MAX_TOKENS, window // 4)


@dataclass(slots=True)
class FactReader:
    """Reads sessions for facts with one model in one run."""

    calls: ModelCalls
    model: str
    revision: int = 1
    question_tokens: int = QUESTION_TOKENS
    shared_tokens: int = SHARED_TOKENS
    bad_answers_in_a_row: int = 0
    _hints: dict[facts.RelationScope, str] = field(default_factory=dict)  # by scope, as this run found them
    _words: dict[facts.RelationScope, list[facts.SessionWordsRow]] = field(default_factory=dict)  # likewise
    _held: dict[facts.RelationScope, list[KnownObservation]] = field(default_factory=dict)  # likewise
    _observed: dict[facts.RelationScope, dict[str, KnownObservation]] = field(default_factory=dict)  # in this run

    async def read(self, session: SessionContext, events: Sequence[Event], before: Sequence[Event] = ()) -> ReadResult:
        """Read a session's next events; `before` are earlier events, shown to the model as context."""
        result = ReadResult(
            failed_events={event.seq: f"model: {event.unreadable}" for event in events if event.unreadable is not None}
        )
        transcript_chunks = await asyncio.to_thread(self.split_chunks, session, events, before)
        if not transcript_chunks:
            return result
        source = FactExtractor(session, model_extractor(self.model), self.revision)
        prior = await self.load_prior(session)
        parts = await gather(*(self._read_chunk(chunk, source, prior) for chunk in transcript_chunks))
        for part in parts:
            result.append(part)
        return result

    def split_chunks(
        self, session: SessionContext, events: Sequence[Event], before: Sequence[Event]
    ) -> list[TranscriptChunk]:
        """Return what of a session's next events is worth asking about, as one question each."""
        zone = ZoneInfo(self.calls.settings.timezone)
        events, before = (
            [redact_call(event) for event in part if event.unreadable is None] for part in (events, before)
        )
        lines = transcript_lines(events, session, redact, zone)
        context = transcript_lines(before[-SHOWN_BEFORE:], session, redact, zone)
        chunks = cut_chunks(lines, context, budget=self.question_tokens, count=count_tokens)
        origins = read_origins([*before, *events], is_subagent=session.is_subagent)
        committed = tuple(each for each in origins.committed if events and each[0].seq >= events[0].seq)
        origins = replace(origins, committed=())
        chunks = [replace(chunk, origins=origins) for chunk in chunks]
        return chunks[:-1] + [replace(chunk, origins=replace(origins, committed=committed)) for chunk in chunks[-1:]]

    async def load_prior(self, session: SessionContext) -> Prior:
        """Return what is known where the session's facts belong: but for observations, as this run found it first.

        Observations are those that the sessions before it have shown, in this night, too.
        """
        scope = facts.RelationScope(session.agent, session.project, session.peer)
        if scope not in self._held:
            self._held[scope] = await load_held(self.calls.database, session)
        async with self.calls.database.connection() as conn:
            if scope not in self._hints:
                self._hints[scope] = relations_hint(await facts.list_in_use(conn, scope))
            rows = await facts.list_observed(conn, scope, passing=PASSING)
            if scope not in self._words:
                self._words[scope] = await facts.list_project_words(conn, scope)
        others = [row for row in self._words[scope] if row.root_id != session.root_id]
        stored = (KnownObservation(**asdict(row)) for row in rows)
        observed = {item.name: item for item in stored} | self._observed.get(scope, {})
        words = await asyncio.to_thread(_words_of, others)
        return Prior(self._hints[scope], (*observed.values(), *self._held[scope]), words)

    def note_observed(self, session: SessionContext, chunk: TranscriptChunk, answer: dict[str, Any]) -> None:
        """Remember what a session's part of an answer shows, for the questions after it."""
        proposals = read_observations(chunk, answer, FactExtractor(session, model_extractor(self.model), self.revision))
        observed = self._observed.setdefault(facts.RelationScope(session.agent, session.project, session.peer), {})
        for shown in proposals.candidates:
            if shown.quarantined in (None, PASSING):
                item = KnownObservation(
                    shown.subject, shown.predicate, shown.value, shown.sentence, session_id=session.session_id
                )
                observed.setdefault(item.name, item)

    def build_request(self, chunk: TranscriptChunk | SharedQuestion, hint: str = "") -> ModelRequest:
        """Return the question about one chunk, or about several."""
        return ModelRequest("extract", self.model, SYSTEM, chunk.render(), "facts", SCHEMA, MAX_TOKENS, hint=hint)

    async def _read_chunk(self, chunk: TranscriptChunk, source: FactExtractor, prior: Prior) -> ReadResult:
        """Read one chunk, or as much of it as gets valid answers."""
        request = self.build_request(chunk, prior.hint([chunk], self.question_tokens))
        try:
            answer = await self._ask(request, source.session.session_id)
        except RETRY_LATER:
            return ReadResult(stopped_before=chunk.first_seq)
        except ModelError as error:
            return await self._read_halves(chunk, source, error, prior)
        self.bad_answers_in_a_row = 0
        answer = await self._repair_quotes(chunk, state_again(answer, prior.known), source)
        facts = read_facts(chunk, answer, source)
        observed = read_observations(chunk, answer, source, prior.known, prior.words)
        return ReadResult(facts.candidates + observed.candidates, facts.rejected + observed.rejected)

    async def _repair_quotes(
        self, chunk: TranscriptChunk, answer: dict[str, Any], source: FactExtractor
    ) -> dict[str, Any]:
        """Ask once more for facts with wrong quotes; without a valid answer they stay refused."""
        repair = plan_repair(chunk, answer)
        if repair is None:
            return answer
        request = replace(self.build_request(repair.chunk), turns=repair.turns())
        if not self._fits(request):
            return answer
        try:
            return repair.merge(await self.calls.ask(request, session=source.session.session_id))
        except ModelError as error:
            log.info("facts with wrong quotes stay refused: %s", error)
            return answer

    async def _ask(self, request: ModelRequest, session: str) -> dict[str, Any]:
        """Ask, and ask once more if the answer is invalid."""
        try:
            return await self.calls.ask(request, session=session)
        except ModelMalformed as error:
            if self._count_bad_answer(error):
                raise ModelUnavailable(self.calls.stop_reason or "") from error
            correction = f"{error}. Answer again, with one JSON object of the schema and nothing else."
            shown = error.text[:_MAX_QUOTED_ANSWER]
            while True:
                repair = replace(request, turns=(("assistant", shown or "(nothing)"), ("user", correction)))
                if not shown or self._fits(repair):
                    return await self.calls.ask(repair, session=session)
                shown = shown[: len(shown) // 2]

    def _fits(self, request: ModelRequest) -> bool:
        """Tell whether a question and its answer fit the model's window."""
        window = self.calls.settings.model_window
        return window is None or request.tokens + _answer_room(window) <= window

    async def _read_halves(
        self, chunk: TranscriptChunk, source: FactExtractor, error: ModelError, prior: Prior
    ) -> ReadResult:
        """Read the halves of a chunk without a valid answer; set its event aside if it has only one."""
        assert isinstance(error, (ModelMalformed, ModelRefused, ModelTruncated))
        if self._count_bad_answer(error):
            return ReadResult(stopped_before=chunk.first_seq)
        if len(chunk.lines) == 1:
            reason = redact(f"model: {type(error).__name__}: {error}")[:500]
            return ReadResult(failed_events={chunk.lines[0].seq: reason})
        result = ReadResult()
        for half in chunk.split():
            if half.is_worth_asking:
                result.append(await self._read_chunk(half, source, prior))
        return result

    def _count_bad_answer(self, error: ModelError) -> bool:
        """Count an invalid answer; return True if there were too many in a row for the events to be at fault."""
        self.bad_answers_in_a_row += 1
        if self.bad_answers_in_a_row >= MAX_BAD_ANSWERS_IN_A_ROW and self.calls.stop_reason is None:
            self.calls.stop_calls(f"{self.bad_answers_in_a_row} answers in a row were invalid, the last one: {error}")
        return self.calls.stop_reason is not None


@asynccontextmanager
async def open_model_calls(
    database: Database,
    settings: Settings,
    run_id: str,
    choice: ModelChoice | None = None,
    stop: asyncio.Event | None = None,
) -> AsyncIterator[ModelCalls | None]:
    """Yield the model calls of a run, of the model that is chosen unless `choice` says which; None if there is none."""
    if choice is None:
        choice = await asyncio.to_thread(choose_model, settings)
    if choice.name is None:
        yield None
        return
    calls = ModelCalls(database, settings, run_id, choice=choice, stop=stop)
    try:
        yield calls
    finally:
        await calls.close()


async def create_fact_reader(calls: ModelCalls | None) -> FactReader | None:
    """Return a model that reads for facts of the current revision; None if there is no model."""
    if calls is None or calls.model is None:
        return None
    async with calls.database.connection() as conn:
        revision = await revisions.get_current(conn)
    own, shared = (fit_question(calls.settings, calls.model, most) for most in (QUESTION_TOKENS, SHARED_TOKENS))
    return FactReader(calls, calls.model, revision, own, shared)


MAX_CHUNKS = 16  # of one question
MAX_BAD_SHARED_ANSWERS = 6  # more than halving one question gives; then this model is asked about each session alone


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
        ordered = sorted(self._chunks, key=lambda chunk: chunk.chunk.lines[0].occurred_at)
        chunks, self._chunks = {chunk.key: chunk for chunk in ordered}, []
        if self._session is None or len(chunks) < 2:
            return
        unanswered = await self.reader.calls.list_unanswered(list(chunks))
        groups = pack_chunks(
            [chunk for key, chunk in chunks.items() if key in unanswered], budget=self.reader.shared_tokens
        )
        for group in groups:  # one after another: what one shows, the next may show anew
            if len(group) > 1:
                await self._ask_group(group, self._session)

    def _measure_chunks(
        self, session: SessionContext, events: Sequence[Event], before: Sequence[Event]
    ) -> list[SharedChunk]:
        reader = self.reader
        return [
            SharedChunk(chunk, reader.build_request(chunk).key, session.session_id, count_tokens(chunk.render()))
            for chunk in reader.split_chunks(session, events, before)
        ]

    async def _ask_group(self, group: Sequence[SharedChunk], session: SessionContext) -> None:
        """Ask one question; where its answer is bad, ask about each half of it, down to two chunks."""
        reader = self.reader
        if self.bad_answers_in_a_row >= MAX_BAD_SHARED_ANSWERS:
            return
        question = SharedQuestion(tuple(chunk.chunk for chunk in group))
        prior = await reader.load_prior(session)
        request = reader.build_request(question, prior.hint(question.chunks, reader.shared_tokens))
        try:
            parts = [(chunk.key, chunk.session_id) for chunk in group]
            answers = await reader.calls.ask_shared(request, parts, partial(_split, question))
        except RETRY_LATER:  # each session is asked about alone, or waits for another night
            return
        except ModelError as error:
            self.bad_answers_in_a_row += 1
            log.info("a question about %d chunks is asked again in halves: %s", len(group), redact(str(error))[:200])
            middle = len(group) // 2
            for half in (group[:middle], group[middle:]):
                if len(half) > 1:
                    await self._ask_group(half, session)
        else:
            self.bad_answers_in_a_row = 0
            for chunk, answer in zip(group, answers, strict=True):
                if answer is not None:
                    reader.note_observed(replace(session, session_id=chunk.session_id), chunk.chunk, answer)


def _words_of(rows: Sequence[facts.SessionWordsRow]) -> ProjectWords:
    sessions = tuple(frozenset(split_words(row.text)) for row in rows)
    return ProjectWords(sessions, words_of_names(row.typed for row in rows))


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
