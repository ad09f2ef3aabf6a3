"""Fuses what several channels found into one ranking of turns and facts.

Scores are scaled to the best of their channel and summed (CombSUM, Fox and Shaw 1994; that it beats the fusion of ranks
is shown by Bruch, Gai and Ingber 2023). A fact counts for the turns that prove it, and is an item beside them: it hides
none of them, nor another fact of the same turn.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from consolidator.memory.recall.block import RecallItem, fact_item, turn_item
from consolidator.memory.recall.documents import Channel, EventRef, RecalledFact, RecalledTurn
from consolidator.memory.recall.postings import FACT
from consolidator.memory.text.words import split_words

MIN_SHARE = 0.1  # of the best score: what has less is not relevant
_SPEAKER_BOOST = 0.2  # of the turns of a person whom the query names
_RECENCY_WEIGHT, _RECENCY_DAYS = 0.01, 60.0  # the weight of recency falls to 1/e in so many days
_USE_WEIGHT = 0.01
_UNUSED_WEIGHT, _UNUSED_AFTER = 0.97, timedelta(days=60)  # of a fact that nobody said or recalled for so long
_STEER_WEIGHT = 0.04  # of a fact whose steers all came before success; of one whose tasks failed, as much less
_TRUST_WEIGHT = {"person": 2.0, "user": 1.0, "agent": 0.98, "tool": 0.94}


def scale_to_best(numbers: Iterable[int], scores: Iterable[float]) -> dict[int, float]:
    """Return the scores of documents as shares of the best; all of them are positive, the best comes first."""
    scored = dict(zip(numbers, scores, strict=True))
    best = max(scored.values(), default=1.0) or 1.0
    return {number: score / best for number, score in scored.items()}


def scale_to_range(numbers: Sequence[int], scores: Sequence[float]) -> dict[int, float]:
    """Return the scores of documents between nearly 0 for the worst and 1 for the best, as cosines need it."""
    worst, best = min(scores, default=0.0), max(scores, default=0.0)
    span = best - worst or 1.0
    return {number: max(1 - (best - score) / span, 0.01) for number, score in zip(numbers, scores, strict=True)}


def fuse_channels(
    turns: Sequence[RecalledTurn],
    facts: Sequence[RecalledFact],
    channels: Sequence[Channel],
    *,
    limit: int,
    query_words: Collection[str] = (),
) -> list[RecallItem]:
    """Return turns and facts in one ranking, the best first, without those that fit far worse than the best."""
    turn_scores = _score_turns(turns, facts, channels)
    fact_scores = _sum_scores(channels, FACT)
    if not turns and not facts:
        return []
    newest = newest_of(turns, facts)
    scored: list[tuple[float, RecalledTurn | RecalledFact]] = []
    for turn in turns:
        if score := turn_scores.get(turn.event):
            scored.append((score * _boost(turn, newest, query_words), turn))
    for fact in facts:
        if score := fact_scores.get(fact.number):
            scored.append((score * _boost(fact, newest, query_words), fact))
    least = MIN_SHARE * max((score for score, _ in scored), default=0.0)
    relevant = sorted(
        (entry for entry in scored if entry[0] >= least), key=lambda entry: (-entry[0], _sort_key(entry[1]))
    )
    return [
        turn_item(document, score) if isinstance(document, RecalledTurn) else fact_item(document, score)
        for score, document in relevant[:limit]
    ]


def _sort_key(document: RecalledTurn | RecalledFact) -> tuple[int, Sequence[EventRef], str]:
    """Return what orders documents of the same score: facts first."""
    if isinstance(document, RecalledTurn):
        return 1, (document.event,), ""
    return 0, document.events, document.id


def _sum_scores(channels: Sequence[Channel], kind: str) -> dict[int, float]:
    """Return the weighted mean of the scores that the channels of a kind give to each document."""
    total = sum(channel.weight for channel in channels if channel.kind == kind)
    sums: dict[int, float] = {}
    for channel in channels:
        if channel.kind == kind:
            for number, score in channel.scores.items():
                sums[number] = sums.get(number, 0.0) + channel.weight * score / total
    return sums


def _score_turns(
    turns: Sequence[RecalledTurn], facts: Sequence[RecalledFact], channels: Sequence[Channel]
) -> dict[EventRef, float]:
    """Return the score of each event, to which each channel of facts gives the score of the best fact it proves."""
    events = {turn.number: turn.event for turn in turns}
    proven = {fact.number: fact.events for fact in facts}
    total = sum(channel.weight for channel in channels)
    sums: dict[EventRef, float] = {}
    for channel in channels:
        best: dict[EventRef, float] = {}
        for number, score in channel.scores.items():
            found = proven.get(number, ()) if channel.kind == FACT else (events[number],) if number in events else ()
            for event in found:
                best[event] = max(best.get(event, 0.0), score)
        for event, score in best.items():
            sums[event] = sums.get(event, 0.0) + channel.weight * score / total
    return sums


def find_hidden_events(
    turns: Sequence[RecalledTurn], facts: Sequence[RecalledFact], channels: Sequence[Channel], limit: int
) -> list[EventRef]:
    """Return the events that prove the best facts, where no channel found their turns."""
    scores = _sum_scores(channels, FACT)
    best = sorted(facts, key=lambda fact: (-scores.get(fact.number, 0.0), fact.number))[:limit]
    found = {turn.event for turn in turns}
    return sorted({event for fact in best for event in fact.events} - found)


def _time_of(document: RecalledTurn | RecalledFact) -> datetime:
    return document.occurred_at if isinstance(document, RecalledTurn) else document.valid_from


def _speaker_boost(turn: RecalledTurn, query_words: Collection[str]) -> float:
    """Return the factor of a turn whose speaker the query names."""
    is_named = turn.speaker is not None and not set(split_words(turn.speaker)).isdisjoint(query_words)
    return 1 + _SPEAKER_BOOST * is_named


def newest_of(turns: Sequence[RecalledTurn], facts: Sequence[RecalledFact]) -> datetime:
    """Return the moment that recency is counted from: that of the newest document, of which there must be one."""
    return max([turn.occurred_at for turn in turns] + [fact.valid_from for fact in facts])


def factors_of(
    document: RecalledTurn | RecalledFact, newest: datetime, query_words: Collection[str]
) -> dict[str, float]:
    """Return the factors of a document's score by name; they are small, so that the score decides first."""
    days = max((newest - _time_of(document)).total_seconds(), 0) / 86_400
    recency = 1 + _RECENCY_WEIGHT * math.exp(-days / _RECENCY_DAYS)
    if isinstance(document, RecalledTurn):
        trust = 1.0 if document.role == "user" else _TRUST_WEIGHT["agent"]
        return {"recency": recency, "trust": trust, "speaker": _speaker_boost(document, query_words)}
    use = 1 + _USE_WEIGHT * min(math.log1p(document.times_recalled) / 5, 1)
    if document.last_used_at is not None and newest - document.last_used_at > _UNUSED_AFTER:
        use *= _UNUSED_WEIGHT
    trust = _TRUST_WEIGHT.get(document.trust, 0.9)
    return {"recency": recency, "trust": trust, "use": use, "steers": _steer_boost(document)}


def _boost(document: RecalledTurn | RecalledFact, newest: datetime, query_words: Collection[str]) -> float:
    """Return the factors of a document in one."""
    return math.prod(factors_of(document, newest, query_words).values())


def _steer_boost(fact: RecalledFact) -> float:
    """Return the factor of what became of the tasks that a fact was a steer in: a few of them tell little."""
    succeeded, failed = fact.steers_succeeded, fact.steers_failed
    return 1 + _STEER_WEIGHT * (succeeded - failed) / (succeeded + failed + 1)
