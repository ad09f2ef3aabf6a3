"""Says what memory tells no agent unasked: sentences that hold a hostile command.

A person who stated one outright (with `remember`, by accepting a rule, or by a correction) means it: then only what is
grave is held back, since an agent with a shell reaches these doors, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from consolidator.database import Connection
from consolidator.memory.calls.harm_in_text import text_harm
from consolidator.memory.calls.harm_rules import GRAVE
from consolidator.store.facts.visibility import list_statements


async def find_withheld_facts(conn: Connection, sentences: Mapping[str, str]) -> dict[str, str]:
    """Return why some facts, given as their sentences by id, are not to be told unasked."""
    harms = {id: harm for id, sentence in sentences.items() if (harm := text_harm(sentence)) is not None}
    lesser = [id for id, harm in harms.items() if harm not in GRAVE]
    if not lesser:
        return harms
    from consolidator.memory.facts.candidates import EXPLICIT_EXTRACTORS

    statements = await list_statements(conn, lesser, EXPLICIT_EXTRACTORS)
    stated = {id for id, words in statements if text_harm(words) == harms[id]}
    return {id: harm for id, harm in harms.items() if id not in stated}
