"""What a person may see of sessions and facts: what is derived from that person's own words, or said by enough people.

A person is the peer of a session's lineage root; "" is the owner of the machine, whose sessions have no peer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import LiteralString

from consolidator.database.partitions import Connection
from consolidator.models.audience import OWNER
from consolidator.store.queries import Tuples, Value, fetch_column, load

_SQL = load("facts/visibility")
MIN_PEOPLE = 3  # who must have said the same before everybody is told


async def find_reached_sessions(
    conn: Connection, ids: Iterable[str], *, peer: str | None = None, project: str | None = None
) -> set[str]:
    """Return which of some sessions are this person's, and of this project itself; None: of anybody, of any."""
    return await _keep_reached(conn, ids, sessions_of=peer, sessions_of_project=project)


async def find_reached_facts(
    conn: Connection, ids: Iterable[str], *, peer: str | None = None, project: str | None = None
) -> set[str]:
    """Return which of some facts this person may see, and rest on sessions of this project alone; None as above."""
    return await _keep_reached(conn, ids, facts_for=peer, facts_of_project=project)


async def _keep_reached(conn: Connection, ids: Iterable[str], **names: str | None) -> set[str]:
    """Return those of some ids that the query of each name leaves, where it is given a person or project."""
    reached = set(ids)
    for query, name in names.items():
        if name is not None:
            values = {"ids": sorted(reached), "peer": name, "project": name, "min_people": MIN_PEOPLE}
            reached = set(await fetch_column(conn, _SQL[query], values))
    return reached


async def find_facts_of_others(conn: Connection, ids: Iterable[str]) -> set[str]:
    """Return which of some facts are not the owner's: somebody else's words, and too few people said the same."""
    others = set(await fetch_column(conn, _SQL["facts_of_others"], {"ids": sorted(set(ids))}))
    return others - await find_reached_facts(conn, others, peer=OWNER) if others else others


def fact_condition(alias: LiteralString, *, of_person: bool, of_project: bool) -> LiteralString:
    """Return the condition that a fact may be seen, for a query over `fact` by this alias.

    Its parameters are `person` and `min_people`, and `of_project`; without either, every fact may be seen.
    """
    conditions: list[LiteralString] = ["true"]
    if of_person:
        conditions.append(_SQL["listed_of_person"].replace("%(peer)s", "%(person)s"))
    if of_project:
        conditions.append(_SQL["of_project"].replace("%(project)s", "%(of_project)s"))
    return " and ".join(condition.replace("fact.", f"{alias}.") for condition in conditions)


load_person = Value[str | None, str](_SQL["person_of"])
# What a person stated outright, by the extractors of such statements: facts' ids, each with the words.
list_statements = Tuples[tuple[str, str], Iterable[str], Iterable[str]](_SQL["statements"], "ids extractors")
