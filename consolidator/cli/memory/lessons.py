"""consolidator commands, friction, lessons and brief: how things are run, what keeps failing, what agents are told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import run
from consolidator.cli.options import OwnerOptions, PlaceOption
from consolidator.cli.output import (
    AgentOption,
    Limit,
    Table,
    emit,
    owner_name,
    pluralize,
    print_line,
    short_id,
    table,
)
from consolidator.errors import UsageError
from consolidator.models.injection import Moment
from consolidator.models.memory_filter import LessonFilter, MemoryScope
from consolidator.service.database import Database
from consolidator.service.memory import lessons
from consolidator.service.memory.brief import BriefPreview, Situation, preview_brief
from consolidator.service.memory.lessons import LessonRow, describe_worth, find_lessons_about, list_friction
from consolidator.service.scope import find_project
from consolidator.settings import Settings

MOMENTS: dict[str, Moment] = {"start": "session_start", "prompt": "prompt", "call": "before_call", "failure": "failure"}


def _lessons(title: str, nothing: str | None = None) -> Table:
    return table(
        title,
        "id, lesson, >sessions, >worked, >failed, worth, agents, of",
        nothing=nothing,
        entry=lambda row: (
            _line(row), pluralize(row.body["sessions"], "session"),
            f"worked {row.body['successes']}, failed {row.body['failures']}", describe_worth(row) or "-",
            ", ".join(row.body["agents"]), owner_name(row.project), short_id(row.id),
        ),
        id=lambda row: short_id(row.id),
        lesson=lambda row: _line(row),
        sessions=lambda row: row.body["sessions"],
        worked=lambda row: row.body["successes"],
        failed=lambda row: row.body["failures"],
        worth=lambda row: describe_worth(row) or "-",
        agents=lambda row: ", ".join(row.body["agents"]),
        of=lambda row: owner_name(row.project),
    )  # fmt: skip


def commands_command(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORDS]", help="A purpose (test, lint, build) or other words.")
    ] = None,
    *,
    owner: OwnerOptions,
    limit: Limit = 20,
) -> None:
    """List how commands are run here, and which never work: of all agents of a person, the most helpful first."""
    filters = LessonFilter(**owner.values(), limit=limit)
    rows = run(lambda database, _: find_lessons_about(database, " ".join(words or []), filters))
    emit(rows, _lessons("commands"))


def friction_command(*, owner: OwnerOptions, limit: Limit = 20) -> None:
    """List what failed in three sessions or more, and what then worked: what failed in most sessions first."""
    rows = run(lambda database, _: list_friction(database, LessonFilter(**owner.values(), limit=limit)))
    emit(rows, _lessons("friction", "nothing failed in three sessions"))


def lessons_command(
    words: Annotated[list[str] | None, typer.Argument(metavar="[WORDS]", help="Words of a lesson.")] = None,
    *,
    owner: OwnerOptions,
    pin: Annotated[str | None, typer.Option(metavar="ID", help="Tell this lesson whatever came of it.")] = None,
    unpin: Annotated[str | None, typer.Option(metavar="ID", help="Let its figures decide again.")] = None,
    correct: Annotated[
        str | None, typer.Option(metavar="ID", help="Let calls be corrected by this lesson, each shown before it runs.")
    ] = None,
    uncorrect: Annotated[str | None, typer.Option(metavar="ID", help="Correct no more calls by it.")] = None,
    limit: Limit = 20,
) -> None:
    """List every lesson with what it is worth: how its situation went where it was told, and where not."""

    async def load(database: Database, _: Settings) -> list[LessonRow]:
        if identity := pin or unpin:
            return [await lessons.choose_lesson(database, identity, pinned=pin is not None)]
        if identity := correct or uncorrect:
            return [await lessons.choose_lesson(database, identity, corrects=correct is not None)]
        filters = LessonFilter(**owner.values(), query=" ".join(words or []) or None, limit=limit)
        return await lessons.list_lessons(database, filters)

    emit(run(load), _lessons("lessons"))


def _line(row: LessonRow) -> str:
    """Return a lesson, and what only a person is shown of it."""
    if row.harm is not None:
        return f"{row.line} [hostile: told to no agent, since it {row.harm}]"
    marks = [f"told no more: {row.withheld}"] if row.withheld else ["pinned"] * row.pinned
    marks += ["corrects calls"] * row.corrects
    return " ".join([row.line, *(f"[{mark}]" for mark in marks)])


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

    async def load(database: Database, _: Settings) -> BriefPreview:
        scope = MemoryScope(agent, project or await find_project(database, Path.cwd()))
        return await preview_brief(database, MOMENTS[moment], scope, situation)

    emit(run(load), _show_brief)


def _show_brief(preview: BriefPreview) -> None:
    if not preview.text:
        print_line(f"nothing is told{f' in the project {preview.project}' if preview.project else ''}")
        return
    print_line(preview.text)
    print_line(f"{pluralize(len(preview.lines), 'line')}, about {preview.tokens} tokens", style="dim")
