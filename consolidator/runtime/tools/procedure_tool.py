"""A compiled procedure as a tool: its call has no effect of its own, and each step is a call that follows it.

So a step has what any call has: an approval where its tool asks for one, at most one effect, and a result in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from consolidator.database import Database
from consolidator.memory.procedures.compiled_procedure import CompiledProcedure, ProcedureRun, StepRefused
from consolidator.models.session import SessionRow
from consolidator.runtime.session.outcome import Outcome
from consolidator.runtime.tools.tool import BadArguments, BoundCall, CallContext, Tool
from consolidator.store.calls import procedures


async def load_procedures(database: Database) -> list[CompiledProcedure]:
    """Return the compiled procedures, for a harness."""
    async with database.connection() as conn:
        return [CompiledProcedure.from_json(row.compiled) for row in await procedures.list_compiled(conn)]


def is_offered(procedure: CompiledProcedure, session: SessionRow, tools: Iterable[str]) -> bool:
    """Tell whether a session is of the person and project that did a procedure, and has the tools of its steps."""
    is_place = procedure.project == session.project and procedure.agent in (session.memory, session.agent)
    is_person = procedure.person == (session.peer or "") and bool(session.peer or session.project)
    return is_place and is_person and procedure.tools <= set(tools)


def procedure_tool(procedure: CompiledProcedure) -> Tool:
    """Return the tool of a compiled procedure."""

    def bind(arguments: Mapping[str, Any], call: CallContext) -> BoundCall:
        try:
            return partial(_begin, procedure.begin(arguments), is_dry_run=call.dry_run)
        except StepRefused as error:
            raise BadArguments(f"{error}.") from error

    return Tool(
        procedure.name,
        f"{procedure.title}, as {len(procedure.sessions)} sessions here did it: makes these calls one after the other, "
        f"and stops at the first that does not go as it did then. {procedure.by_agent}".rstrip(),
        procedure.schema,
        partial(_begin, is_dry_run=True),
        bind,
        idempotent=True,
        side_effect=False,
        begins_procedure=True,
    )


def _begin(run: ProcedureRun, *, is_dry_run: bool) -> Outcome:
    calls = "\n".join(run.describe())
    if is_dry_run:
        return Outcome(f"Dry run: none of these calls was made.\n{calls}")
    return Outcome(f"These calls follow, each with its own result:\n{calls}", run=run)
