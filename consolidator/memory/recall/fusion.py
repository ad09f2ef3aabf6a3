"""Fuses the rankings of several channels into one ranking of turns and facts.

Reciprocal ranks (Cormack, Clarke and Buettcher 2009) are summed per event: the rank of a fact counts for the events
that prove it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from consolidator.memory.recall.block import RecallItem, fact_item, turn_item
from consolidator.memory.recall.documents import EventRef, RecalledFact, RecalledTurn

RANK_CONSTANT = 60  # of reciprocal rank fusion
_RECENCY_WEIGHT, _RECENCY_DAYS = 0.01, 60.0  # the weight of recency falls to 1/e in so many days
_USE_WEIGHT = 0.01
_TRUST_WEIGHT = {"person": 2.0, "user": 1.0, "agent": 0.98, "tool": 0.94}


def fuse_channels(
    turns: Sequence[RecalledTurn],
    facts: Sequence[RecalledFact],
    channels: Sequence[tuple[str, Sequence[int]]],
    *,
    limit: int,
) -> list[RecallItem]:
    """Return turns and facts in one ranking, the best first.

    A channel is a kind of document ("turn" or "fact") and the numbers of its documents, the best first.
    """
    documents: dict[str, dict[int, RecalledTurn | RecalledFact]] = {
        "turn": {turn.number: turn for turn in turns},
        "fact": {fact.number: fact for fact in facts},
    }
    scores: dict[EventRef, float] = {}
    best_facts: dict[EventRef, tuple[float, RecalledFact]] = {}
    for kind, numbers in channels:
        counted: set[EventRef] = set()  # a channel counts once for an event: by its best fact
        present = [documents[kind][number] for number in numbers if number in documents[kind]]
        for rank, document in enumerate(present, start=1):
            share = 1 / (RANK_CONSTANT + rank)
            for event in _events_of(document):
                if event not in counted:
                    counted.add(event)
                    scores[event] = scores.get(event, 0.0) + share
                if isinstance(document, RecalledFact) and share > best_facts.get(event, (0.0, document))[0]:
                    best_facts[event] = (share, document)
    facts_by_event = {event: fact for event, (_, fact) in best_facts.items()}
    return _rank_items({turn.event: turn for turn in turns}, facts_by_event, scores, limit)


def _events_of(document: RecalledTurn | RecalledFact) -> tuple[EventRef, ...]:
    if isinstance(document, RecalledTurn):
        return (document.event,)
    # A fact that a person stated has no event: it stands for itself.
    return document.events or ((f"person:{document.number}", 0),)


def _rank_items(
    turns: Mapping[EventRef, RecalledTurn],
    facts: Mapping[EventRef, RecalledFact],
    scores: Mapping[EventRef, float],
    limit: int,
) -> list[RecallItem]:
    """Return an item for each event, highest score first: the fact that says it best, else the turn itself."""
    documents: list[RecalledTurn | RecalledFact] = [*turns.values(), *facts.values()]
    if not documents:
        return []
    newest = max(_time_of(document) for document in documents)
    shown: dict[EventRef, RecalledTurn | RecalledFact] = {**turns, **facts}
    ranked = [(score * _boost(shown[event], newest), event) for event, score in scores.items() if event in shown]
    ranked.sort(key=lambda entry: (-entry[0], entry[1]))
    items: dict[str, RecallItem] = {}  # by citation: one fact may stand for several events
    for score, event in ranked:
        document = shown[event]
        item = turn_item(document, score) if isinstance(document, RecalledTurn) else fact_item(document, score)
        items.setdefault(item.citation, item)
        if len(items) >= limit:
            break
    return list(items.values())


def _time_of(document: RecalledTurn | RecalledFact) -> datetime:
    return document.occurred_at if isinstance(document, RecalledTurn) else document.valid_from


def _boost(document: RecalledTurn | RecalledFact, newest: datetime) -> float:
    """Return the factor of recency, trust and use; it is small, so that the score decides first."""
    days = max((newest - _time_of(document)).total_seconds(), 0) / 86_400
    boost = 1 + _RECENCY_WEIGHT * math.exp(-days / _RECENCY_DAYS)
    if isinstance(document, RecalledTurn):
        return boost * (1.0 if document.role == "user" else _TRUST_WEIGHT["agent"])
    use = 1 + _USE_WEIGHT * min(math.log1p(document.times_recalled) / 5, 1)
    return boost * _TRUST_WEIGHT.get(document.trust, 0.9) * use
