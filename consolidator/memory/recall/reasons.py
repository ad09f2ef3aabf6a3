"""Why recall ranks a document where it does: what each search gave it, its factors, its words of the question. Pure.

It repeats the sums of `fusion`, so that a ranking can be shown, not only its order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from consolidator.memory.recall import fusion
from consolidator.memory.recall.block import RecallItem
from consolidator.memory.recall.documents import Channel, EventRef, RecalledFact, RecalledTurn
from consolidator.memory.recall.postings import FACT
from consolidator.memory.recall.relevance import PromptWords
from consolidator.memory.text.words import split_words

Found = Sequence[Channel]
_WRITTEN = re.compile(r"[^\W_]+(?:['’ʼ-][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one line is where it is."""

    searches: Mapping[str, float]  # what each search added to the score, by its name; their sum is the score
    factors: Mapping[str, float]  # what the score was multiplied by, by name; without those that change nothing
    shared: tuple[str, ...]  # words of the question that the text has
    coverage: float  # the share of the question's words that these are, weighted by how much each tells


def explain_items(
    items: Sequence[RecallItem],
    turns: Sequence[RecalledTurn],
    facts: Sequence[RecalledFact],
    channels: Found,
    question: PromptWords,
    query_words: Collection[str],
) -> dict[str, Reason]:
    """Return the reason of each item that `fusion.fuse_channels` ranked, by its citation."""
    if not items:
        return {}
    newest = fusion.newest_of(turns, facts)
    turns_by_event = {turn.event: turn for turn in turns}
    facts_by_id = {fact.id: fact for fact in facts}
    proving = _find_proving(facts)
    reasons = {}
    for item in items:
        document: RecalledTurn | RecalledFact
        if item.kind == "fact":
            document = facts_by_id[item.data["id"]]
            searches = dict(_searches_of_fact(document, channels))
        else:
            document = turns_by_event[item.events[0]]
            searches = dict(_searches_of_turn(document, channels, proving.get(document.event, ())))
        factors = fusion.factors_of(document, newest, query_words)
        told = {name: factor for name, factor in factors.items() if abs(factor - 1) >= 0.0005}
        words = question.words & set(split_words(item.searched))
        reasons[item.citation] = Reason(searches, told, tuple(sorted(words)), question.coverage(words))
    return reasons


def spell_words(question: str, words: Collection[str]) -> dict[str, str]:
    """Return stemmed words as a question has them; a word that it has in several ways as it comes first."""
    spelled = {word: word for word in words}
    for written in reversed(_WRITTEN.findall(question)):
        for word in split_words(written):
            if word in spelled:
                spelled[word] = written
    return spelled


def _searches_of_fact(fact: RecalledFact, channels: Found) -> Iterator[tuple[str, float]]:
    total = sum(channel.weight for channel in channels if channel.kind == FACT)
    for channel in channels:
        if channel.kind == FACT and (score := channel.scores.get(fact.number)):
            yield channel.name, channel.weight * score / total


def _searches_of_turn(
    turn: RecalledTurn, channels: Found, proven: Sequence[RecalledFact]
) -> Iterator[tuple[str, float]]:
    total = sum(channel.weight for channel in channels)
    for channel in channels:
        if channel.kind == FACT:
            score = max((channel.scores.get(fact.number, 0.0) for fact in proven), default=0.0)
        else:
            score = channel.scores.get(turn.number, 0.0)
        if score:
            yield channel.name, channel.weight * score / total


def _find_proving(facts: Sequence[RecalledFact]) -> dict[EventRef, list[RecalledFact]]:
    """Return the facts that each event proves."""
    proving: dict[EventRef, list[RecalledFact]] = {}
    for fact in facts:
        for event in fact.events:
            proving.setdefault(event, []).append(fact)
    return proving
