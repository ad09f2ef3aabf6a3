"""Errors and what resolved them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.argument_redaction import redact_arguments
from consolidator.memory.calls.operation import failed_symbol
from consolidator.memory.solutions.error_line import headline
from consolidator.memory.solutions.fingerprint import fingerprint, signature
from consolidator.memory.solutions.fix_suggestion import FailedCall, answer_line, concerns_error, suggest_fix
from consolidator.models.memory_filter import Page, SolutionFilter
from consolidator.models.solution import SolutionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.scope import narrow_scope
from consolidator.store.memory import listing, lookup
from consolidator.store.memory.listing import SOLUTION_POSITION as SOLUTION_POSITION

DEFAULT_LIMIT = 5  # solutions of one error


async def list_solutions(
    database: Database, filters: SolutionFilter = SolutionFilter(), *, viewer: Viewer = OWNER
) -> Page[SolutionRow]:
    """Return a page of solutions, confirmed ones first; errors without a known fix only if asked for.

    For a peer those of its own sessions, and what enough people share; for a viewer of one project that project's.
    """
    async with database.connection() as conn:
        return await listing.list_solutions(conn, await narrow_scope(conn, viewer, filters))


async def find_solutions(
    database: Database,
    error: str,
    filters: SolutionFilter = SolutionFilter(limit=DEFAULT_LIMIT),
    *,
    tool: str | None = None,
    arguments: Any = None,
    call: FailedCall | None = None,
    viewer: Viewer = OWNER,
) -> list[SolutionRow]:
    """Return the solutions of an error's text, each with a `suggestion` for this case in its body.

    Errors are found by their fingerprint, else by the words that they share, where all their names are in the text.
    `tool` is the failed tool or its symbol, `arguments` what it was given: some fixes change these. `call` is both, and
    where it ran.
    """
    text = redact(error)
    if tool is not None and arguments is not None:
        call, tool = FailedCall(tool, arguments), None
    if call is not None:
        call = replace(call, arguments=redact_arguments(call.arguments))
        tool = tool or failed_symbol(call.tool, call.arguments, text)
    exact = fingerprint(tool, text) if tool else None
    line = headline(text)
    async with database.connection() as conn:
        filters = await narrow_scope(conn, viewer, filters)
        rows = await lookup.find_solutions_for_error(
            conn, filters, fingerprint=exact, signature=signature(text), text=line
        )
    error_signature = signature(text)
    same = [row for row in rows if row.fingerprint.endswith(f"|{error_signature}")]
    rows = same or [row for row in rows if concerns_error(row.headline, line)]
    return [answer_error(row, text, call) for row in rows][: filters.limit]


def answer_error(row: SolutionRow, error: str, call: FailedCall | None = None) -> SolutionRow:
    """Return a solution whose body has a `suggestion` for an error's text, and a line that says it."""
    suggestion = suggest_fix(row.body, error, call)
    if suggestion is None:
        return replace(row, body={**row.body, "suggestion": None})
    error_headline = headline(error) if row.fingerprint.endswith(f"|{signature(error)}") else ""
    line = answer_line(row.body, suggestion, error_headline)
    return replace(row, body={**row.body, "suggestion": suggestion.to_json(), "line": line})
