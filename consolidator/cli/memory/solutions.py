"""consolidator solutions: errors with what resolved them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from consolidator.cli.common import OwnerOptions, QueryWords, join_query, run
from consolidator.cli.output import Limit, emit, owner_name, pluralize, short_id, table
from consolidator.models.memory_filter import SolutionFilter
from consolidator.models.solution import SolutionRow
from consolidator.service.database import Database
from consolidator.service.memory.solutions import find_solutions, list_solutions

_TABLE = table(
    "solutions",
    "id, error and fix, confirmed, >sessions, of",
    entry=lambda solution: (
        _line(solution), "confirmed" if solution.confirmed else "", pluralize(solution.sessions, "session"),
        _owner(solution), short_id(solution.id),
    ),
    id=lambda solution: short_id(solution.id),
    error_and_fix=lambda solution: _line(solution),
    confirmed=lambda solution: "yes" if solution.confirmed else "",
    of=lambda solution: _owner(solution),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorOptions:
    """An error that a solution is looked for."""

    error: Annotated[str | None, typer.Option(help="The text of an error: list its solutions.")] = None
    command: Annotated[str | None, typer.Option(help="With --error: the command that failed, as it was given.")] = None


def solutions_command(
    words: QueryWords = None,
    *,
    failure: ErrorOptions,
    unsolved_too: Annotated[bool, typer.Option("--all", help="Also errors without a known solution.")] = False,
    owner: OwnerOptions,
    limit: Limit = 20,
) -> None:
    """List errors and what resolved them; confirmed ones (in two sessions, and mostly when tried) first."""
    filters = SolutionFilter(**owner.values(), include_unsolved=unsolved_too, limit=limit)

    async def load(database: Database) -> list[SolutionRow]:
        if failure.error is None:
            return await list_solutions(database, replace(filters, query=join_query(words)))
        arguments, tool = (None, None) if failure.command is None else ({"command": failure.command}, "bash")
        return await find_solutions(database, failure.error, filters, tool=tool, arguments=arguments)

    solutions = run(load)
    is_unknown = failure.error is not None and not solutions
    emit(solutions, "nothing known about this error" if is_unknown else _TABLE)


def _line(solution: SolutionRow) -> str:
    """Return a solution, and what only a person is shown of it."""
    return " ".join([solution.body["line"], *(f"[hostile: {fix}]" for fix in solution.withheld)])


def _owner(solution: SolutionRow) -> str:
    return owner_name(solution.project, solution.agent)
