"""The chain of a fact: what it took the place of, what took its place, and what was believed of each before."""

from __future__ import annotations

from dataclasses import dataclass

from consolidator.database import Database
from consolidator.models.fact import FactRow
from consolidator.models.supersession import ChainedFactRow, FactVersionRow
from consolidator.service.memory.explain import find_scoped_facts
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.facts import supersession
from consolidator.store.memory import lookup

MAX_CHAIN = 20  # facts of a chain to each side, and others of the attribute


@dataclass(frozen=True, slots=True)
class FactChain:
    """A fact among those that took each other's place."""

    facts: list[ChainedFactRow]  # in the order in which they became true
    versions: dict[str, list[FactVersionRow]]  # by fact: what was believed of it before, in the order of time
    others: list[FactRow]  # of the same attribute, believed no more and replaced by none of these, in the order of time
    is_cut: bool  # there are more


async def load_fact_chain(database: Database, fact: FactRow, *, viewer: Viewer = OWNER) -> FactChain:
    """Return the chain of a fact that the viewer reaches, of what it may see, at most MAX_CHAIN facts to each side."""
    scope = viewer.narrow()
    async with database.connection() as conn:
        chain = await supersession.load_chain(conn, fact.id, limit=MAX_CHAIN + 2)
        history = await lookup.load_fact_history(conn, fact)
        visible = await find_scoped_facts(conn, {each.id for each in chain} | {each.id for each in history}, scope)
        chain = [each for each in chain if each.id in visible]
        shown = _nearest(chain, fact.id)
        versions = await supersession.load_versions(conn, [each.id for each in shown])
    linked = {each.id for each in chain}
    others = [each for each in history if each.superseded_at and each.id in visible and each.id not in linked]
    return FactChain(
        shown,
        {each.id: [version for version in versions if version.fact_id == each.id] for each in shown},
        others[-MAX_CHAIN:],
        is_cut=len(shown) < len(chain) or len(others) > MAX_CHAIN,
    )


def _nearest(chain: list[ChainedFactRow], fact_id: str) -> list[ChainedFactRow]:
    """Return the facts of a chain that stand next to one in time."""
    middle = next((number for number, each in enumerate(chain) if each.id == fact_id), 0)
    return chain[max(0, middle - MAX_CHAIN) : middle + MAX_CHAIN + 1]
