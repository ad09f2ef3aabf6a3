"""consolidator procedures: what agents do again and again, also as Agent Skills."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import open_configured, parse_path, run_async
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
from consolidator.cli.query_group import QueryGroup
from consolidator.errors import UsageError
from consolidator.models.memory_filter import ProcedureFilter
from consolidator.models.procedure import MIN_SUCCESS, ProcedureRow
from consolidator.service.memory.procedures import describe_purpose, list_procedures
from consolidator.service.memory.skills import SkillExport, export_skills

EverythingOption = Annotated[bool, typer.Option("--all", help="Also those that are not worth telling.")]
procedures_app = typer.Typer(cls=QueryGroup, invoke_without_command=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(procedures_app, name="procedures")


@procedures_app.callback()
def procedures_command(
    context: typer.Context,
    query: Annotated[
        str | None, typer.Argument(help="What to look for: `search` and words, or a phrase in quotes.")
    ] = None,
    agent: AgentOption = None,
    project: ProjectOption = None,
    peer: Annotated[str | None, typer.Option(help="Only what this peer may see.")] = None,
    everything: EverythingOption = False,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List the procedures worth knowing, the best first (`explain ID` shows steps and evidence).

    They predict better than the pairs of their steps do, are more than one habit, and have a purpose.
    """
    if context.invoked_subcommand:
        return

    async def work() -> list[ProcedureRow]:
        async with open_configured() as (database, _):
            return await list_procedures(
                database, ProcedureFilter(agent, project, peer, query=query, include_unworthy=everything, limit=limit)
            )

    procedures = run_async(work())
    if as_json:
        print_json(procedures)
        return
    if procedures and OUT.is_terminal:
        for procedure in procedures:
            sessions, worked = pluralize(procedure.support, "session"), f"worked {_success_rate(procedure)}"
            print_entry(
                procedure.title, _purpose(procedure), sessions, worked, _owner(procedure), short_id(procedure.id)
            )
        return
    print_table(
        "procedures",
        ("id", "steps", "sessions", "worked", "of", "for"),
        (
            (
                short_id(procedure.id),
                procedure.title,
                procedure.support,
                _success_rate(procedure),
                _owner(procedure),
                _purpose(procedure),
            )
            for procedure in procedures
        ),
        right=("sessions", "worked"),
    )


def _success_rate(procedure: ProcedureRow) -> str:
    return f"{procedure.body['success']['mean']:.0%}"


def _purpose(procedure: ProcedureRow) -> str:
    return describe_purpose(procedure.body.get("purpose", ()))


def _owner(procedure: ProcedureRow) -> str:
    return owner_name(procedure.project, procedure.agent)


@procedures_app.command("export")
def export_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", parser=parse_path, help="Where the folders go.")],
    format_name: Annotated[str, typer.Option("--format", help="skill: one SKILL.md folder each.")] = "skill",
    agent: AgentOption = None,
    project: ProjectOption = None,
    peer: Annotated[str | None, typer.Option(help="Only what this peer may see.")] = None,
    everything: EverythingOption = False,
    limit: Limit = 20,
) -> None:
    """Export procedures as Agent Skills, which coding agents load by themselves; not those that mostly fail."""
    if format_name != "skill":
        raise UsageError(f"--format takes skill, not {format_name!r}")

    async def work() -> SkillExport:
        async with open_configured() as (database, _):
            return await export_skills(
                database, directory, ProcedureFilter(agent, project, peer, include_unworthy=everything, limit=limit)
            )

    try:
        directory.mkdir(parents=True, exist_ok=True)
        exported = run_async(work())
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror}") from error
    print_line(f"{pluralize(len(exported.files), 'skill')} in {directory}")
    if exported.failing:
        print_line(
            f"{pluralize(len(exported.failing), 'procedure')} left out: less than {MIN_SUCCESS:.0%} of the sessions or "
            "calls with them worked (`--all` exports everything)"
        )
