"""Proves lessons by replay: a model is asked anew where a lesson's failure came, once without the lesson, once with it.

Each try is a branch of the recorded session just before the failed call. Its calls are answered from the recording,
others are not run; nothing of it is evidence. So a lesson can be tried before anybody was told it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.argument_redaction import redact_arguments
from consolidator.memory.calls.argument_summary import argument_texts
from consolidator.memory.lessons.always_failing import MATCH_NAMES, Key, keys_of
from consolidator.memory.lessons.history import History, TracedSession
from consolidator.memory.lessons.lesson import Lesson
from consolidator.memory.lessons.measuring import is_advised
from consolidator.memory.lessons.trace import Trace, TracedCall, TraceFold
from consolidator.memory.recall.block import KNOWN, START_NOTE, RecallItem, Section, lesson_item, render_block
from consolidator.models.event import Event
from consolidator.models.memory_filter import LessonFilter
from consolidator.models.payload import EventType
from consolidator.runtime.rerun.turns import RunFold
from consolidator.runtime.session.agent_defaults import Overrides
from consolidator.service.memory.ids import resolve_id
from consolidator.service.memory.lessons import LessonRow, list_lessons, read_lesson
from consolidator.service.sessions.reruns import try_again
from consolidator.settings import Settings
from consolidator.store.memory import lessons as store

MODEL_CALLS = 2  # of a try: an agent may look around before it acts
MAX_SITUATIONS = 3  # of a lesson
_TOKENS = 600  # of a lesson, as at a session's start
_ALL = 10_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a model did in a situation."""

    session_id: str  # of the branch
    calls: tuple[str, ...]
    repeats: bool  # whether it made the failed call again
    advised: bool  # whether it made the call that the lesson names
    model_calls: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Trial:
    """One situation of a lesson, tried without it and with it."""

    lesson_id: str
    lesson: str
    session_id: str
    seq: int  # of the failed call
    call: str
    untold: Attempt
    told: Attempt

    @property
    def model_calls(self) -> int:
        """How many calls of the model it took."""
        return self.untold.model_calls + self.told.model_calls


@dataclass(frozen=True, slots=True)
class _Situation:
    session: TracedSession
    call: TracedCall
    start: str | None


async def prove_lessons(
    database: Database,
    settings: Settings,
    lesson_id: str | None = None,
    *,
    filters: LessonFilter = LessonFilter(),
    model: str | None = None,
    budget: int = 20,
) -> AsyncIterator[Trial]:
    """Yield the trials of a lesson, or of those that are told, the most helpful first, within a budget of model calls.

    `lesson_id` may be the beginning of an id. Raises UsageError where no call of a session failed as the lesson says,
    and ModelError where the model gave no answer, which proves nothing.
    """
    rows = await list_lessons(database, replace(filters, limit=_ALL))
    if lesson_id is not None:
        async with database.connection() as conn:
            identity = await resolve_id(conn, lesson_id, ("lesson",))
        rows = [row for row in rows if row.id == identity]
    situations = [(row, each) for row in rows if row.withheld is None for each in await _find_situations(database, row)]
    if not situations:
        raise UsageError("there is nothing to try: no call of a session that is still whole failed as a lesson says")
    model = _choose(model, settings)
    for row, situation in situations:
        if budget < 2 * MODEL_CALLS:
            return
        trial = await _try(database, settings, row, situation, model)
        budget -= trial.model_calls
        yield trial


async def replay_blamed(
    database: Database, settings: Settings, blamed: Mapping[str, Any], without: str, *, model: str | None = None
) -> tuple[list[str], list[str]]:
    """Return what a model does in place of a blamed call (`blame_call`): told its lines, and told all but one of them.

    Nothing of it is evidence. Raises UsageError without a model, ModelError where it gave no answer.
    """
    lines = [line for line in blamed["lines"] if line["text"]]
    if without not in [line["id"] for line in lines]:
        raise UsageError(f"{without} is none of the lines that were told before this call, or is no longer known")
    attempts = []
    for items in (lines, [line for line in lines if line["id"] != without]):
        shown = [lesson_item(line["id"], line["text"]) for line in items]
        log = await _ask_again(database, settings, blamed["session_id"], blamed["seq"], shown, _choose(model, settings))
        calls = [event.data for event in log if event.type is EventType.TOOL_CALL]
        arguments = [argument_texts(str(call["tool"]), redact_arguments(call["arguments"])) for call in calls]
        attempts.append([" ".join(texts.values()) for texts in arguments])
    return attempts[0], attempts[1]


def _choose(model: str | None, settings: Settings) -> str:
    if chosen := model or settings.model:
        return chosen
    raise UsageError("no model is configured: set CONSOLIDATOR_MODEL, or name one (--model); nothing was sent")


async def _ask_again(
    database: Database, settings: Settings, session_id: str, seq: int, shown: Sequence[RecallItem], model: str
) -> list[Event]:
    """Return what a model does in place of an event, told these lines as at a session's start."""
    block = render_block(START_NOTE, [Section(KNOWN, shown)], _TOKENS) if shown else None
    patch = None if block is None else {"append": f"\n\n{block.text}"}
    overrides = Overrides(model=model, prompt_patch=patch)
    return await try_again(database, settings, session_id, seq, overrides=overrides, model_calls=MODEL_CALLS)


async def _find_situations(database: Database, row: LessonRow) -> list[_Situation]:
    """Return the latest failed calls that a lesson rests on, one of a session."""
    cited = dict.fromkeys(session_id for session_id, _ in read_lesson(row).evidence)
    async with database.connection() as conn:
        traces = await store.list_traces_of(conn, list(cited))
    trace_of = {row.session_id: Trace.unpack(row.session_id, row.root_id, row.agent, row.trace) for row in traces}
    situations: dict[str, _Situation] = {}  # by lineage root
    for session_id, seq in read_lesson(row).evidence:
        trace = trace_of.get(session_id)
        call = next((call for call in trace.calls if call.seq == seq and call.ok is False), None) if trace else None
        if trace is not None and call is not None:
            situations.setdefault(trace.root_id, _Situation(History.of([trace]).sessions[0], call, trace.start))
    return list(situations.values())[:MAX_SITUATIONS]


async def _try(database: Database, settings: Settings, row: LessonRow, situation: _Situation, model: str) -> Trial:
    session, call = situation.session, situation.call
    attempts = []
    for lines in ([], [lesson_item(row.id, row.line)]):
        log = await _ask_again(database, settings, session.session_id, call.seq, lines, model)
        attempts.append(_judge(read_lesson(row), situation, log))
    shown = call.line or call.path or call.name
    return Trial(row.id, row.line, session.session_id, call.seq, shown, *attempts)


def _judge(lesson: Lesson, situation: _Situation, log: Sequence[Event]) -> Attempt:
    """Tell what a branch did, by its own events."""
    fold, run = TraceFold(redact), RunFold()
    for event in log:
        fold.feed(event)
        run.feed(event)
    branch = log[0].session_id
    traced = Trace.unpack(branch, branch, "", fold.pack())
    session = History.of([replace(traced, start=situation.start)]).sessions[0]
    failed = set(_marks(lesson, situation.session, situation.call, only_failed=True))
    made = {mark for call in session.calls for mark in _marks(lesson, session, call)}
    segments = [segment for call in session.calls for segment in call.segments]
    return Attempt(
        branch,
        tuple(call.line or call.path or call.name for call in session.calls),
        repeats=not failed.isdisjoint(made),
        advised=lesson.instead is not None and any(is_advised(lesson, segment) for segment in segments),
        model_calls=sum(event.type is EventType.THINKING_START for event in log),
        tokens=sum(turn.figures.input_tokens + turn.figures.output_tokens for turn in run.turns),
    )


def _marks(lesson: Lesson, session: TracedSession, call: TracedCall, *, only_failed: bool = False) -> Iterator[Key]:
    """Yield what makes a call the one that a lesson says fails: its key, else its operation with its wrappers."""
    kind = lesson.match.get("kind") if lesson.kind == "always_fails" else None
    lesson_key = None if kind is None else (kind, *(lesson.match[name] for name in MATCH_NAMES.get(kind, ())))
    for segment in call.segments or (None,):
        if segment is not None and only_failed and segment.ok is not False:
            continue
        keys = set(keys_of(session, call, segment))
        if lesson_key is not None:
            yield from keys & {lesson_key}
        elif segment is not None:
            yield "operation", *segment.wrappers, segment.operation
        else:
            yield from keys
