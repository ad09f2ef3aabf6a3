"""Memory, for programs: what agents learned, asked and told by the functions that every front end calls.

Where the service answers with JSON, an answer has a type here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypedDict, TypeVar, Unpack

from consolidator.errors import UsageError
from consolidator.library.shared_database import DatabaseUse
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import OLD_NAMES, FactFilter, MemoryScope, ProcedureFilter, SolutionFilter
from consolidator.models.procedure import ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.models.viewer import OWNER, Scope, Viewer
from consolidator.service.database import Database
from consolidator.service.log import record as recording
from consolidator.service.memory import explain as explaining
from consolidator.service.memory import facts, learned, procedures, solutions
from consolidator.service.memory import recall as recalling
from consolidator.service.memory import remember as remembering
from consolidator.service.memory.learned import LearnedNews
from consolidator.service.memory.recall import DEFAULT_TOKEN_BUDGET, RecallResult
from consolidator.service.memory.remember import Remembered
from consolidator.service.memory.solutions import DEFAULT_LIMIT
from consolidator.service.nights.runs import JobContext, run_job
from consolidator.settings import Settings


@dataclass(frozen=True, slots=True)
class Quote:
    """One piece of evidence: what was said or done, and where."""

    session_id: str
    seq: int
    quote: str
    origin: str | None  # the foreign name of the session, if it was imported
    log: Literal["there", "pruned", "erased"]  # whether the log still has the event
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why memory holds something: what it says, how it came about, and the quotes that it rests on."""

    kind: Literal["fact", "procedure", "solution", "lesson", "candidate"]
    title: str
    lines: list[str]
    evidence: list[Quote]
    by: str  # what wrote it last, such as "by run 01K..."
    learned_at: datetime
    run_id: str | None


@dataclass(frozen=True, slots=True)
class NightReport:
    """What a night did, in events of the log: seen = learned + nothing + deferred + dead."""

    run: str
    status: str  # done | failed: a failed night left dead letters, or its model did not answer
    sessions: int
    seen: int
    learned: int
    nothing: int  # there was nothing to learn
    deferred: int  # the next night reads them
    dead: int  # could not be read: `consolidator runs --retry`
    error: str | None
    report: Mapping[str, Any]  # the whole of it, as JSON


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where recorded events are in the log."""

    session: str
    first_seq: int
    last_seq: int
    repeated: bool  # a call with this idempotency key wrote them before


def read_explanation(explained: Mapping[str, Any]) -> Explanation:
    """Return an explanation of the service as typed values."""
    evidence = [
        Quote(**_of(Quote, proof), occurred_at=datetime.fromisoformat(when) if isinstance(when, str) else when)
        for proof in explained["evidence"]
        for when in (proof["when"],)
    ]
    return Explanation(**_of(Explanation, explained) | {"evidence": evidence, "lines": list(explained["lines"])})


def read_night_report(report: Mapping[str, Any]) -> NightReport:
    """Return the report of a consolidation as typed values."""
    return NightReport(**{"error": None, **_of(NightReport, report), "report": report})


def _of(kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are fields of a dataclass."""
    return {each.name: values[each.name] for each in fields(kind) if each.name in values}


Result = TypeVar("Result")
AnyScope = TypeVar("AnyScope", bound=MemoryScope)
Arguments = ParamSpec("Arguments")
AGENT_SCOPES: tuple[Scope, ...] = ("read", "record")


class About(TypedDict, total=False):
    """What a call is about, where it is something else than its memory is about."""

    agent: str | None
    project: str | None
    peer: str | None


class Listed(About, total=False):
    """What every list takes, too."""

    limit: int


class FactOptions(Listed, total=False):
    """Which facts: also those believed no more; as believed at `as_of`, or as true at `valid_at`."""

    include_superseded: bool
    as_of: datetime | None
    valid_at: datetime | None


class ProcedureOptions(Listed, total=False):
    """Which procedures: also those that are not worth telling."""

    include_unworthy: bool


class SolutionOptions(Listed, total=False):
    """Which solutions: also errors without a known fix."""

    include_unsolved: bool


class Memory:
    """What agents learned: `async with Memory() as memory: await memory.recall("...")`.

    `with Memory() as memory: memory.recall("...")` is the same for synchronous code, as is `Memory().blocking`. Any
    number of threads, event loops and tasks may share one; all of a process share one open database, which the first
    call opens as the command line does (an embedded one unless CONSOLIDATOR_DATABASE_URL names another), and the last
    one that is closed, or the end of the process, closes.

    `agent`, `project` and `peer` are what a call is about that does not say otherwise. `viewer` is a boundary that no
    call can cross, such as `Viewer(peer="mara")`. A `database` of your own is used on the event loop that opened it.
    """

    def __init__(
        self,
        *,
        agent: str | None = None,
        project: str | None = None,
        peer: str | None = None,
        viewer: Viewer = OWNER,
        settings: Settings | None = None,
        database: Database | None = None,
    ) -> None:
        self.agent = agent
        self.project = project
        self.peer = peer
        self.viewer = viewer
        self._use = DatabaseUse(database, settings)

    async def remember(self, statement: str, **about: Unpack[About]) -> Remembered:
        """Believe a statement at once: of the project if one is named, else of the peer, else of the agent.

        It is a person's word; for a viewer without the scope `write` an agent's.
        """
        return await self._ask(remembering.remember, statement, self._fill(MemoryScope, about))

    async def forget(self, words: str, **about: Unpack[About]) -> Remembered:
        """Stop believing the fact of an id, of the beginning of one, or the only one with these words.

        Raises NotFound where there is none, and UsageError that lists them where there are several.
        """
        return await self._ask(remembering.forget, words, self._fill(MemoryScope, about))

    async def recall(
        self, query: str, *, token_budget: int = DEFAULT_TOKEN_BUDGET, **about: Unpack[About]
    ) -> RecallResult:
        """Return what is known about a question or task: a block for a prompt, and the same as cited items."""
        scope = self._fill(MemoryScope, about)
        return await self._ask(recalling.recall, query, scope, token_budget=token_budget, settings=self._use.settings)

    async def facts(self, query: str | None = None, **options: Unpack[FactOptions]) -> list[FactRow]:
        """Return facts, those of most sessions first: as believed at `as_of`, or as true at `valid_at`."""
        return await self._ask(facts.list_facts, self._fill(FactFilter, options, query=query))

    async def procedures(self, query: str | None = None, **options: Unpack[ProcedureOptions]) -> list[ProcedureRow]:
        """Return what agents do again and again, the best first; `include_unworthy`: also what is not worth telling."""
        return await self._ask(procedures.list_procedures, self._fill(ProcedureFilter, options, query=query))

    async def solutions(self, query: str | None = None, **options: Unpack[SolutionOptions]) -> list[SolutionRow]:
        """Return errors and what resolved them, confirmed ones first."""
        return await self._ask(solutions.list_solutions, self._fill(SolutionFilter, options, query=query))

    async def lookup_error(
        self,
        error: str,
        *,
        tool: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        **options: Unpack[Listed],
    ) -> list[SolutionRow]:
        """Return what resolved an error, by its text; `suggestion` in a body is the fix, bound to this case.

        `tool` is what failed, `arguments` what it was given: some fixes change these.
        """
        filters = self._fill(SolutionFilter, {"limit": DEFAULT_LIMIT, **options})
        return await self._ask(solutions.find_solutions, error, filters, tool=tool, arguments=arguments)

    async def explain(self, memory_id: str) -> Explanation:
        """Return the quotes, sessions and run that a fact, a procedure or a solution rests on, and its history.

        Raises NotFound where there is none with this id.
        """
        return read_explanation(await self._ask(explaining.explain, memory_id, peer=self.peer))

    async def learned(self, since: datetime | None = None, **options: Unpack[Listed]) -> LearnedNews | None:
        """Return what is new since a moment, or else since the latest night that learned; None before the first."""
        about: dict[str, Any] = {**options}
        limit = about.pop("limit", 10)
        return await self._ask(learned.load_learned, since, self._fill(MemoryScope, about), limit=limit)

    async def record(
        self,
        key: str,
        events: Sequence[Mapping[str, Any]],
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> Recorded:
        """Append what happened to the session of a key (`agent:channel:peer`); a night makes it memory.

        An event is `{"type": "UserMessage", "data": {"text": "..."}}` and so on; a UserMessage is a person's word. All
        are written, or none; a repeat with the same `idempotency_key` writes nothing.
        """
        project = self.project if project is None else project
        recorded = await self._ask(
            recording.record_events, key, events, project=project, idempotency_key=idempotency_key
        )
        return Recorded(**recorded)

    async def run_night(self) -> NightReport:
        """Learn now from all that is new in the log, as the nightly job does; cancelled, the next night goes on."""
        self.viewer.check_may("admin")
        settings = self._use.settings
        if settings.learn_processes is None:  # a process imports the main module again, and this may be anybody's
            settings = settings.model_copy(update={"learn_processes": 1})
        self._check_open()
        report = await self._use.run(lambda database: run_job(JobContext(database, settings), "consolidation"))
        return read_night_report(report)

    def for_agent(self) -> Memory:
        """Return the same memory for a model: it may read and record, and its word is an agent's, no person's."""
        scopes = frozenset[Scope](scope for scope in AGENT_SCOPES if self.viewer.may(scope))
        narrower = copy(self)
        narrower.viewer = replace(self.viewer, scopes=scopes)
        return narrower

    @property
    def blocking(self) -> BlockingMemory:
        """The same for synchronous code: its methods wait, where these are awaited."""
        return BlockingMemory(self)

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return what a coroutine of this memory gives; this thread waits while the database's loop runs it."""
        self._check_open()
        return self._use.run_blocking(work)

    async def close(self) -> None:
        """Close it; the last one of a process closes the database, too."""
        await asyncio.to_thread(self.close_and_wait)

    def close_and_wait(self) -> None:
        """Close it from synchronous code."""
        self._use.close()

    async def __aenter__(self) -> Memory:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> BlockingMemory:
        return self.blocking

    def __exit__(self, *_: object) -> None:
        self.close_and_wait()

    def _fill(self, kind: type[AnyScope], options: Mapping[str, Any], **more: Any) -> AnyScope:
        """Return what a call is about: what it says, by new names or old ones, else what this memory is about."""
        named = {OLD_NAMES.get(name, name): value for name, value in options.items()}
        for name in ("agent", "project", "peer"):
            if named.get(name) is None:
                named[name] = getattr(self, name)
        return kind(**named, **more)

    async def _ask(self, function: Callable[..., Awaitable[Result]], *args: Any, **options: Any) -> Result:
        """Return what a function of the service answers to this memory's viewer."""
        self._check_open()
        return await self._use.run(lambda database: function(database, *args, **options, viewer=self.viewer))

    def _check_open(self) -> None:
        if self._use.is_closed:
            raise UsageError("this Memory is closed: open another one")


def _in_blocking_form(
    method: Callable[Concatenate[Memory, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[BlockingMemory, Arguments], Result]:
    """Return a method of Memory as one that waits: the same parameters, documentation and types."""

    @wraps(method)
    def wait(blocking: BlockingMemory, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return blocking.memory.wait_for(lambda: method(blocking.memory, *args, **kwargs))

    return wait


class BlockingMemory:
    """Memory for synchronous code: each method waits, on the calling thread, for that of the same name.

    On a thread that runs an event loop, that loop waits too: `await` the methods of Memory there.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    remember = _in_blocking_form(Memory.remember)
    forget = _in_blocking_form(Memory.forget)
    recall = _in_blocking_form(Memory.recall)
    facts = _in_blocking_form(Memory.facts)
    procedures = _in_blocking_form(Memory.procedures)
    solutions = _in_blocking_form(Memory.solutions)
    lookup_error = _in_blocking_form(Memory.lookup_error)
    explain = _in_blocking_form(Memory.explain)
    learned = _in_blocking_form(Memory.learned)
    record = _in_blocking_form(Memory.record)
    run_night = _in_blocking_form(Memory.run_night)

    def close(self) -> None:
        """Close it; the last one of a process closes the database, too."""
        self.memory.close_and_wait()

    def __enter__(self) -> BlockingMemory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
