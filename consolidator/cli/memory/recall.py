"""consolidator recall: what memory knows about a question, as a prompt would get it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import AgentOption, AsJson, print_json, print_line
from consolidator.errors import UsageError
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.log.working_directory import find_project
from consolidator.service.memory.recall import (
    DEFAULT_LIMIT,
    DEFAULT_TOKEN_BUDGET,
    NOTHING_KNOWN,
    RecallResult,
    recall,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("recall")(recall_command)


def recall_command(
    words: Annotated[
        list[str], typer.Argument(metavar="QUERY", help="A question, a request, or an error's text; in any language.")
    ],
    agent: AgentOption = None,
    project: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="A project: its path, or the last part of it; by default that of this place."
        ),
    ] = None,
    everywhere: Annotated[bool, typer.Option("--everywhere", help="All projects.")] = False,
    peer: Annotated[str | None, typer.Option(help="Only what concerns this peer.")] = None,
    budget: Annotated[
        int, typer.Option(min=100, max=100_000, help="Tokens that the answer may take.")
    ] = DEFAULT_TOKEN_BUDGET,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=200, help="Lines at most.")] = DEFAULT_LIMIT,
    as_json: AsJson = False,
) -> None:
    """Ask memory: facts and turns ranked together, known errors and procedures first, each line with its citation.

    It is about the project of the working directory, and what holds in every one. "nothing known" is an answer.
    """
    if everywhere and project:
        raise UsageError("--project and --everywhere are different places: give one of them")
    if not " ".join(words).strip():
        raise UsageError("a question is missing: `consolidator recall 'how do we deploy?'`")

    async def work() -> tuple[str | None, RecallResult]:
        async with open_configured() as (database, settings):
            asked = None if everywhere else project or await find_project(database, Path.cwd())
            result = await recall(
                database,
                " ".join(words),
                MemoryScope(agent, asked, peer),
                token_budget=budget,
                limit=limit,
                settings=settings,
            )
            return asked, result

    asked, result = run_async(work())
    if as_json:
        print_json(result.as_json())
        return
    print_line(result.block or NOTHING_KNOWN)
    if not result.block and asked:
        print_line(f"in the project {asked}; `--everywhere` asks all of them", style="dim")
