"""consolidator remember and forget: what a person says to memory outright."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import AsJson, owner_name, print_json, print_line
from consolidator.errors import UsageError
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.log.working_directory import find_named_project, find_project
from consolidator.service.memory.remember import Remembered, forget, remember

Project = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A project: its path, or the last part of it; by default the one of this place."),
]
Agent = Annotated[str | None, typer.Option(metavar="NAME", help="An agent; by default the one that worked last.")]
Peer = Annotated[str | None, typer.Option(metavar="NAME", help="A person that the agent talks with.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("remember")(remember_command)
    app.command("forget")(forget_command)


def remember_command(
    words: Annotated[list[str], typer.Argument(metavar="STATEMENT", help='What holds, such as "we use tabs".')],
    project: Project = None,
    agent: Agent = None,
    me: Annotated[bool, typer.Option("--me", help="Of you: it holds in every project.")] = False,
    peer: Peer = None,
    as_json: AsJson = False,
) -> None:
    """Remember a statement: it is believed from now on, in this project, or with --me or --agent in every one."""
    if project and (me or peer):
        raise UsageError("--project, --me and --peer are different owners: give one of them")
    is_of_place = not (project or me or agent or peer)

    async def work() -> Remembered:
        async with open_configured() as (database, _):
            if is_of_place:
                owner = await find_project(database, Path.cwd())
            else:
                owner = await find_named_project(database, project, Path.cwd()) if project else None
            return await remember(database, " ".join(words), MemoryScope(agent, owner, peer))

    remembered = run_async(work())
    if as_json:
        print_json(remembered.as_json())
        return
    owner = owner_name(remembered.project, remembered.peer, remembered.agent)
    print_line(f"{'known already' if remembered.known else 'remembered'}, for {owner}: {remembered.statement}")
    print_line(f"take it back with `consolidator forget {remembered.id[:12]}`", style="dim")


def forget_command(
    words: Annotated[
        list[str], typer.Argument(metavar="ID|WORDS", help="A fact's id or how it begins, or words that it alone has.")
    ],
    project: Project = None,
    agent: Agent = None,
    peer: Peer = None,
    as_json: AsJson = False,
) -> None:
    """Stop believing a fact, and what says the same later. Its history stays (`explain ID`, `facts --all`)."""

    async def work() -> Remembered:
        async with open_configured() as (database, _):
            return await forget(database, " ".join(words), MemoryScope(agent, project, peer))

    forgotten = run_async(work())
    if as_json:
        print_json(forgotten.as_json())
    else:
        print_line(f"no longer believed: {forgotten.statement}")
