"""consolidator recall: what memory knows about a question, as a prompt would get it."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import AgentOption, AsJson, ProjectOption, print_json, print_line
from consolidator.service.memory.recall import DEFAULT_LIMIT, DEFAULT_TOKEN_BUDGET, RecallResult, recall


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recall")(recall_command)


def recall_command(
    words: Annotated[
        list[str], typer.Argument(metavar="QUERY", help="A question, a request, or an error's text; in any language.")
    ],
    agent: AgentOption = None,
    project: ProjectOption = None,
    peer: Annotated[str | None, typer.Option(help="Only what concerns this peer.")] = None,
    budget: Annotated[
        int, typer.Option(min=100, max=100_000, help="Tokens that the answer may take.")
    ] = DEFAULT_TOKEN_BUDGET,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Lines at most.")] = DEFAULT_LIMIT,
    as_json: AsJson = False,
) -> None:
    """Ask memory: facts and turns ranked together, known errors and procedures first, each line with its citation."""

    async def work() -> RecallResult:
        async with open_configured() as (database, settings):
            return await recall(
                database,
                " ".join(words),
                agent=agent,
                project=project,
                peer=peer,
                token_budget=budget,
                limit=limit,
                settings=settings,
            )

    result = run_async(work())
    if as_json:
        print_json(result.as_json())
    else:
        print_line(result.block or "nothing is known of that")
