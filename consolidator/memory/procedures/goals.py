"""Keep the words of what a session was asked to do, so that procedures can tell what they are for.

A left fold: the words of the first task's goal; in a session without one, what the user said before the first call
had ended. Words that may name a person or a case are left out: those with digits or signs, and capitalised ones within
a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from consolidator.memory.procedures.key_counts import KeyCounts, hash_text

MAX_WORDS = 64  # distinct words of a session
MAX_GOAL_CHARS = 2000  # of one message or goal that are read
_MAX_REDACTED = 4000  # characters that are redacted before the cut, so that no half of a credential remains
_MIN_WORD, _MAX_WORD = 3, 24  # characters
_SENTENCE_END = re.compile(r"[.!?:][\"')\]*]*$")
_hash_word = lru_cache(maxsize=1 << 13)(hash_text)  # sessions share most words
_MARKS_AROUND = "\"'`*_.,;:!?()[]{}<>«»“”‘’…-"  # punctuation and Markdown


def goal_words(text: str) -> list[str]:
    """Return the distinct words of a text that may tell a purpose, lower-case, in order."""
    words: dict[str, None] = {}
    begins_sentence = True
    for token in text.split():
        word = token.strip(_MARKS_AROUND)
        is_first, begins_sentence = begins_sentence, bool(_SENTENCE_END.search(token))
        if is_first:
            word = word[:1].lower() + word[1:]
        if _MIN_WORD <= len(word) <= _MAX_WORD and word.isalpha() and word.islower():
            words[word] = None
    return list(words)


class GoalFold:
    """Collects the words of the goal: hashes here, texts in `counts`. Feed it tasks and messages until a call ends."""

    def __init__(self, counts: KeyCounts, redact: Callable[[str], str]) -> None:
        self.counts = counts
        self.redact = redact
        self.words: dict[int, None] = {}
        self.has_task = False  # a task told the goal
        self.is_known = False  # nothing is added any more

    def feed_task(self, goal: str) -> None:
        """Take the goal of a task: the first one is the session's."""
        if goal and not self.has_task and not self.is_known:
            self.has_task = True
            self.words.clear()
            self._add(goal)

    def feed_user_message(self, text: str) -> None:
        """Take a user's message."""
        if not self.has_task and not self.is_known:
            self._add(text)

    def end(self) -> None:
        """Take no more words: the first call has ended."""
        self.is_known = True

    def _add(self, text: str) -> None:
        redacted = self.redact(text[:_MAX_REDACTED])[:MAX_GOAL_CHARS]
        if len(text) > MAX_GOAL_CHARS:
            redacted = redacted.rpartition(" ")[0]  # the last word may be half of one
        for word in goal_words(redacted):
            if len(self.words) >= MAX_WORDS:
                return
            hashed = _hash_word(word)
            self.words[hashed] = None
            self.counts.set_symbol_text(hashed, word)

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON; the words are stored beside it."""
        return {"task": self.has_task, "known": self.is_known}

    def load(self, state: Mapping[str, Any], words: list[int]) -> None:
        """Continue from a state that `to_json` returned, and the hashes of the words."""
        self.has_task, self.is_known = state["task"], state["known"]
        self.words = dict.fromkeys(words)
