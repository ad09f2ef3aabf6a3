"""consolidator procedures and solutions: what agents do again and again; errors, and what resolved them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import OwnerOptions, QueryWords, join_query, parse_path, run
from consolidator.cli.output import Limit, emit, owner_name, pluralize, short_id, table
from consolidator.errors import UsageError
from consolidator.models.memory_filter import ProcedureFilter, SolutionFilter
from consolidator.models.procedure import MIN_SUCCESS, ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.service.database import Database
from consolidator.service.memory.procedures import list_procedures

_PROCEDURES = table(
    "procedures",
    "id, steps=title, >sessions=support, >worked, of",
    entry=lambda procedure: (
        procedure.title, "", pluralize(procedure.support, "session"), f"worked {_success_rate(procedure)}",
        _owner(procedure), short_id(procedure.id),
    ),
    id=lambda procedure: short_id(procedure.id),
    worked=lambda procedure: _success_rate(procedure),
    of=lambda procedure: _owner(procedure),
)  # fmt: skip


def procedures_command(
    words: QueryWords = None,
    *,
    owner: OwnerOptions,
    everything: Annotated[bool, typer.Option("--all", help="Also procedures that are not worth telling.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=parse_path, help="Write them there as Agent Skills, but those that mostly fail."
        ),
    ] = None,
    limit: Limit = 20,
) -> None:
    """List the procedures worth knowing, the best first (`explain ID` shows steps and evidence).

    They have three different steps or more, two of which say what they are for, and whose steps often go together.
    """
    filters = ProcedureFilter(**owner.values(), query=join_query(words), include_unworthy=everything, limit=limit)
    if export is None:
        emit(run(list_procedures, filters), _PROCEDURES)
    else:
        _export(export, filters)


def _success_rate(procedure: ProcedureRow) -> str:
    return f"{procedure.body['success']['mean']:.0%}"


def _owner(row: ProcedureRow | SolutionRow) -> str:
    return owner_name(row.project, row.agent)


def _export(directory: Path, filters: ProcedureFilter) -> None:
    """Write Agent Skills: a folder with a SKILL.md each."""
    from consolidator.service.memory.skills import export_skills  # which reads sessions, and lists do not

    try:
        directory.mkdir(parents=True, exist_ok=True)
        exported = run(export_skills, directory, filters)
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror}") from error
    lines = [f"{pluralize(len(exported.files), 'skill')} in {directory}"]
    if exported.failing:
        left_out = pluralize(len(exported.failing), "procedure")
        lines.append(
            f"{left_out} left out: less than {MIN_SUCCESS:.0%} of the sessions or calls with them worked "
            "(`--all` exports everything)"
        )
    emit({"files": exported.files}, "\n".join(lines))


_SOLUTIONS = table(
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

    from consolidator.service.memory.solutions import find_solutions, list_solutions  # which read an error's form

    async def load(database: Database) -> list[SolutionRow]:
        if failure.error is None:
            return await list_solutions(database, replace(filters, query=join_query(words)))
        arguments, tool = (None, None) if failure.command is None else ({"command": failure.command}, "bash")
        return await find_solutions(database, failure.error, filters, tool=tool, arguments=arguments)

    solutions = run(load)
    is_unknown = failure.error is not None and not solutions
    emit(solutions, "nothing known about this error" if is_unknown else _SOLUTIONS)


def _line(solution: SolutionRow) -> str:
    """Return a solution, and what only a person is shown of it."""
    return " ".join([solution.body["line"], *(f"[hostile: {fix}]" for fix in solution.withheld)])
