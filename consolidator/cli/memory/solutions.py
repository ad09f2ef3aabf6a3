"""consolidator solutions: errors and what resolved them."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.commands import SEARCH
from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import (
    OUT,
    AgentOption,
    AsJson,
    Limit,
    ProjectOption,
    owner_name,
    pluralize,
    print_entry,
    print_json,
    print_line,
    print_table,
    short_id,
)
from consolidator.models.memory_filter import SolutionFilter
from consolidator.models.solution import SolutionRow
from consolidator.service.memory.solutions import find_solutions, list_solutions


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("solutions")(solutions_command)


def solutions_command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUERY]", help="What to look for: words; `search` before them is left out."),
    ] = None,
    error: Annotated[str | None, typer.Option(help="The text of an error: what is known about it.")] = None,
    tool: Annotated[str | None, typer.Option(help="With --error: the tool that failed.")] = None,
    command: Annotated[str | None, typer.Option(help="With --error: the command that failed, as it was given.")] = None,
    unsolved_too: Annotated[bool, typer.Option("--all", help="Also errors that nothing is known to resolve.")] = False,
    agent: AgentOption = None,
    project: ProjectOption = None,
    peer: Annotated[str | None, typer.Option(help="Only what this peer may see.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List errors and what resolved them; confirmed ones (in two sessions, and mostly when tried) first."""

    async def work() -> list[SolutionRow]:
        async with open_configured() as (database, _):
            if error is not None:
                return await find_solutions(
                    database,
                    error,
                    SolutionFilter(agent, project, peer, include_unsolved=unsolved_too, limit=limit),
                    tool=tool,
                    call=None if command is None else ("bash", {"command": command}),
                )
            asked = words or []
            query = " ".join(asked[1:] if asked[:1] == [SEARCH] else asked) or None  # as of facts and procedures
            return await list_solutions(
                database, SolutionFilter(agent, project, peer, query=query, include_unsolved=unsolved_too, limit=limit)
            )

    solutions = run_async(work())
    if as_json:
        print_json(solutions)
        return
    if solutions and OUT.is_terminal:
        for solution in solutions:
            confirmed, sessions = "confirmed" if solution.confirmed else "", pluralize(solution.sessions, "session")
            print_entry(_lines(solution), confirmed, sessions, _owner(solution), short_id(solution.id))
        return
    if error is not None and not solutions:
        print_line("nothing known about this error")
        return
    print_table(
        "solutions",
        ("id", "error and fix", "confirmed", "sessions", "of"),
        (
            (
                short_id(solution.id),
                _lines(solution),
                "yes" if solution.confirmed else "",
                solution.sessions,
                _owner(solution),
            )
            for solution in solutions
        ),
        right=("sessions",),
    )


def _lines(solution: SolutionRow) -> str:
    """Return a solution, and what only a person is shown of it."""
    return " ".join([solution.body["line"], *(f"[hostile: {fix}]" for fix in solution.withheld)])


def _owner(solution: SolutionRow) -> str:
    return owner_name(solution.project, solution.agent)
