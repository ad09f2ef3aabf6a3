"""Say what the sessions of a procedure were for, by the first words that people said in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from consolidator.memory.text.words import split_words

MIN_SENTENCE_WORDS = 3  # of a first sentence that stands for its goal
_GREETING = re.compile(r"(?:(?:hi|hello|hey|good (?:morning|day|afternoon|evening))\b(?: there\b)?[\s!,.:-]*)+", re.I)
_FIRST_SENTENCE = re.compile(r"(.+?)[.!?:](?:\s|…?$)")


def order_goals(titles: Iterable[str]) -> list[str]:
    """Return the distinct goals of sessions with these titles, the one first that has most words of the others."""
    goals = list(dict.fromkeys(filter(None, map(_goal_of, titles))))
    words = {goal: set(split_words(goal)) for goal in goals}
    counts = Counter(word for of_goal in words.values() for word in of_goal)
    return sorted(goals, key=lambda goal: -sum(counts[word] - 1 for word in words[goal]))  # of equals the latest


def _goal_of(title: str) -> str:
    """Return the first sentence of a title without its greeting; more where that is short."""
    goal = title[greeting.end() :] if (greeting := _GREETING.match(title)) else title
    sentence = _FIRST_SENTENCE.match(goal)
    if sentence and len(sentence[1].split()) >= MIN_SENTENCE_WORDS:
        goal = sentence[1]
    goal = goal.strip().rstrip(".!?:,;")
    return goal[:1].upper() + goal[1:]
