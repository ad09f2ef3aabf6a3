"""Answers a hook: the brief for its moment, as a block for the agent's context, or nothing."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePath

from consolidator.database import Database
from consolidator.models.audience import OWNER
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.hooks.payload import HookCall
from consolidator.service.log.working_directory import find_project
from consolidator.service.memory.brief import Brief, Situation, brief
from consolidator.store.memory import injections


async def answer_hook(
    database: Database, call: HookCall, shown: Collection[str] = (), *, was_briefed: bool = True
) -> Brief | None:
    """Return what to show at a hook; None for nothing. `shown` is what the session has seen (`Brief.shown`).

    A session whose start nobody answered (`was_briefed`), as while the service was starting, is briefed at its first
    prompt. The project is the one that the call's directory is in.
    """
    if call.moment == "import":
        return None
    project = await find_project(database, PurePath(call.project)) or call.project
    situation = Situation(
        text=call.text,
        tool=call.tool,
        arguments=call.arguments,
        directory=_below(project, call.directory),
        session_id=call.session_id,
        shown=shown,
    )
    moment = "session_start" if call.moment == "prompt" and not was_briefed else call.moment
    return await brief(database, moment, MemoryScope(call.agent, project, OWNER), situation)


def _below(project: str, directory: str | None) -> str | None:
    """Return where a directory lies below a project; "" for the project itself, None for one elsewhere."""
    place, root = (directory or "").rstrip("/") + "/", project.rstrip("/") + "/"
    return place[len(root) :].rstrip("/") if place.startswith(root) else None


async def load_shown(database: Database, call: HookCall) -> tuple[set[str], bool]:
    """Return what a session was shown by an earlier process, and whether it was briefed at its start."""
    async with database.connection() as conn:
        earlier = await injections.list_of_session(conn, call.session_id)
    shown = {key for row in earlier for key in ([str(row.fix["text"])] if row.fix else row.cited)}
    return shown, any(row.moment == "session_start" for row in earlier)
