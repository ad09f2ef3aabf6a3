"""consolidator brief: what the next session is told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import PlaceOption, run
from consolidator.cli.output import AgentOption, emit, pluralize, print_line
from consolidator.errors import UsageError
from consolidator.models.injection import Moment
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.database import Database
from consolidator.service.memory.telling.brief import Situation
from consolidator.service.memory.telling.brief_preview import BriefPreview, preview_brief
from consolidator.service.scope import find_project

MOMENTS: dict[str, Moment] = {"start": "session_start", "prompt": "prompt", "call": "before_call", "failure": "failure"}


def brief_command(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The prompt, the command about to run, or the error.")
    ] = None,
    *,
    moment: Annotated[str, typer.Option(help="start, prompt, call or failure.")] = "start",
    command: Annotated[str | None, typer.Option(help="With --moment failure: the command that failed.")] = None,
    project: PlaceOption = None,
    agent: AgentOption = None,
) -> None:
    """Show what the next session is told: at its start, with a prompt, before a call, after a failure.

    `forget` takes the id of a line: a fact or a lesson is not told again.
    """
    if moment not in MOMENTS:
        raise UsageError(f"--moment takes {', '.join(MOMENTS)}, not {moment!r}")
    if moment != "start" and not text:
        raise UsageError(f"--moment {moment} takes a text: the prompt, the command, or the error")
    line = text if moment == "call" else command
    called: dict[str, Any] = {} if line is None else {"tool": "Bash", "arguments": {"command": line}, "directory": ""}
    situation = Situation(text="" if moment == "call" else text or "", **called)

    async def load(database: Database) -> BriefPreview:
        scope = MemoryScope(agent, project or await find_project(database, Path.cwd()))
        return await preview_brief(database, MOMENTS[moment], scope, situation)

    emit(run(load), _show_brief)


def _show_brief(preview: BriefPreview) -> None:
    if not preview.text:
        place = f" in the project {preview.project}" if preview.project else ""
        print_line(f"nothing is told{place}; `--project NAME` names another one")
        return
    print_line(preview.text)
    print_line(f"{pluralize(len(preview.lines), 'line')}, about {preview.tokens} tokens", style="dim")
