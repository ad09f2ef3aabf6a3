"""The tools that the server offers: a method's name, docstring and parameters are what a model sees of it."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError, NoBackChannelError
from pydantic import Field

from consolidator.mcp_server import texts
from consolidator.models.memory_filter import LessonFilter, MemoryScope, ProcedureFilter, SolutionFilter
from consolidator.models.viewer import Viewer
from consolidator.service.bounded_text import fit_lines
from consolidator.service.database import Database
from consolidator.service.encoding import to_visible_json
from consolidator.service.log.record import MAX_EVENTS, record_events
from consolidator.service.memory.compiling import list_compiled, next_step
from consolidator.service.memory.explain import explain
from consolidator.service.memory.learned import load_learned
from consolidator.service.memory.lessons import find_lessons_about
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.recall import DEFAULT_TOKEN_BUDGET, recall
from consolidator.service.memory.remember import MAX_STATEMENT_CHARS, forget, remember
from consolidator.service.memory.solutions import find_solutions
from consolidator.service.memory.suggestions import (
    MAX_CALLS,
    find_procedures_after_calls,
    suggest_after_calls,
    suggest_next_calls,
)
from consolidator.service.scope import find_project
from consolidator.settings import Settings

ROOTS_TIMEOUT = 2.0  # seconds that a client has to say its roots
CONTEXT: ContextVar[Context[Any, Any] | None] = ContextVar("context", default=None)  # of the call


async def _ask_root(context: Context[Any, Any]) -> Path | None:
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.roots is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            async with asyncio.timeout(ROOTS_TIMEOUT):
                roots = (await context.session.list_roots()).roots
    except (MCPError, NoBackChannelError, TimeoutError):
        return None
    paths = [urlsplit(str(root.uri)) for root in roots]
    return next((Path(unquote(path.path)) for path in paths if path.scheme == "file" and path.path), None)


Limit = Annotated[int, Field(ge=1, le=100, description="how many at most")]
Budget = Annotated[int, Field(ge=100, le=100_000, description="tokens that the answer may have")]
Agent = Annotated[
    str | None, Field(max_length=200, description="what this agent is told: its own, and what all agents share")
]
Peer = Annotated[str | None, Field(max_length=200, description="only what concerns this person")]
Project = Annotated[
    str | None, Field(max_length=1000, description="a project's path, or its last part; by default the client's")
]
Everywhere = Annotated[bool, Field(description="all projects instead of one")]
Words = Annotated[str, Field(min_length=1, max_length=8000)]
MAX_UNDER_WAY = 2  # procedures that a suggestion names
CONFIRMATION_BUDGET = 600  # tokens of what remember and forget answer


@dataclass(frozen=True, slots=True)
class MemoryTools:
    """The tools over an open database; each answers with one text within its budget of tokens."""

    database: Database
    settings: Settings
    viewer: Callable[[], Viewer]  # of the call
    directory: Path | None  # where a client without roots works; None: nowhere in particular

    async def recall(
        self,
        query: Words,
        agent: Agent = None,
        project: Project = None,
        everywhere: Everywhere = False,
        peer: Peer = None,
        token_budget: Budget = DEFAULT_TOKEN_BUDGET,
    ) -> str:
        """Recall what people said and agents did about a question or task, each line with its citation.

        Call it before work that an earlier session may have decided or done: conventions, decisions, names, how
        something was done here. Not for what the files at hand say, for general knowledge, or for an error that just
        came (lookup_error). Where nothing matches, other words may.
        """
        scope = MemoryScope(agent, await self._find_project(project, everywhere), peer)
        answer = await recall(
            self.database, query, scope, token_budget=token_budget, settings=self.settings, viewer=self.viewer()
        )
        if answer.block or scope.project is None or everywhere:
            return str(to_visible_json(answer.block)) or answer.miss
        hint = "" if project else "; everywhere=true asks all projects"
        return f"{answer.miss} in the project {scope.project}{hint}"

    async def lookup_error(
        self,
        error: Annotated[str, Field(min_length=1, max_length=100_000, description="the error's text as it came")],
        tool: Annotated[str | None, Field(max_length=200, description="the tool that failed")] = None,
        arguments: Annotated[
            dict[str, Any] | None, Field(description="what the failed tool was given: some fixes change it")
        ] = None,
        agent: Agent = None,
        project: Project = None,
        everywhere: Everywhere = False,
        limit: Limit = 3,
        token_budget: Budget = 600,
    ) -> str:
        """Look an error up: the fix that worked before, bound to this case, and how often it worked.

        Call it as soon as a call fails, before you try anything else, with the failed tool and its arguments. Not for
        what is no error, and not again for the same error.
        """
        viewer = self.viewer()
        look_up = partial(find_solutions, self.database, error, tool=tool, arguments=arguments, viewer=viewer)
        filters = SolutionFilter(agent, await self._find_project(project, everywhere), limit=limit)
        rows = await look_up(filters)
        is_elsewhere = not rows and filters.project is not None and not project
        if is_elsewhere:  # an error's fix holds where another project found it, too
            rows = await look_up(replace(filters, project=viewer.project))
        return fit_lines(texts.solution_lines(to_visible_json(rows), from_elsewhere=is_elsewhere), token_budget)

    async def how(
        self,
        words: Annotated[
            str | None, Field(max_length=1000, description="a purpose (test, lint, build, deploy) or other words")
        ] = None,
        agent: Agent = None,
        project: Project = None,
        everywhere: Everywhere = False,
        limit: Limit = 10,
        token_budget: Budget = 600,
    ) -> str:
        """Tell how things are run here: the call that works for a purpose, where, and which variants always fail.

        Call it before the first test, lint, build or deploy of a session, unless you were told already. Not for an
        error that just came (lookup_error), and not for what people decided (recall).
        """
        filters = LessonFilter(agent, await self._find_project(project, everywhere), limit=limit)
        rows = await find_lessons_about(self.database, words, filters, viewer=self.viewer())
        return fit_lines(
            texts.lesson_lines(to_visible_json([row for row in rows if row.withheld is None])), token_budget
        )

    async def suggest_next(
        self,
        recent_calls: Annotated[
            list[dict[str, Any]] | None,
            Field(
                max_length=MAX_CALLS,
                description='now, the latest last: {"tool": "Bash", "arguments": {"command": "make"}, "failed": true}',
            ),
        ] = None,
        session: Annotated[
            str | None, Field(max_length=500, description="or a recorded session: its id, or how its name begins")
        ] = None,
        agent: Agent = None,
        project: Project = None,
        everywhere: Everywhere = False,
        limit: Limit = 5,
        token_budget: Budget = 600,
    ) -> str:
        """Suggest the calls that usually follow what was just called, with their arguments and likelihood.

        Call it with your recent calls when a routine is under way (release, deploy, commit) and you are not sure what
        comes next here. Not for what to do about an error (lookup_error), and not before the first call.
        """
        if bool(recent_calls) == bool(session):
            raise ToolError("give either recent_calls, of the session under way, or a recorded session")
        viewer, under_way = self.viewer(), []
        if recent_calls:
            scope = MemoryScope(agent, await self._find_project(project, everywhere))
            calls = await suggest_after_calls(self.database, recent_calls, scope, limit=limit, viewer=viewer)
            under_way = await find_procedures_after_calls(self.database, recent_calls, scope, viewer=viewer)
        else:
            calls = await suggest_next_calls(self.database, session or "", limit=limit, viewer=viewer)
        lines = texts.suggestion_lines(to_visible_json(calls), to_visible_json(under_way[:MAX_UNDER_WAY]))
        return fit_lines(lines, token_budget)

    async def list_procedures(
        self,
        query: Annotated[str | None, Field(max_length=1000, description="words to look for")] = None,
        agent: Agent = None,
        project: Project = None,
        everywhere: Everywhere = False,
        include_unworthy: Annotated[
            bool, Field(description="also those that are not worth telling, such as pairs")
        ] = False,
        limit: Limit = 20,
        token_budget: Budget = 1000,
    ) -> str:
        """List the procedures that sessions here have in common: their steps, how often, how well they worked.

        Call it when a task looks like one that is done here again and again (release, migration, review). Not for
        single facts (recall); explain shows a procedure's arguments and evidence.
        """
        place = await self._find_project(project, everywhere)
        filters = ProcedureFilter(agent, place, query=query, include_unworthy=include_unworthy, limit=limit)
        rows = await list_procedures(self.database, filters, viewer=self.viewer())
        return fit_lines(texts.procedure_lines(to_visible_json(rows)), token_budget)

    async def follow_procedure(
        self,
        name: Annotated[str | None, Field(max_length=200, description="without it, those that there are")] = None,
        parameters: Annotated[dict[str, Any] | None, Field(description="what it takes")] = None,
        results: Annotated[
            list[dict[str, Any]] | None,
            Field(max_length=20, description='of the calls made, in order: {"status": "ok", "content": "..."}'),
        ] = None,
    ) -> str:
        """Follow a procedure that a person compiled here: it names the next call, which you make yourself.

        Call it again with that call's result added. It ends at the first result that does not look as it did before.
        """
        tools = await list_compiled(self.database, viewer=self.viewer())
        procedure = next((each for each in tools if each.name == name), None)
        if procedure is None:
            return fit_lines(texts.compiled_lines(tools), CONFIRMATION_BUDGET)
        following = next_step(procedure, parameters or {}, results or [])
        return texts.step_line(procedure, following)

    async def learned(
        self,
        since: Annotated[datetime | None, Field(description="by default the latest night that learned")] = None,
        agent: Agent = None,
        project: Project = None,
        everywhere: Everywhere = False,
        limit: Annotated[int, Field(ge=1, le=100, description="of each kind")] = 10,
        token_budget: Budget = 1000,
    ) -> str:
        """Tell what memory learned lately: new and changed facts, procedures, fixes.

        Call it when a person asks what is new, or what was learned. Not to answer a question (recall).
        """
        scope = MemoryScope(agent, await self._find_project(project, everywhere))
        since = since.astimezone() if since is not None and since.tzinfo is None else since
        news = await load_learned(self.database, since, scope, limit=limit, viewer=self.viewer())
        lines = texts.learned_lines({} if news is None else to_visible_json(news.as_json()))
        return fit_lines(lines, token_budget)

    async def explain(
        self,
        id: Annotated[
            str, Field(max_length=200, description="of a fact, lesson, procedure or solution, as it is cited")
        ],
        token_budget: Budget = 2000,
    ) -> str:
        """Explain something learned: the quotes, sessions and run it rests on, and its history.

        Call it when a recalled line decides something and you doubt it, or a person asks why. Not for every line.
        """
        explanation = await explain(self.database, id, viewer=self.viewer())
        return fit_lines(texts.explanation_lines(to_visible_json(explanation)), token_budget)

    async def remember(
        self,
        statement: Annotated[
            str, Field(min_length=1, max_length=MAX_STATEMENT_CHARS, description="what holds, in one sentence")
        ],
        agent: Agent = None,
        project: Project = None,
        everywhere: Annotated[bool, Field(description="it holds in every project")] = False,
        peer: Annotated[str | None, Field(max_length=200, description="it is about this person")] = None,
    ) -> str:
        """Remember a statement: it is in the log at once, and believed.

        Call it when a person says what shall hold from now on ("we use tabs"), in their words. Not for what you did,
        guess or read in files, not for secrets, and not for what holds only today.
        """
        scope = MemoryScope(agent, None if peer else await self._find_project(project, everywhere), peer)
        fact = await remember(self.database, statement, scope, viewer=self.viewer())
        return fit_lines([texts.remembered_line(to_visible_json(fact))], CONFIRMATION_BUDGET)

    async def forget(
        self,
        fact: Annotated[
            str, Field(min_length=1, max_length=MAX_STATEMENT_CHARS, description="its id, or words that it alone has")
        ],
        agent: Agent = None,
        project: Project = None,
    ) -> str:
        """Stop believing a fact, by its id as it is cited.

        Call it when a person says that something remembered is wrong or shall be forgotten. Not because you disagree;
        for what has changed, remember the new.
        """
        scope = MemoryScope(agent, await self._find_project(project, everywhere=False))
        forgotten = await forget(self.database, fact, scope, viewer=self.viewer())
        return fit_lines([texts.forgotten_line(to_visible_json(forgotten))], CONFIRMATION_BUDGET)

    async def record_events(
        self,
        session_key: Annotated[str, Field(max_length=300, description="agent:channel:peer, such as main:cli:mara")],
        events: Annotated[
            list[dict[str, Any]],
            Field(max_length=MAX_EVENTS, description='{"type": "UserMessage", "data": {"text": "..."}} and so on'),
        ],
        project: Annotated[str | None, Field(max_length=1000, description="working directory or repository")] = None,
        idempotency_key: Annotated[str | None, Field(max_length=200, description="a repeat writes nothing")] = None,
    ) -> str:
        """Record what happened in the log; tonight it becomes memory. All events are written, or none.

        For a program that has no log of its own: call it as things happen. Not where the agent's own logs are imported
        (Claude Code, Codex, Cursor), and not for a statement that shall hold (remember).
        """
        written = await record_events(
            self.database, session_key, events, project=project, idempotency_key=idempotency_key, viewer=self.viewer()
        )
        seqs = f"{written['first_seq']} to {written['last_seq']}"
        return f"{'was recorded already' if written['repeated'] else 'recorded'}: {written['session']}, events {seqs}"

    async def _find_project(self, project: str | None, everywhere: bool) -> str | None:
        """Return the project that a call is about: none for all, the client's where it names none."""
        if everywhere and project:
            raise ToolError("project and everywhere are different places: give one of them")
        if everywhere or project or self.viewer().project is not None:
            return project
        context = CONTEXT.get()
        directory = (await _ask_root(context) if context is not None else None) or self.directory
        return None if directory is None else await find_project(self.database, directory)
