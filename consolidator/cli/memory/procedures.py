"""consolidator procedures and next: what agents do again and again, also as Agent Skills, and what usually follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import OwnerOptions, QueryWords, SessionName, join_query, parse_path, run
from consolidator.cli.output import Limit, emit, owner_name, pluralize, short_id, shorten, table
from consolidator.errors import UsageError
from consolidator.models.memory_filter import ProcedureFilter
from consolidator.models.procedure import MIN_SUCCESS, ProcedureRow
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.skills import export_skills
from consolidator.service.memory.suggestions import suggest_next_calls

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


_NEXT = table(
    "what usually follows",
    "call=symbol, arguments, >likely, >sure, why",
    arguments=lambda call: shorten(json.dumps(call["arguments"], ensure_ascii=False), 120),
    likely=lambda call: f"{call['likelihood']:.0%}",
    sure=lambda call: f"{call['confidence']:.0%}",
    why=lambda call: shorten(call["why"], 100),
)


def next_command(session: SessionName, limit: Limit = 5) -> None:
    """Show what usually follows in a session: the next call, its arguments filled in, with confidence."""
    suggestions = run(suggest_next_calls, session, limit=limit)
    show = _NEXT if suggestions else "no prediction: too few sessions contain this sequence"
    emit(suggestions, show)
