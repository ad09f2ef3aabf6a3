"""Chooses what of a person's message is worth telling again: what it states, not what it asked for at that moment.

A message to an agent is mostly questions, and orders that were carried out long ago; shown again they read as requests.
What remains are its norms: how things have to be. How they were at that moment is found by who asks for it.
"""

from __future__ import annotations

import re

from consolidator.memory.facts.instructions import find_instruction
from consolidator.memory.facts.norms import is_norm
from consolidator.memory.facts.verbs import begins_order
from consolidator.memory.text.phrasing import is_hypothetical, is_question, is_transient, strip_lead_in
from consolidator.memory.text.sentences import split_sentences
from consolidator.memory.text.words import query_words

MIN_LENGTH, MIN_WORDS = 6, 5  # words, and those of them that say what it is about
MIN_NEW_WORDS = 2  # that the prompt itself does not have
_DIRECTORIES = re.compile(r"@?(?:[\w.~-]*/)+(?=[\w.-])")  # of a path: its last part says which file it is
_ERROR = re.compile(r"(?:\w*Error|errno|code|syscall|path)\b\s*:|\w+:\w+:\d+\b|\s{4,}at ", re.IGNORECASE)
# What is asked for just then, or is said to the listener about what they do: no statement about the work.
_ADDRESSED = re.compile(
    r"(?:i|we) (?:\w+ )?(?:want|would like|need) (?:you )?to\b|let['’]?s\b|you\b|why\b|how\b|what\b", re.IGNORECASE
)


def lasting_sentences(text: str) -> list[str]:
    """Return the sentences of a person's message that state something beyond what was to be done just then."""
    return [sentence for sentence in split_sentences(text) if _is_lasting(sentence)]


def without_directories(text: str) -> str:
    """Return a text in which a path is its last part alone: that two files share a folder says nothing."""
    return _DIRECTORIES.sub(" ", text)


def tells_more(sentence: str, prompt_words: frozenset[str]) -> bool:
    """Tell whether a sentence says something that the prompt does not."""
    return len(set(query_words(sentence)) - prompt_words) >= MIN_NEW_WORDS


def _is_lasting(sentence: str) -> bool:  # a choice ("question -> answer") is of its task
    if len(sentence.split()) < MIN_LENGTH or len(query_words(without_directories(sentence))) < MIN_WORDS:
        return False
    if (
        " -> " in sentence
        or _ERROR.search(sentence)
        or is_question(sentence)
        or is_hypothetical(sentence)
        or is_transient(sentence)
    ):
        return False
    bare = strip_lead_in(sentence)
    is_order = _ADDRESSED.match(bare) or begins_order(bare.casefold().split(), 0) is not None
    return is_norm(bare) and (not is_order or find_instruction(sentence) is not None)
