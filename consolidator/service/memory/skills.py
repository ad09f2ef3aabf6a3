"""Exports procedures as Agent Skills: one folder each with a SKILL.md, as the format's specification requires.

A skill has the name of its folder: lower-case letters, digits and single hyphens, at most 64 characters. Its title and
when it is of use are what people asked for in the sessions it rests on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.harm_in_text import mask_commands, text_harm
from consolidator.memory.procedures.compiled_procedure import CompiledProcedure
from consolidator.memory.solutions.solution import count_support
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.title import order_goals
from consolidator.models.memory_filter import ProcedureFilter
from consolidator.models.procedure import ProcedureRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.memory.explain import explain
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.sessions.listing import read_titles

MAX_NAME_LENGTH = 64
MAX_DESCRIPTION_LENGTH = 1024
MAX_GOALS = 3  # named in a description
LEARNED_BY = "consolidator"


@dataclass(frozen=True, slots=True)
class Skill:
    """A procedure as an Agent Skill."""

    name: str  # of its folder, too
    text: str  # of its SKILL.md


@dataclass(frozen=True, slots=True)
class SkillExport:
    """What an export wrote, and what it left out."""

    files: list[Path]
    failing: list[ProcedureRow]  # that mostly fail, so that they are no advice


async def export_skills(
    database: Database, directory: Path, filters: ProcedureFilter, *, viewer: Viewer = OWNER
) -> SkillExport:
    """Write the best procedures into a directory, one folder each; what mostly fails only with the unworthy ones."""
    written, failing = [], []
    for procedure in await list_procedures(database, filters, viewer=viewer):
        if procedure.mostly_fails and not filters.include_unworthy:
            failing.append(procedure)
            continue
        explanation = await explain(database, procedure.id, peer=filters.peer, viewer=viewer)
        skill = await create_skill(database, procedure, explanation)
        file = directory / skill.name / "SKILL.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(skill.text, encoding="utf-8")
        written.append(file)
    return SkillExport(written, failing)


async def create_skill(database: Database, procedure: ProcedureRow, explanation: dict[str, Any]) -> Skill:
    """Return a procedure as a skill; `explanation` is what `explain` says of it."""
    ids = list(dict.fromkeys(proof["session_id"] for proof in explanation["evidence"]))
    async with database.connection() as conn:
        titles = await read_titles(conn, ids)
    goals_in_order = order_goals(titles[id] for id in ids if id in titles)  # in these sessions, the most typical first
    goals = [goal for goal in goals_in_order if text_harm(goal) is None]
    name = skill_name(goals[0] if goals else procedure.title, procedure.id)
    return Skill(name, skill_text(name, procedure, explanation, goals))


def skill_name(title: str, procedure_id: str) -> str:
    """Return a valid name made of the title; the end of the id makes it unique."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower().replace("→", "-then-")).strip("-")
    suffix = procedure_id.rsplit("_", 1)[-1][-6:]
    stem = slug[: MAX_NAME_LENGTH - len(suffix) - 1].strip("-") or "procedure"
    return f"{stem}-{suffix}"


def skill_text(name: str, procedure: ProcedureRow, explanation: dict[str, Any], goals: Sequence[str]) -> str:
    """Return a SKILL.md: front matter, then the steps, then what they rest on."""
    title = _one_line(goals[0] if goals else procedure.title)
    support = count_support(procedure.support, procedure.body.get("people", 1))
    project = procedure.project or ""
    project = re.split(r"[\\/]", project.rstrip("\\/"))[-1] or project  # without the folders or the owner before it
    where = f"the project {project}" if project else f"any project of {procedure.agent}"

    use = "" if goals else "when doing this"
    if goals:
        request = "when somebody asks for something like " + ", ".join(f'"{goal}"' for goal in goals[:MAX_GOALS])
        use = f"{request},"
    steps = f" ({_one_line(procedure.title)})" if goals else ""
    description = f"{title}{steps}. Use {use} in {where}; learned from {support}."

    values = {
        "name": name,
        "description": _one_line(description)[:MAX_DESCRIPTION_LENGTH],
        "metadata": {"learned-by": LEARNED_BY, "procedure": procedure.id, "sessions": str(procedure.support)},
    }
    front_matter = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]  # it is YAML

    body = [f"# {title}", "", *([f"{_one_line(procedure.title)}", ""] if goals else []), "## Steps", ""]
    step_count = len(procedure.body["steps"])
    body += [_one_line(line) for line in explanation["lines"][:step_count]]
    body += _compiled_lines(procedure.compiled) if procedure.compiled else []
    body += ["", "## What it rests on", ""]
    body += [f"- {_one_line(line)}" for line in explanation["lines"][step_count:]]
    body += [
        f"- session `{proof['origin'] or proof['session_id']}`, event {proof['seq']}"
        for proof in explanation["evidence"]
    ]
    return "\n".join(["---", *front_matter, "---", "", *body, ""])


def _compiled_lines(compiled: dict[str, Any]) -> list[str]:
    """Return the calls of a compiled procedure, what they take, and the check after each."""
    made = CompiledProcedure.from_json(compiled)
    calls = [_one_line(line) for line in made.describe()]
    takes = [_one_line(f"- {each.name}: a {each.kind}, such as {'; '.join(each.examples)}") for each in made.parameters]
    checks = [
        f"- step {number} succeeds, and its result has most of the words {', '.join(step.expects)}"
        for number, step in enumerate(made.steps, 1)
        if step.expects
    ]
    stop = "Stop at the first step that does not go so, and say what was done."
    return ["", "## The calls", "", *filter(None, [_one_line(made.by_agent)]), *calls, "", *takes, *checks, "", stop]


def _one_line(line: str) -> str:
    """Return a redacted, visible text on one line, so that it can neither end its list nor start a heading."""
    return " ".join(redact(mask_commands(strip_invisible(line))).split())
