"""Say what the sessions of a procedure were for, by the first words that people said in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from consolidator.memory.procedures.goals import goal_words

MIN_SENTENCE_WORDS = 3  # of a first sentence that stands for its goal
_GREETING = re.compile(r"(?:(?:hi|hello|hey|good (?:morning|day|afternoon|evening))\b(?: there\b)?[\s!,.:-]*)+", re.I)
_FIRST_SENTENCE = re.compile(r"(.+?)[.!?:](?:\s|…?$)")


def order_goals(titles: Iterable[str], purpose: Collection[str] = ()) -> list[str]:
    """Return the distinct goals of sessions with these titles, the one first that says best what all were for.

    That is the one with most words of the purpose, then with most words that other goals have, too.
    """
    goals = list(dict.fromkeys(filter(None, map(_goal_of, titles))))
    words = {goal: set(goal_words(goal)) for goal in goals}
    counts = Counter(word for found in words.values() for word in found)

    def score(goal: str) -> tuple[int, int]:
        return len(words[goal].intersection(purpose)), sum(counts[word] - 1 for word in words[goal])

    return sorted(goals, key=score, reverse=True)  # stable: of equals the latest session's


def _goal_of(title: str) -> str:
    """Return the first sentence of a title without its greeting; more where that is short."""
    goal = title[found.end() :] if (found := _GREETING.match(title)) else title
    sentence = _FIRST_SENTENCE.match(goal)
    if sentence and len(sentence[1].split()) >= MIN_SENTENCE_WORDS:
        goal = sentence[1]
    goal = goal.strip().rstrip(".!?:,;")
    return goal[:1].upper() + goal[1:]
