"""Titles of sessions, from the first words that somebody said in them; and the goals that several titles name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.markers import strip_recalled
from consolidator.memory.text.pasted import BLANK, split_quoted
from consolidator.memory.text.words import split_words

MAX_TITLE_LENGTH = 72  # characters
_TAG = re.compile(r"</?[a-z][\w-]*>")
_ELEMENT = re.compile(r"\s*<([a-z][\w-]*)>")
_MARKS_BEFORE = "#*>-=~ \t"  # Markdown's


def title_of(messages: Iterable[str], redact: Callable[[str], str]) -> str | None:
    """Return the first own words of the first message that has any, else the first that are quoted; None for none.

    They are one line, without secrets and private passages.
    """
    texts = [redact(strip_recalled(strip_invisible(message))) for message in messages]
    for text in [*(_own_words(text) for text in texts), *texts]:
        line = " ".join(_TAG.sub(" ", text).split()).lstrip(_MARKS_BEFORE)
        if any(character.isalnum() for character in line):
            if len(line) <= MAX_TITLE_LENGTH:
                return line
            words = line[: MAX_TITLE_LENGTH - 1].rpartition(" ")[0]  # whole words where it has any
            return (words if 2 * len(words) > MAX_TITLE_LENGTH else line[: MAX_TITLE_LENGTH - 1]).rstrip(" ,;:") + "…"
    return None


def _own_words(text: str) -> str:
    """Return a message without what its author quotes; nothing of one in an element whose end is cut off."""
    element = _ELEMENT.match(text)
    if element and f"</{element[1]}>" not in text:
        return ""
    return split_quoted(text)[0].replace(BLANK, "")


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
