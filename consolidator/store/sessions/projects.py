"""Projects: which one a name means, and which directories of the owner hold one repository, and so are one project.

A name is a project's whole path, or the last part of the path of exactly one project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.errors import UsageError
from consolidator.models.memory_filter import ALL_AGENTS
from consolidator.store.queries import (
    Column,
    Pairs,
    Rows,
    Statement,
    StatementEach,
    Tuples,
    Value,
    execute,
    fetch_column,
    fetch_value,
    load,
)

_SQL = load("sessions/projects")


async def add_each(conn: Connection, repositories: Mapping[str, str]) -> None:
    """Note which repository each of some directories is a checkout of; what is known of a directory stays."""
    if repositories:
        await execute(conn, _SQL["lock"])
        await _add_each(conn, repositories.items())


find_projects = Pairs[str, str, Sequence[str]](_SQL["projects_of_directories"])
get_project_of_repository = Value[str | None, str](_SQL["project_of_repository"])
list_strayed_memories = Column[str](_SQL["strayed_memories"])
unite = Statement[()](_SQL["unite"])
forget_unused = Statement[()](_SQL["forget"])
list_others = Tuples[tuple[str, str], str | None](_SQL["others"])
_add_each = StatementEach(_SQL["add"], "directory repository")


_SEPARATOR = re.compile(r"[/\\]")
MAX_NAMED = 10  # projects that an error names


async def resolve_project(
    conn: Connection, name: str | None, *, agent: str | None = None, peer: str | None = None
) -> str | None:
    """Return the project that a person or client means; a name that no project has is returned as it is.

    `agent` and `peer` restrict which projects are known by their last part, and which an error may name. Raises
    UsageError for a name that several projects have.
    """
    if not name:
        return None
    name = escape(name)
    within = {"agent": agent or None, "peer": peer}
    if await fetch_value(conn, _SQL["is_known"], {"project": name, **within}):
        return name
    names = await fetch_column(conn, _SQL["projects"], within)
    match = match_project(name, names)
    return (await find_projects(conn, [match])).get(match, match)


async def list_projects(conn: Connection) -> list[str]:
    """Return every project that has a session, in order."""
    return sorted(await fetch_column(conn, _SQL["projects"], {"agent": None, "peer": None}))


async def list_shared_with(conn: Connection, agent: str) -> list[str]:
    """Return the projects in which an agent works for the owner, and "" where there are some."""
    projects = await fetch_column(conn, _SQL["shared_with"], {"agent": agent, "shared": ALL_AGENTS})
    return ["", *projects] if projects else []


async def find_latest_agent(conn: Connection, project: str | None) -> str | None:
    """Return the agent of the latest session of a project, else of the latest one anywhere; not of memory's own."""
    values = {"project": project}
    agent = await fetch_value(conn, _SQL["latest_agent"], values) if project else None
    agent = agent or await fetch_value(conn, _SQL["latest_agent"], {"project": None})
    return None if agent is None else str(agent)


def match_project(name: str, paths: Iterable[str]) -> str:
    """Return the one of the known projects that has a path, or a last part of its path; else the name."""
    projects = sorted(set(paths))
    if name in projects:
        return name
    path = _without_end(name)
    matches = [project for project in projects if _without_end(project) == path]
    if not matches and not _SEPARATOR.search(path):
        matches = [project for project in projects if _SEPARATOR.split(_without_end(project))[-1] == path]
    if len(matches) > 1:
        listed = ", ".join(matches[:MAX_NAMED]) + (", ..." if len(matches) > MAX_NAMED else "")
        raise UsageError(f"{name!r} names several projects ({listed}): give the whole path of one")
    return matches[0] if matches else name


def _without_end(path: str) -> str:
    return path.rstrip("/\\") or path


@dataclass(frozen=True, slots=True)
class ProjectRow:
    """A project, and how much is known of it."""

    project: str  # its path
    agents: list[str]
    sessions: int
    last_at: datetime
    lessons: int
    facts: int


@dataclass(frozen=True, slots=True)
class ProjectNightRow:
    """A night, and how much of what is known of a project it wrote last."""

    id: str  # of the run
    started_at: datetime
    lessons: int
    facts: int
    solutions: int


list_overview = Rows[ProjectRow, str | None, int](ProjectRow, _SQL["overview"], "project limit")
list_nights = Rows[ProjectNightRow, str, Sequence[str], int](ProjectNightRow, _SQL["nights"], "project agents limit")
