"""Writes procedures as Agent Skills: a folder each with a SKILL.md, as the format's specification asks.

A skill's name is its folder's: lower-case letters, digits and single hyphens, at most 64 characters.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.service.explain import explain
from consolidator.store.memory import lookup

NAME_LENGTH = 64
DESCRIPTION_LENGTH = 1024
MARK = "consolidator"


async def export_skills(
    database: Database, directory: Path, *, agent: str | None, project: str | None, limit: int
) -> list[Path]:
    """Write the best procedures below a directory, one folder each, and return the files."""
    async with database.connection() as conn:
        found = await lookup.procedures(conn, agent=agent, project=project, limit=limit)
    written = []
    for procedure in found:
        told = await explain(database, procedure["id"])
        folder = directory / skill_name(procedure["title"], procedure["id"])
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "SKILL.md"
        file.write_text(skill_text(folder.name, procedure, told), encoding="utf-8")
        written.append(file)
    return written


def skill_name(title: str, identity: str) -> str:
    """Return a valid name that says what the skill does; the end of the id keeps two alike apart."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower().replace("→", "-then-")).strip("-")
    tail = identity.rsplit("_", 1)[-1][-6:]
    head = words[: NAME_LENGTH - len(tail) - 1].strip("-") or "procedure"
    return f"{head}-{tail}"


def skill_text(name: str, procedure: dict[str, Any], told: dict[str, Any]) -> str:
    """Return a SKILL.md: front matter, then when it applies, the steps, and what it rests on."""
    steps = procedure["title"]
    where = procedure["project"] or f"any project of {procedure['agent']}"
    description = f"{steps}. Use when doing this in {where}; learned from {procedure['support']} sessions."
    front = {
        "name": name,
        "description": redact(" ".join(description.split()))[:DESCRIPTION_LENGTH],
        "metadata": {"learned-by": MARK, "procedure": procedure["id"], "sessions": str(procedure["support"])},
    }
    body = [f"# {_safe(steps)}", "", "## Steps", ""]
    count = len(procedure["body"]["steps"])
    body += [_safe(line) for line in told["lines"][:count]]
    body += ["", "## What it rests on", ""]
    body += [f"- {_safe(line)}" for line in told["lines"][count:]]
    body += [
        f"- session `{proof['origin'] or proof['session_id']}`, event {proof['seq']}" for proof in told["evidence"]
    ]
    return (
        f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=1000)}---\n\n" + "\n".join(body) + "\n"
    )


def _safe(line: str) -> str:
    """Return a line in which nothing can end the list it stands in, or begin a heading."""
    return " ".join(redact(line).split())
