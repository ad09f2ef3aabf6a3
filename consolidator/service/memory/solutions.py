"""Errors and what resolved them."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.memory.solutions.error_line import headline
from consolidator.memory.solutions.fingerprint import fingerprint, signature
from consolidator.models.solution import SolutionRow
from consolidator.store.memory import lookup


async def list_solutions(
    database: Database,
    *,
    query: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    limit: int = 50,
) -> list[SolutionRow]:
    """Return solutions, confirmed ones first."""
    async with database.connection() as conn:
        return await lookup.list_solutions(conn, query=query, agent=agent, project=project, limit=limit)


async def find_solutions(
    database: Database,
    error: str,
    *,
    tool: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    limit: int = 5,
) -> list[SolutionRow]:
    """Return the solutions of an error's text: by its fingerprint, else by the words it shares with known errors."""
    text = redact(error)
    exact = fingerprint(tool, text) if tool else None
    async with database.connection() as conn:
        return await lookup.find_solutions_for_error(
            conn,
            fingerprint=exact,
            signature=signature(text),
            text=headline(text),
            agent=agent,
            project=project,
            limit=limit,
        )
