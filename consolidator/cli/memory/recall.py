"""consolidator recall: what memory knows about a question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import PlaceOption, run_configured
from consolidator.cli.output import AgentOption, emit
from consolidator.errors import UsageError
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.database import Database
from consolidator.service.memory.recall import (
    DEFAULT_TOKEN_BUDGET,
    RecallResult,
    describe_nothing,
    recall,
)
from consolidator.service.scope import find_project
from consolidator.settings import Settings


def recall_command(
    words: Annotated[
        list[str], typer.Argument(metavar="QUERY", help="A question, a request, or an error's text; in any language.")
    ],
    *,
    agent: AgentOption = None,
    project: PlaceOption = None,
    everywhere: Annotated[bool, typer.Option("--everywhere", help="All projects.")] = False,
    peer: Annotated[str | None, typer.Option(help="Only memory about this person.")] = None,
    budget: Annotated[
        int, typer.Option(min=100, max=100_000, help="Tokens that the answer may take.")
    ] = DEFAULT_TOKEN_BUDGET,
) -> None:
    """Ask memory: facts and turns ranked together, known errors and procedures first, each line with its citation.

    It is about the project of the working directory, and what holds in every one. "nothing known" is an answer.
    """
    if everywhere and project:
        raise UsageError("--project and --everywhere are different places: give one of them")
    if not " ".join(words).strip():
        raise UsageError("a question is missing: `consolidator recall 'how do we deploy?'`")

    question = " ".join(words)

    async def ask(database: Database, settings: Settings) -> tuple[str | None, RecallResult]:
        place = None if everywhere else project or await find_project(database, Path.cwd())
        return place, await recall(
            database, question, MemoryScope(agent, place, peer), token_budget=budget, settings=settings
        )  # fmt: skip

    place, result = run_configured(ask)

    emit(result, result.block or describe_nothing(result, place))
