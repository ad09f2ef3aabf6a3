"""Asks the service what the tools answer; an error of ours becomes the tool's, with its message."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import psycopg
from mcp.server.mcpserver.exceptions import ToolError

from consolidator.errors import ConsolidatorError
from consolidator.service.database import Database
from consolidator.service.json_encoding import encode_json
from consolidator.service.log.record import record_events
from consolidator.service.memory.explain import explain
from consolidator.service.memory.learned import load_learned
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.recall import DEFAULT_TOKEN_BUDGET, recall
from consolidator.service.memory.remember import forget, remember
from consolidator.service.memory.solutions import find_solutions
from consolidator.service.memory.suggestions import (
    find_procedures_after_calls,
    suggest_after_calls,
    suggest_next_calls,
)
from consolidator.service.viewer import Viewer
from consolidator.service.visible_text import strip_invisible_in
from consolidator.settings import Settings

T = TypeVar("T")
MAX_UNDER_WAY = 2  # procedures that a suggestion names


@dataclass(frozen=True, slots=True)
class MemoryQueries:
    """What the tools ask the service, as plain JSON values."""

    database: Database
    settings: Settings
    viewer: Callable[[], Viewer]

    async def recall(
        self,
        query: str,
        agent: str | None = None,
        project: str | None = None,
        peer: str | None = None,
        token_budget: int = DEFAULT_TOKEN_BUDGET,
    ) -> dict[str, Any]:
        """Recall what is known about a question or task: a block for the prompt, and the same as cited items."""
        recalling = recall(
            self.database,
            query,
            agent=agent,
            project=project,
            peer=peer,
            token_budget=token_budget,
            settings=self.settings,
            viewer=self.viewer(),
        )
        return to_json((await _with_tool_errors(recalling)).as_json())

    async def lookup_error(
        self,
        error: str,
        tool: str | None = None,
        arguments: dict[str, Any] | None = None,
        agent: str | None = None,
        project: str | None = None,
        limit: int = 5,
    ) -> dict[str, Any]:
        """Look an error up: a fix bound to this case or what was done last time, how often it worked, the evidence."""
        finding = find_solutions(
            self.database,
            error,
            tool=tool if arguments is None else None,
            call=None if tool is None or arguments is None else (tool, arguments),
            agent=agent,
            project=project,
            limit=limit,
            viewer=self.viewer(),
        )
        return to_json({"solutions": await _with_tool_errors(finding)})

    async def suggest_next(
        self,
        session: str | None = None,
        calls: Sequence[Mapping[str, Any]] = (),
        agent: str | None = None,
        project: str | None = None,
        limit: int = 5,
    ) -> dict[str, Any]:
        """Suggest what usually follows in a session, or after recent calls: calls, and what is left of procedures."""
        if calls:
            suggesting = suggest_after_calls(
                self.database, calls, agent=agent, project=project, limit=limit, viewer=self.viewer()
            )
        else:
            suggesting = suggest_next_calls(self.database, session or "", limit=limit, viewer=self.viewer())
        answer: dict[str, Any] = {"suggestions": await _with_tool_errors(suggesting)}
        if calls:
            finding = find_procedures_after_calls(
                self.database, calls, agent=agent, project=project, viewer=self.viewer()
            )
            under_way = (await _with_tool_errors(finding))[:MAX_UNDER_WAY]
            answer["procedures"] = [{"row": found.procedure, "left": found.left} for found in under_way]
        return to_json(answer)

    async def list_procedures(
        self,
        query: str | None = None,
        agent: str | None = None,
        project: str | None = None,
        everything: bool = False,
        limit: int = 20,
    ) -> dict[str, Any]:
        """List the procedures worth knowing that sessions have in common: steps, purpose, support, success rate."""
        listing = list_procedures(
            self.database,
            query=query,
            agent=agent,
            project=project,
            everything=everything,
            limit=limit,
            viewer=self.viewer(),
        )
        return to_json({"procedures": await _with_tool_errors(listing)})

    async def explain(
        self,
        id: str,
    ) -> dict[str, Any]:
        """Explain anything that was learned: the quotes, sessions and run it rests on, and its history."""
        return to_json(await _with_tool_errors(explain(self.database, id, viewer=self.viewer())))

    async def remember(
        self, statement: str, *, project: str | None = None, agent: str | None = None, peer: str | None = None
    ) -> dict[str, Any]:
        """Remember a statement."""
        work = remember(self.database, statement, project=project, agent=agent, peer=peer, viewer=self.viewer())
        return to_json((await _with_tool_errors(work)).as_json())

    async def forget(self, words: str, *, project: str | None = None, agent: str | None = None) -> dict[str, Any]:
        """Stop believing a fact."""
        work = forget(self.database, words, project=project, agent=agent, viewer=self.viewer())
        return to_json((await _with_tool_errors(work)).as_json())

    async def learned(
        self,
        since: datetime | None = None,
        *,
        agent: str | None = None,
        project: str | None = None,
        peer: str | None = None,
        limit: int = 10,
    ) -> dict[str, Any]:
        """Return what is new since a moment."""
        work = load_learned(
            self.database, since, agent=agent, project=project, peer=peer, limit=limit, viewer=self.viewer()
        )
        news = await _with_tool_errors(work)
        return {} if news is None else to_json(news.as_json())

    async def record_events(
        self,
        session_key: str,
        events: list[dict[str, Any]],
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Record what happened in the log; tonight it becomes memory. All events are written, or none."""
        recording = record_events(
            self.database,
            session_key,
            events,
            project=project,
            idempotency_key=idempotency_key,
            viewer=self.viewer(),
        )
        return await _with_tool_errors(recording)


async def _with_tool_errors(work: Awaitable[T]) -> T:
    """Await a result; an error of ours becomes the tool's, with its message."""
    try:
        return await work
    except ConsolidatorError as error:
        raise ToolError(str(error)) from error
    except (psycopg.DataError, UnicodeEncodeError) as error:  # NUL or half a character in a name
        raise ToolError(f"an argument holds a character that no name can hold: {error}") from error


def to_json(value: Any) -> dict[str, Any]:
    """Return a value as plain JSON types, without the characters that nobody sees."""
    plain: dict[str, Any] = strip_invisible_in(json.loads(json.dumps(value, default=encode_json)))
    return plain
