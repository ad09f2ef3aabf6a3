"""consolidator recall: what memory has on a question, as a prompt would get it."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.common import opened, run
from consolidator.cli.output import Agent, AsJson, Project, emit, say
from consolidator.service.recall import BUDGET, LIMIT, Recalled, recall


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recall")(recall_command)


def recall_command(
    words: Annotated[
        list[str], typer.Argument(metavar="QUERY", help="A question, a request, or an error's text; in any language.")
    ],
    agent: Agent = None,
    project: Project = None,
    peer: Annotated[str | None, typer.Option(help="What concerns this peer, and nothing of others.")] = None,
    budget: Annotated[int, typer.Option(min=100, max=100_000, help="Tokens that the answer may take.")] = BUDGET,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Lines at most.")] = LIMIT,
    as_json: AsJson = False,
) -> None:
    """Ask memory: facts and turns ranked together, known errors and procedures first, each line with its citation."""

    async def work() -> Recalled:
        async with opened() as (database, settings):
            return await recall(
                database, " ".join(words), agent=agent, project=project, peer=peer, token_budget=budget, limit=limit,
                settings=settings,
            )  # fmt: skip

    found = run(work())
    if as_json:
        emit(found.as_json())
    else:
        say(found.block or "nothing is known of that")
