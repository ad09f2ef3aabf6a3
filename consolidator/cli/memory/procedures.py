"""consolidator procedures: what agents do again and again; exported as skills."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import OwnerOptions, QueryWords, join_query, parse_path, run
from consolidator.cli.output import Limit, emit, owner_name, pluralize, short_id, table
from consolidator.errors import UsageError
from consolidator.models.memory_filter import ProcedureFilter
from consolidator.models.procedure import MIN_SUCCESS, ProcedureRow
from consolidator.service.memory.procedures import list_procedures

_TABLE = table(
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
        emit(run(list_procedures, filters), _TABLE)
    else:
        _export(export, filters)


def _success_rate(procedure: ProcedureRow) -> str:
    return f"{procedure.body['success']['mean']:.0%}"


def _owner(procedure: ProcedureRow) -> str:
    return owner_name(procedure.project, procedure.agent)


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
