"""What agents do again and again."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from consolidator.database import Database
from consolidator.models.audience import OWNER as OWNER_PERSON
from consolidator.models.memory_filter import Page, ProcedureFilter
from consolidator.models.procedure import ProcedureRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.scope import narrow_scope
from consolidator.store.memory import listing
from consolidator.store.memory.listing import PROCEDURE_POSITION as PROCEDURE_POSITION

_NINETY_PERCENT = 1.645  # standard deviations on each side


async def list_procedures(
    database: Database, filters: ProcedureFilter = ProcedureFilter(), *, viewer: Viewer = OWNER
) -> Page[ProcedureRow]:
    """Return a page of the procedures that are worth telling, the best first.

    For a peer those of its own sessions, and what enough people share; for a viewer of one project that project's.
    """
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, filters)
        page = await listing.list_procedures(conn, scope)
    page[:] = [row.as_seen_by(scope.peer or OWNER_PERSON) for row in page]
    return page


@dataclass(frozen=True, slots=True)
class SuccessInterval:
    """How often a procedure works: the expected share, and between which shares it is with 90% certainty."""

    mean: float
    low: float
    high: float


def success_interval(procedure: ProcedureRow) -> SuccessInterval:
    """Return how often a procedure works, by the normal approximation of its Beta posterior."""
    success = procedure.body["success"]
    alpha, beta = float(success["alpha"]), float(success["beta"])
    mean = alpha / (alpha + beta)
    reach = _NINETY_PERCENT * sqrt(mean * (1 - mean) / (alpha + beta + 1))
    return SuccessInterval(mean, max(0.0, mean - reach), min(1.0, mean + reach))
