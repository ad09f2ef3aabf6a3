"""Lists the names of the relations that facts use, so that new facts may use the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from consolidator.database.partitions import Connection
from consolidator.store.queries import fetch_all, fetch_column, load

_SQL = load("facts/relations")
MAX_NAMES = 24
MAX_OBSERVATIONS = 200  # of a project, the latest, of which a question shows some
MAX_READ = 2000  # candidates of one owner that are looked at


class RelationScope(NamedTuple):
    """Whose facts a session may add to: its agent's, its project's and its peer's."""

    agent: str
    project: str | None
    peer: str | None


@dataclass(frozen=True, slots=True)
class ObservationRow:
    """What an agent found out, by what tells it from another observation."""

    subject: str
    predicate: str
    value: str
    sentence: str


async def list_observed(conn: Connection, scope: RelationScope) -> list[ObservationRow]:
    """Return the latest observations of a scope's project; none without a project."""
    values = {"agent": scope.agent, "project": scope.project, "limit": MAX_OBSERVATIONS}
    return await fetch_all(conn, ObservationRow, _SQL["observed"], values) if scope.project else []


async def list_in_use(conn: Connection, scope: RelationScope) -> list[str]:
    """Return the names of relations of the facts that are believed in a scope, the most frequent ones, by name."""
    owners = [("agent", ""), ("project", scope.project), ("peer", scope.peer)]
    named = [(level, owner) for level, owner in owners if owner is not None]
    values = {"levels": [level for level, _ in named], "owners": [owner for _, owner in named], "read": MAX_READ}
    names = await fetch_column(conn, _SQL["in_use"], {**values, "agent": scope.agent, "limit": MAX_NAMES})
    return sorted(names)
