"""Learns what is published of one scope, from its latest digests.

A scope (an agent in one project or in all of them, of one person or of everybody) is learned from its latest sessions
alone: `digests.MAX_SESSIONS` at most, of one project `MAX_PROJECT_SESSIONS`, with at most `MAX_CALLS` calls. So
what a merge costs, in time and memory, does not grow with the history. Which sessions these are is a function of the
digests, so that the order of nights does not matter. Nothing is kept from night to night but a cache: the texts of
recurring keys, which are costly to read from the digests, and the steps of what was selected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from consolidator.database import Connection
from consolidator.memory.procedures.digest import unpack_terms
from consolidator.memory.procedures.key_counts import Ints, KeySums, concatenate, hash_text
from consolidator.memory.procedures.key_texts import KeyTexts
from consolidator.memory.procedures.patterns import DigestArrays, MinedPatterns, mine_patterns
from consolidator.memory.procedures.publication_rule import PublicationRule
from consolidator.memory.procedures.publishing import PublishedScope, publish_scope
from consolidator.models.audience import ALL
from consolidator.models.digest import ScopeStateRow
from consolidator.store.calls import digests, scopes

ALL_PROJECTS = ""  # the scope of all that an agent does; of a digest: it belongs to no project
_TERMS_BATCH = 200  # sessions whose terms are read at once
NOTHING = PublishedScope([], {})


@dataclass(frozen=True, slots=True)
class Audience:
    """To whom something is published, and which sessions it is learned from."""

    name: str  # as `models.audience` explains
    person: str | None = None  # learn from this person's sessions alone
    counts_people: bool = False  # in place of lineage roots

    def identify(self, agent: str) -> str:
        """Return the name of an agent that this audience's procedures are identified by."""
        return agent if self.name.startswith(ALL) else f"{agent}\x1f{self.name}"


async def load_digests(conn: Connection, agent: str, project: str, person: str | None) -> list[DigestArrays]:
    """Return the digests that a scope is learned from, the latest first."""
    rows = await digests.list_latest(conn, agent, None if project == ALL_PROJECTS else project, person)
    return [
        DigestArrays.unpack(row.session_id, row.root_id, row.arrays, row.last_at, row.project, row.peer) for row in rows
    ]


async def learn_scope(
    conn: Connection, agent: str, project: str, audience: Audience, latest: Sequence[DigestArrays], min_support: int
) -> PublishedScope:
    """Return what is published of a scope for an audience, and keep what the next merge of it uses."""
    is_shared = project == ALL_PROJECTS
    project_count = len({digest.project for digest in latest})
    if is_shared and project_count == 1 and latest[0].project != ALL_PROJECTS:
        learned, texts = NOTHING, KeyTexts.from_dict({})  # its only project has it all
    else:
        rule = PublicationRule.for_scope(min_support, is_shared=is_shared, project_count=project_count)
        if audience.counts_people:
            latest = [replace(digest, root_id=digest.peer, peer=f"person {digest.peer}") for digest in latest]
        mined = await asyncio.to_thread(_mine, latest, rule, min_support if audience.counts_people else 0)
        texts = await _load_texts(conn, agent, project, audience, latest, mined)
        learned = await asyncio.to_thread(
            publish_scope, mined, texts, rule, agent=audience.identify(agent), project=project
        )
    selected = np.asarray([hash_symbols(procedure.symbols) for procedure in learned.procedures], np.int64)
    packed = {**texts.pack(), "selected": selected.tobytes()}
    await scopes.save_state(conn, ScopeStateRow(agent=agent, project=project, audience=audience.name, **packed))
    return learned


def hash_symbols(symbols: Sequence[str]) -> int:
    """Return the hash of a procedure's steps."""
    return hash_text("\x1f".join(symbols))


def _mine(latest: Sequence[DigestArrays], rule: PublicationRule, min_roots: int) -> MinedPatterns:
    """Return the patterns and sums of digests; keys that fewer than `min_roots` have are not even looked at."""
    sums = KeySums.of_sessions(latest)
    return mine_patterns(latest, rule, key_sums=sums.recurring(min_roots) if min_roots else sums)


async def _load_texts(
    conn: Connection, agent: str, project: str, audience: Audience, latest: Sequence[DigestArrays], mined: MinedPatterns
) -> KeyTexts:
    """Return the texts of what recurs in digests: those that the last merge left, and what is missing from sessions."""
    recurring = await asyncio.to_thread(_find_recurring, latest, mined)
    state = await scopes.get_state(conn, agent, project, audience.name)
    texts = KeyTexts.from_dict({})
    if state is not None:
        texts = KeyTexts.unpack([{"keys": state.keys, "groups": state.groups, "texts": state.texts}]).only(recurring)
    missing = texts.missing_keys(recurring)
    if not len(missing):
        return texts
    terms = dict.fromkeys(missing.tolist(), "")  # "": the key has no text, and none is looked for again
    sessions = await asyncio.to_thread(_find_sessions_with, latest, missing)
    for first in range(0, len(sessions), _TERMS_BATCH):
        rows = await digests.get_terms(conn, sessions[first : first + _TERMS_BATCH])
        await asyncio.to_thread(_fill_texts, terms, list(rows.values()))
    return texts.plus(await asyncio.to_thread(KeyTexts.from_dict, terms))


def _find_recurring(latest: Sequence[DigestArrays], mined: MinedPatterns) -> Ints:
    """Return what needs a text: recurring keys and symbols of patterns."""
    symbols = {symbol for pattern in mined.patterns for symbol in pattern.symbols}
    return np.unique(np.concatenate([mined.key_sums.recurring().keys, np.asarray([*symbols], np.int64)]))


def _find_sessions_with(latest: Iterable[DigestArrays], missing: Ints) -> list[str]:
    """Return sessions that together have all missing keys, each with a key that those before it have not."""
    unseen = np.ones(len(missing), np.bool_)
    sessions = []
    for digest in latest:
        present = concatenate([digest.keys, digest.sequence])
        at = np.minimum(np.searchsorted(missing, present), len(missing) - 1)
        at = at[(missing[at] == present) & unseen[at]]
        if len(at):
            unseen[at] = False
            sessions.append(digest.session_id)
    return sessions


def _fill_texts(terms: dict[int, str], packed: Iterable[bytes]) -> None:
    for digest_terms in packed:
        for key, text in unpack_terms(digest_terms).items():
            if terms.get(key) == "":
                terms[key] = text
