"""Procedures as tools: compiled from what sessions did alike, once a person says yes.

A compiled procedure is a tool of our runtime, whose steps are calls of their own. For another agent each answer names
the next call, which that agent makes itself. Nothing here makes a call.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import NotFound, UsageError
from consolidator.llm.redaction.redact import redact
from consolidator.memory.lessons.history import History
from consolidator.memory.lessons.learning import MAX_TRACES
from consolidator.memory.lessons.trace import Trace
from consolidator.memory.procedures.compiled_procedure import CompiledProcedure as CompiledProcedure
from consolidator.memory.procedures.compiled_procedure import ProcedureRun, StepRefused
from consolidator.memory.procedures.compiling import (
    CannotCompile,
    Instance,
    compile_procedure,
    find_calls,
    find_drift,
    fixed_steps,
)
from consolidator.models.procedure import ProcedureRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.memory.ids import resolve_id
from consolidator.service.memory.skills import skill_name
from consolidator.store.calls import procedures
from consolidator.store.facts.visibility import load_person
from consolidator.store.log import events
from consolidator.store.memory import lessons, lookup
from consolidator.store.sessions import sessions

_MAX_EVENTS = 500  # of a session in which the steps have to be


async def compile_by_id(database: Database, procedure_id: str, *, person: str = "") -> CompiledProcedure:
    """Return a procedure as a tool, from what one person's sessions did; nothing is stored.

    Raises NotFound, and UsageError that says why it cannot be compiled.
    """
    async with database.connection() as conn:
        row = await _load(conn, procedure_id)
        try:
            return await _compile(conn, row, person)
        except CannotCompile as error:
            raise UsageError(f"{row.title} cannot be compiled: {error}") from error


async def _compile(conn: Connection, row: ProcedureRow, person: str) -> CompiledProcedure:
    symbols = [step["symbol"] for step in row.body["steps"]]
    repeats = [bool(step["repeats"]) for step in row.body["steps"]]
    fixed, instances = fixed_steps(repeats), []
    for session_id, seq, *_ in row.body["evidence"]:
        if (await load_person(conn, session_id) or "") == person:
            log = await events.read(conn, session_id, after=seq - 1, limit=_MAX_EVENTS)
            if calls := find_calls(log, symbols, repeats):
                root = (await sessions.get(conn, session_id)).root_id
                instances.append(Instance(session_id, root, calls[fixed]))
    steps = row.title.split(" → ")
    return compile_procedure(
        CompiledProcedure(
            row.id, skill_name(row.title, row.id), row.title, (), agent=row.agent, project=row.project, person=person,
            before=tuple(steps[: fixed.start]), after=tuple(steps[fixed.stop :]),
        ),
        instances, redact,
    )  # fmt: skip


async def save_compiled(database: Database, procedure_id: str, compiled: CompiledProcedure | None) -> ProcedureRow:
    """Keep a procedure as a tool from now on, or with None no more; return it. Raises NotFound."""
    async with database.transaction() as conn:
        row = await _load(conn, procedure_id)
        await procedures.set_compiled(conn, row.id, None if compiled is None else compiled.to_json())
    return row


async def list_compiled(database: Database, *, viewer: Viewer = OWNER) -> list[CompiledProcedure]:
    """Return the procedures of the viewer's person and project that are tools, each with how it drifted."""
    viewer.check_may("read")
    tools = []
    async with database.connection() as conn:
        for row in await procedures.list_compiled(conn):
            tool = CompiledProcedure.from_json(row.compiled)
            if tool.person != (viewer.peer or "") or viewer.project not in (None, tool.project):
                continue
            traced = await lessons.list_traces(conn, tool.person, tool.project or "", limit=MAX_TRACES)
            traces = [Trace.unpack(each.session_id, each.root_id, each.agent, each.trace) for each in traced]
            drift = find_drift(tool, History.of(traces).sessions)
            drift += ["no session of the latest ones does it any more"] if row.retired_at else []
            tools.append(replace(tool, drift=tuple(drift)))
    return tools


def list_calls(compiled: CompiledProcedure, texts: Mapping[str, str] | None = None) -> list[str]:
    """Return the calls that a procedure would make with these parameters, without them with its slots.

    Of a parameter that is a list the values are words, as in a shell. Raises UsageError for what it would refuse.
    """
    if texts is None:
        return compiled.describe()
    lists = {each.name for each in compiled.parameters if each.is_list}
    try:
        return compiled.begin({n: shlex.split(value) if n in lists else value for n, value in texts.items()}).describe()
    except (StepRefused, ValueError) as error:
        raise UsageError(f"refused: {error}") from error


def next_step(
    procedure: CompiledProcedure, values: Mapping[str, Any], results: Sequence[Mapping[str, Any]]
) -> tuple[int, str, dict[str, Any]] | None:
    """Return the number, tool and arguments of a procedure's next call, after some results; None at its end.

    A result is `{"status": "ok", "content": ...}`. Raises UsageError, which says why the procedure ends there.
    """
    number = 0
    try:
        run: ProcedureRun | None = procedure.begin(values)
        for result in results:
            number += 1
            run = None if run is None else run.after(str(result.get("status", "ok")), result.get("content", ""))
        return None if run is None else (run.number + 1, *run.call())
    except StepRefused as error:
        place = f"step {number} does not count as done" if number else "it was not begun"
        raise UsageError(f"{place}: {error}. Go on yourself from there") from error


async def _load(conn: Connection, procedure_id: str) -> ProcedureRow:
    row = await lookup.load_by_id(conn, await resolve_id(conn, procedure_id, ("procedure",)))
    if not isinstance(row, ProcedureRow):
        raise NotFound(f"there is no procedure {procedure_id!r}; `consolidator procedures` lists them")
    return row
