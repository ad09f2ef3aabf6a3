"""consolidator remember and forget: what a person says to memory outright."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import run
from consolidator.cli.options import PlaceOption
from consolidator.cli.output import emit, owner_name, print_line
from consolidator.errors import UsageError
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.database import Database
from consolidator.service.memory.remember import Remembered, forget, remember
from consolidator.service.scope import find_named_project, find_project
from consolidator.settings import Settings

Agent = Annotated[
    str | None, typer.Option(metavar="NAME", help="For this agent alone; by default for all of the owner's.")
]
Peer = Annotated[str | None, typer.Option(metavar="NAME", help="A person that the agent talks with.")]


def remember_command(
    words: Annotated[list[str], typer.Argument(metavar="STATEMENT", help='What holds, such as "we use tabs".')],
    project: PlaceOption = None,
    agent: Agent = None,
    me: Annotated[bool, typer.Option("--me", help="The statement is about you: it holds in every project.")] = False,
    peer: Peer = None,
) -> None:
    """Remember a statement: it is believed from now on, in this project, or with --me or --agent in every one."""
    if project and (me or peer):
        raise UsageError("--project, --me and --peer are different owners: give one of them")
    is_of_place = not (project or me or agent or peer)

    async def remember_here(database: Database, _: Settings) -> Remembered:
        if is_of_place:
            owner = await find_project(database, Path.cwd())
        else:
            owner = await find_named_project(database, project, Path.cwd()) if project else None
        return await remember(database, " ".join(words), MemoryScope(agent, owner, peer))

    emit(run(remember_here), _print_remembered)


def _print_remembered(remembered: Remembered) -> None:
    owner = owner_name(remembered.project, remembered.peer, remembered.agent)
    print_line(f"{'known already' if remembered.known else 'remembered'}, for {owner}: {remembered.statement}")
    print_line(f"take it back with `consolidator forget {remembered.id[:12]}`", style="dim")


def forget_command(
    words: Annotated[
        list[str],
        typer.Argument(metavar="ID|WORDS", help="A fact's id, its beginning, or words that no other fact has."),
    ],
    project: PlaceOption = None,
    agent: Agent = None,
    peer: Peer = None,
) -> None:
    """Stop believing a fact, and what says the same later. Its history stays (`explain ID`, `facts --all`)."""

    forgotten = run(lambda database, _: forget(database, " ".join(words), MemoryScope(agent, project, peer)))
    line = f"no longer believed: {forgotten.statement}"
    emit(forgotten, line)
