"""consolidator procedures and next: what agents do again and again, also as Agent Skills, and what usually follows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import SessionName, parse_path, run
from consolidator.cli.options import OwnerOptions, spread
from consolidator.cli.output import Limit, emit, owner_name, pluralize, print_line, short_id, shorten, table
from consolidator.cli.query_group import QueryGroup
from consolidator.errors import UsageError
from consolidator.models.memory_filter import ProcedureFilter
from consolidator.models.procedure import MIN_SUCCESS, ProcedureRow
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.skills import export_skills
from consolidator.service.memory.suggestions import suggest_next_calls

EverythingOption = Annotated[bool, typer.Option("--all", help="Also procedures that are not worth telling.")]
procedures_app = typer.Typer(cls=QueryGroup, invoke_without_command=True)
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


@procedures_app.callback()
@spread
def procedures_command(
    context: typer.Context,
    query: Annotated[
        str | None, typer.Argument(help="What to look for: `search` and words, or a phrase in quotes.")
    ] = None,
    *,
    owner: OwnerOptions,
    everything: EverythingOption = False,
    limit: Limit = 20,
) -> None:
    """List the procedures worth knowing, the best first (`explain ID` shows steps and evidence).

    They have three different steps or more, two of which say what they are for, and whose steps often go together.
    """
    if context.invoked_subcommand:
        return
    procedures = run(
        lambda database, _: list_procedures(
            database, ProcedureFilter(**owner.values(), query=query, include_unworthy=everything, limit=limit)
        )
    )
    emit(procedures, _TABLE)


def _success_rate(procedure: ProcedureRow) -> str:
    return f"{procedure.body['success']['mean']:.0%}"


def _owner(procedure: ProcedureRow) -> str:
    return owner_name(procedure.project, procedure.agent)


@procedures_app.command("export")
@spread
def export_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", parser=parse_path, help="Where the folders go.")],
    format_name: Annotated[str, typer.Option("--format", help="skill: one SKILL.md folder each.")] = "skill",
    *,
    owner: OwnerOptions,
    everything: EverythingOption = False,
    limit: Limit = 20,
) -> None:
    """Export procedures as Agent Skills, which coding agents load by themselves; not those that mostly fail."""
    if format_name != "skill":
        raise UsageError(f"--format takes skill, not {format_name!r}")

    try:
        directory.mkdir(parents=True, exist_ok=True)
        exported = run(
            lambda database, _: export_skills(
                database, directory, ProcedureFilter(**owner.values(), include_unworthy=everything, limit=limit)
            )
        )
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror}") from error
    print_line(f"{pluralize(len(exported.files), 'skill')} in {directory}")
    if exported.failing:
        print_line(
            f"{pluralize(len(exported.failing), 'procedure')} left out: less than {MIN_SUCCESS:.0%} of the sessions or "
            "calls with them worked (`--all` exports everything)"
        )


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
    suggestions = run(lambda database, _: suggest_next_calls(database, session, limit=limit))
    show = _NEXT if suggestions else "no prediction: too few sessions contain this sequence"
    emit(suggestions, show)
