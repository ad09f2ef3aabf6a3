"""Fuses what several channels found into one ranking of turns and facts.

Scores are scaled to the best of their channel and summed (CombSUM, Fox and Shaw 1994; that it beats the fusion of ranks
is shown by Bruch, Gai and Ingber 2023). A fact counts for the turns that prove it, and is an item beside them: it hides
none of them, nor another fact of the same turn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from consolidator.memory.recall.block import Channel, EventRef, RecallItem, fact_item, turn_item
from consolidator.memory.recall.postings import FACT
from consolidator.memory.recall.relevance import PromptWords
from consolidator.memory.text.words import split_words
from consolidator.models.digest import RecalledFact, TurnRow

MIN_SHARE = 0.1  # of the best score: what has less is not relevant
_SPEAKER_BOOST = 0.2  # of the turns of a person whom the query names
_RECENCY_WEIGHT, _RECENCY_DAYS = 0.01, 60.0  # the weight of recency falls to 1/e in so many days
_USE_WEIGHT = 0.01
_UNUSED_WEIGHT, _UNUSED_AFTER = 0.97, timedelta(days=60)  # of a fact that nobody said or recalled for so long
_WRITTEN = re.compile(r"[^\W_]+(?:['’ʼ-][^\W_]+)*")
_ANNOUNCED = 0.25  # by so much less counts what an agent says it will do than what came of it
_STEER_WEIGHT = 0.04  # of a fact whose steers all came before success; of one whose tasks failed, as much less
_TRUST_WEIGHT = {"person": 2.0, "user": 1.0, "agent": 0.98, "tool": 0.94}


def scale_to_best(numbers: Iterable[int], scores: Iterable[float]) -> dict[int, float]:
    """Return the scores of documents as shares of the best; all of them are positive, the best comes first."""
    scored = dict(zip(numbers, scores, strict=True))
    best = max(scored.values(), default=1.0) or 1.0
    return {number: score / best for number, score in scored.items()}


def scale_to_range(found: Sequence[tuple[int, float]], others: Sequence[tuple[int, float]] = ()) -> dict[int, float]:
    """Return the scores of documents between nearly 0 for the worst and 1 for the best, as cosines need it.

    `others` widen the range: an only fact is not near to whatever is asked.
    """
    cosines = [cosine for _, cosine in (*found, *others)]
    best = max(cosines, default=0.0)
    span = best - min(cosines, default=0.0) or 1.0
    return {number: max(1 - (best - cosine) / span, 0.01) for number, cosine in found}


def fuse_channels(
    turns: Sequence[TurnRow],
    facts: Sequence[RecalledFact],
    channels: Sequence[Channel],
    *,
    limit: int,
    query_words: Collection[str] = (),
) -> list[RecallItem]:
    """Return turns and facts in one ranking, the best first, without those that fit far worse than the best."""
    if not turns and not facts:
        return []
    newest, proving, of_facts = _newest_of(turns, facts), _find_proving(facts), _score_facts(channels)
    summed: list[tuple[float, TurnRow | RecalledFact]] = [
        *((sum(_shares_of(turn, channels, proving).values()), turn) for turn in turns),
        *((of_facts.get(fact.number, 0.0), fact) for fact in facts),
    ]
    scored = [
        (score * math.prod(_factors_of(document, newest, query_words).values()), document)
        for score, document in summed
        if score
    ]
    least = MIN_SHARE * max((score for score, _ in scored), default=0.0)
    relevant = sorted(
        (entry for entry in scored if entry[0] >= least), key=lambda entry: (-entry[0], _sort_key(entry[1]))
    )
    return [
        turn_item(document, score) if isinstance(document, TurnRow) else fact_item(document, score)
        for score, document in relevant[:limit]
    ]


def _sort_key(document: TurnRow | RecalledFact) -> tuple[int, Sequence[EventRef], str]:
    """Return what orders documents of the same score: facts first."""
    if isinstance(document, TurnRow):
        return 1, (document.event,), ""
    return 0, document.events, document.id


def _shares_of(
    document: TurnRow | RecalledFact, channels: Sequence[Channel], proving: Mapping[EventRef, Sequence[int]]
) -> dict[str, float]:
    """Return what each channel adds to a document's score, by its name; to a turn also by the facts that it proves."""
    is_turn = isinstance(document, TurnRow)
    proven = proving.get(document.event, ()) if isinstance(document, TurnRow) else (document.number,)
    counted = [channel for channel in channels if is_turn or channel.kind == FACT]
    total = sum(channel.weight for channel in counted)
    shares: dict[str, float] = {}
    for channel in counted:
        numbers = proven if channel.kind == FACT else (document.number,)
        if score := max((channel.scores.get(number, 0.0) for number in numbers), default=0.0):
            shares[channel.name] = shares.get(channel.name, 0.0) + channel.weight * score / total
    return shares


def _score_facts(channels: Sequence[Channel]) -> dict[int, float]:
    """Return the sum of what each channel adds to a fact's score, by its number."""
    counted = [channel for channel in channels if channel.kind == FACT]
    total = sum(channel.weight for channel in counted)
    scores: dict[int, float] = {}
    for channel in counted:
        for number, score in channel.scores.items():
            scores[number] = scores.get(number, 0.0) + channel.weight * score / total
    return scores


def _find_proving(facts: Sequence[RecalledFact]) -> dict[EventRef, list[int]]:
    """Return the numbers of the facts that each event proves."""
    proving: dict[EventRef, list[int]] = {}
    for fact in facts:
        for event in fact.events:
            proving.setdefault(event, []).append(fact.number)
    return proving


def find_hidden_events(
    turns: Sequence[TurnRow], facts: Sequence[RecalledFact], channels: Sequence[Channel], limit: int
) -> list[EventRef]:
    """Return the events that prove the best facts, where no channel found their turns."""
    scores = _score_facts(channels)
    best = sorted(facts, key=lambda fact: (-scores.get(fact.number, 0.0), fact.number))[:limit]
    found = {turn.event for turn in turns}
    return sorted({event for fact in best for event in fact.events} - found)


def _newest_of(turns: Sequence[TurnRow], facts: Sequence[RecalledFact]) -> datetime:
    """Return the moment that recency is counted from: that of the newest document, of which there must be one."""
    return max([turn.occurred_at for turn in turns] + [fact.valid_from for fact in facts])


def _factors_of(document: TurnRow | RecalledFact, newest: datetime, query_words: Collection[str]) -> dict[str, float]:
    """Return the factors of a document's score by name; they are small, so that the score decides first."""
    at = document.occurred_at if isinstance(document, TurnRow) else document.valid_from
    recency = 1 + _RECENCY_WEIGHT * math.exp(-max((newest - at).total_seconds(), 0) / 86_400 / _RECENCY_DAYS)
    if isinstance(document, TurnRow):
        is_named = document.speaker is not None and not set(split_words(document.speaker)).isdisjoint(query_words)
        trust = 1.0 if document.role == "user" else _TRUST_WEIGHT["agent"] * (1 - _ANNOUNCED * document.announces)
        return {"recency": recency, "trust": trust, "speaker": 1 + _SPEAKER_BOOST * is_named}
    use = 1 + _USE_WEIGHT * min(math.log1p(document.recalled) / 5, 1)
    if document.last_used_at is not None and newest - document.last_used_at > _UNUSED_AFTER:
        use *= _UNUSED_WEIGHT
    succeeded, failed = document.steers_succeeded, document.steers_failed  # a few of them tell little
    steers = 1 + _STEER_WEIGHT * (succeeded - failed) / (succeeded + failed + 1)
    return {"recency": recency, "trust": _TRUST_WEIGHT.get(document.trust, 0.9), "use": use, "steers": steers}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one line is where it is."""

    searches: Mapping[str, float]  # what each search added to the score, by its name; their sum is the score
    factors: Mapping[str, float]  # what the score was multiplied by, by name; without those that change nothing
    shared: tuple[str, ...]  # words of the question that the text has
    coverage: float  # the share of the question's words that these are, weighted by how much each tells


def explain_items(
    items: Sequence[RecallItem],
    turns: Sequence[TurnRow],
    facts: Sequence[RecalledFact],
    channels: Sequence[Channel],
    question: PromptWords,
    query_words: Collection[str],
) -> dict[str, Reason]:
    """Return the reason of each item that `fuse_channels` ranked, by its citation."""
    if not items:
        return {}
    newest, proving = _newest_of(turns, facts), _find_proving(facts)
    documents: dict[object, TurnRow | RecalledFact] = {fact.id: fact for fact in facts}
    documents |= {turn.event: turn for turn in turns}
    reasons = {}
    for item in items:
        document = documents[item.data["id"] if item.kind == "fact" else item.events[0]]
        factors = _factors_of(document, newest, query_words)
        notable = {name: factor for name, factor in factors.items() if abs(factor - 1) >= 0.0005}
        words = question.words & set(split_words(item.searched))
        shares = _shares_of(document, channels, proving)
        reasons[item.citation] = Reason(shares, notable, tuple(sorted(words)), question.coverage(words))
    return reasons


def spell_words(question: str, words: Collection[str]) -> dict[str, str]:
    """Return stemmed words as a question has them; a word that it has in several ways as it comes first."""
    spelled = {word: word for word in words}
    for written in reversed(_WRITTEN.findall(question)):
        for word in split_words(written):
            if word in spelled:
                spelled[word] = written
    return spelled
