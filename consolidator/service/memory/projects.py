"""Projects: which there are, and all that is known of one."""

from __future__ import annotations

from dataclasses import dataclass

from consolidator.database import Database
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import ALL_AGENTS, FactFilter, LessonFilter, ProcedureFilter, SolutionFilter
from consolidator.models.procedure import ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.clients import rules_file
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.lessons import FRICTION_KINDS, LessonRow, is_said, list_lessons, read_lesson
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.rules import AcceptedRow, RuleProposal, list_accepted_rules, list_rules
from consolidator.service.memory.solutions import list_solutions
from consolidator.store.sessions import projects
from consolidator.store.sessions.projects import ProjectNightRow, ProjectRow

MAX_LESSONS = 100  # of a project
NIGHTS = 5  # the latest ones


@dataclass(frozen=True, slots=True)
class ProjectMemory:
    """All that is known of a project, the best of each kind."""

    row: ProjectRow | None  # None where no session was in it
    facts: list[FactRow]
    commands: list[LessonRow]  # and how else things are done
    failures: list[LessonRow]
    solutions: list[SolutionRow]  # of this project alone
    procedures: list[ProcedureRow]
    nights: list[ProjectNightRow]
    proposed: list[RuleProposal]
    accepted: list[AcceptedRow]
    differences: dict[str, list[str]]  # that the accepted rules make, by file


async def list_projects(database: Database, *, limit: int = 100, viewer: Viewer = OWNER) -> list[ProjectRow]:
    """Return the projects, the latest first, those of which nothing is known last.

    Raises Forbidden for a viewer who does not reach everything.
    """
    viewer.check_reads_all()
    async with database.connection() as conn:
        rows = await projects.list_overview(conn, None, limit)
    return sorted(rows, key=lambda row: not row.lessons and not row.facts)


async def load_project(database: Database, project: str, *, limit: int = 20, viewer: Viewer = OWNER) -> ProjectMemory:
    """Return what is known of a project. Raises Forbidden for a viewer who does not reach everything."""
    viewer.check_reads_all()
    async with database.connection() as conn:
        rows = await projects.list_overview(conn, project, 1)
        nights = await projects.list_nights(conn, project, [ALL_AGENTS, *(rows[0].agents if rows else ())], NIGHTS)
    lessons = [
        row
        for row in await list_lessons(database, LessonFilter(project=project, limit=MAX_LESSONS), viewer=viewer)
        if row.harm is None
    ]
    solutions = await list_solutions(database, SolutionFilter(project=project, limit=2 * limit), viewer=viewer)
    parsed = [read_lesson(row) for row in lessons]
    accepted = await list_accepted_rules(database, project=project, viewer=viewer)
    return ProjectMemory(
        next(iter(rows), None),
        await list_facts(database, FactFilter(project=project, limit=limit), viewer=viewer),
        [row for row in lessons if row.kind not in FRICTION_KINDS],
        [row for row in lessons if row.kind in FRICTION_KINDS],
        [row for row in solutions if row.project == project and row.confirmed and not is_said(row, parsed)][:limit],
        await list_procedures(database, ProcedureFilter(project=project, limit=limit), viewer=viewer),
        nights,
        await list_rules(database, project=project, limit=limit, viewer=viewer),
        accepted,
        await rules_file.preview_rules(accepted),
    )
