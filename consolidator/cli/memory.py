"""consolidator procedures, solutions, explain, next, summary: what was learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import opened, path_named, run
from consolidator.cli.output import (
    OUT,
    Agent,
    AsJson,
    Limit,
    Project,
    emit,
    entry,
    many,
    place,
    plain,
    say,
    short,
    table,
)
from consolidator.cli.query_group import QueryGroup
from consolidator.errors import UsageError
from consolidator.service.explain import explain, next_calls, solve, summary_of
from consolidator.service.skills import export_skills
from consolidator.store.memory import lookup

procedures_app = typer.Typer(cls=QueryGroup, invoke_without_command=True)
_LOG = {"there": "in the log", "pruned": "pruned since", "erased": "erased since"}
Query = Annotated[str | None, typer.Argument(help="Words to look for.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(procedures_app, name="procedures")
    app.command("solutions")(solutions_command)
    app.command("explain")(explain_command)
    app.command("next")(next_command)
    app.command("summary")(summary_command)


@procedures_app.callback()
def procedures_command(
    context: typer.Context,
    query: Query = None,
    agent: Agent = None,
    project: Project = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List procedures, those most sessions share first (`explain ID` shows steps and evidence)."""
    if context.invoked_subcommand:
        return

    async def work() -> list[dict[str, Any]]:
        async with opened() as (database, _), database.connection() as conn:
            return await lookup.procedures(conn, query=query, agent=agent, project=project, limit=limit)

    found = run(work())
    if as_json:
        emit(found)
        return
    if found and OUT.is_terminal:
        for one in found:
            worked = f"worked {one['body']['success']['mean']:.0%}"
            entry(one["title"], many(one["support"], "session"), worked, place(one), one["id"])
        return
    table(
        "procedures",
        ("id", "steps", "sessions", "worked", "of"),
        (
            (p["id"], p["title"], p["support"], f"{p['body']['success']['mean']:.0%}", place(p))
            for p in found
        ),
        right=("sessions", "worked"),
    )  # fmt: skip


@procedures_app.command("export")
def procedures_export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", parser=path_named, help="Where the folders go.")],
    format_name: Annotated[str, typer.Option("--format", help="skill: one SKILL.md folder each.")] = "skill",
    agent: Agent = None,
    project: Project = None,
    limit: Limit = 20,
) -> None:
    """Export procedures as Agent Skills, which coding agents load by themselves."""
    if format_name != "skill":
        raise UsageError(f"--format takes skill, not {format_name!r}")

    async def work() -> list[Path]:
        async with opened() as (database, _):
            return await export_skills(database, directory, agent=agent, project=project, limit=limit)

    try:
        directory.mkdir(parents=True, exist_ok=True)
        written = run(work())
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror}") from error
    say(f"{len(written)} skills in {directory}")


def solutions_command(
    words: Annotated[list[str] | None, typer.Argument(metavar="[QUERY]", help="Words to look for.")] = None,
    error: Annotated[str | None, typer.Option(help="The text of an error: what is known of it.")] = None,
    tool: Annotated[str | None, typer.Option(help="With --error: the tool that failed.")] = None,
    agent: Agent = None,
    project: Project = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List errors and what resolved them; confirmed ones (seen to work in two sessions) first."""

    async def work() -> list[dict[str, Any]]:
        async with opened() as (database, _):
            if error is not None:
                return await solve(database, error, tool=tool, agent=agent, project=project, limit=limit)
            async with database.connection() as conn:
                query = " ".join(words or []) or None
                return await lookup.solutions(conn, query=query, agent=agent, project=project, limit=limit)

    found = run(work())
    if as_json:
        emit(found)
        return
    if found and OUT.is_terminal:
        for one in found:
            sure = "confirmed" if one["confirmed"] else ""
            entry(one["body"]["line"], sure, many(one["sessions"], "session"), place(one), one["id"])
        return
    table(
        "solutions",
        ("id", "error and fix", "confirmed", "sessions", "of"),
        (
            (s["id"], s["body"]["line"], "yes" if s["confirmed"] else "", s["sessions"], place(s))
            for s in found
        ),
        right=("sessions",),
    )  # fmt: skip


def explain_command(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Of a fact, a procedure or a solution.")],
    as_json: AsJson = False,
) -> None:
    """Explain anything that was learned: the words, sessions and run it rests on. Works after the events are pruned."""

    async def work() -> dict[str, Any]:
        async with opened() as (database, _):
            return await explain(database, identity)

    told = run(work())
    if as_json:
        emit(told)
        return
    say(told["title"], style="bold")
    for line in told["lines"]:
        say(f"  {line}")
    if told["evidence"] and OUT.is_terminal:
        say("evidence", style="bold")
        for e in told["evidence"]:
            entry(e["quote"], e["origin"] or e["session_id"], f"event {e['seq']}", e["when"], _LOG[e["log"]])
    elif told["evidence"]:
        table(
            "evidence",
            ("session", "seq", "when", "quote", "log"),
            (
                (e["origin"] or e["session_id"], e["seq"], e["when"], short(e["quote"], 200), e["log"])
                for e in told["evidence"]
            ),
            right=("seq",),
        )
    if "extractors" in told:
        say(f"extracted by {', '.join(told['extractors'])}", style="dim")
    say(f"learned {plain(told['learned_at'])} {told['by']}", style="dim")


def next_command(
    session: Annotated[str, typer.Argument(help="A session's id, its foreign name, or the beginning of either.")],
    limit: Limit = 5,
    as_json: AsJson = False,
) -> None:
    """Say what usually follows in a session: the next call, arguments filled in, with confidence."""

    async def work() -> list[dict[str, Any]]:
        async with opened() as (database, _):
            return await next_calls(database, session, most=limit)

    found = run(work())
    if as_json:
        emit(found)
        return
    if not found:
        say("nothing usually follows: too few sessions have been where this one is")
        return
    table(
        "what usually follows",
        ("call", "arguments", "likely", "sure", "why"),
        (
            (s["symbol"], short(json.dumps(s["arguments"], ensure_ascii=False), 120), f"{s['likelihood']:.0%}",
             f"{s['confidence']:.0%}", short(s["why"], 100))
            for s in found
        ),
        right=("likely", "sure"),
    )  # fmt: skip


def summary_command(
    session: Annotated[str, typer.Argument(help="A session's id, its foreign name, or the beginning of either.")],
    as_json: AsJson = False,
) -> None:
    """Print a session's summary as a prompt would hold it: tools, errors, approvals, sub-agents."""

    async def work() -> dict[str, Any]:
        async with opened() as (database, _):
            return await summary_of(database, session)

    told = run(work())
    if as_json:
        emit(told)
    else:
        say(told["text"])
