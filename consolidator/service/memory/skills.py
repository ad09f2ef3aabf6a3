"""Exports procedures as Agent Skills: one folder each with a SKILL.md, as the format's specification requires.

A skill has the name of its folder: lower-case letters, digits and single hyphens, at most 64 characters.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.memory.solutions.solution import count_support
from consolidator.memory.text.invisible import strip_invisible
from consolidator.models.procedure import ProcedureRow
from consolidator.service.memory.explain import explain
from consolidator.service.memory.procedures import describe_purpose, list_procedures
from consolidator.service.viewer import OWNER, Viewer

MAX_NAME_LENGTH = 64
MAX_DESCRIPTION_LENGTH = 1024
LEARNED_BY = "consolidator"


async def export_skills(
    database: Database,
    directory: Path,
    *,
    agent: str | None,
    project: str | None,
    peer: str | None = None,
    everything: bool = False,
    limit: int,
    viewer: Viewer = OWNER,
) -> list[Path]:
    """Write the best procedures into a directory, one folder each, and return the files."""
    written = []
    listed = await list_procedures(
        database, agent=agent, project=project, peer=peer, everything=everything, limit=limit, viewer=viewer
    )
    for procedure in listed:
        explanation = await explain(database, procedure.id, peer=peer, viewer=viewer)
        folder = directory / skill_name(procedure.title, procedure.id)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "SKILL.md"
        file.write_text(skill_text(folder.name, procedure, explanation), encoding="utf-8")
        written.append(file)
    return written


def skill_name(title: str, procedure_id: str) -> str:
    """Return a valid name made of the title; the end of the id makes it unique."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower().replace("→", "-then-")).strip("-")
    suffix = procedure_id.rsplit("_", 1)[-1][-6:]
    stem = slug[: MAX_NAME_LENGTH - len(suffix) - 1].strip("-") or "procedure"
    return f"{stem}-{suffix}"


def skill_text(name: str, procedure: ProcedureRow, explanation: dict[str, Any]) -> str:
    """Return a SKILL.md: front matter, then the steps, then what they rest on."""
    title = procedure.title
    support = count_support(procedure.support, procedure.body.get("people", 1))
    where = procedure.project or f"any project of {procedure.agent}"
    use = describe_purpose(procedure.body.get("purpose", ())) or "when doing this"
    description = f"{title}. Use {use} in {where}; learned from {support}."
    front_matter = {
        "name": name,
        "description": _one_line(description)[:MAX_DESCRIPTION_LENGTH],
        "metadata": {"learned-by": LEARNED_BY, "procedure": procedure.id, "sessions": str(procedure.support)},
    }
    body = [f"# {_one_line(title)}", "", "## Steps", ""]
    step_count = len(procedure.body["steps"])
    body += [_one_line(line) for line in explanation["lines"][:step_count]]
    body += ["", "## What it rests on", ""]
    body += [f"- {_one_line(line)}" for line in explanation["lines"][step_count:]]
    body += [
        f"- session `{proof['origin'] or proof['session_id']}`, event {proof['seq']}"
        for proof in explanation["evidence"]
    ]
    return (
        f"---\n{yaml.safe_dump(front_matter, sort_keys=False, allow_unicode=True, width=1000)}---\n\n"
        + "\n".join(body)
        + "\n"
    )


def _one_line(line: str) -> str:
    """Return a redacted, visible text on one line, so that it can neither end its list nor start a heading."""
    return " ".join(redact(strip_invisible(line)).split())
