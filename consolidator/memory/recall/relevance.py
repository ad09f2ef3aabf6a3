"""Decides whether a document is about a prompt at all: recall ranks what it finds, and its best may be nothing.

A word tells as much as it is rare (inverse document frequency). A document is relevant if it shares several words with
the prompt that together tell enough, and that are either most of what the prompt says or a good deal by themselves.
A question that somebody asks of memory has a lower floor than a prompt that nobody asked memory about.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from consolidator.memory.recall.block import RecallItem
from consolidator.memory.recall.query import looks_like_question
from consolidator.memory.text.sentences import split_sentences
from consolidator.memory.text.words import query_words, split_words

MIN_SHARED_WORDS = 2
MIN_SHARED_WEIGHT = 1.2  # in units of a word that only one document has
MIN_COVERAGE = 0.5  # of the weight of the prompt's words
ENOUGH_WEIGHT = 2.5  # in the same units: whatever else the prompt says
MIN_ANSWER_COVERAGE = 0.5  # of the weight of a question's words: turns near each other have more than this
MANY_WORDS, MIN_COVERAGE_OF_MANY = 3, 0.34  # or so many of the words, and this
MIN_FACT_COVERAGE = 0.28  # a fact is short: one of three words ("tabs or spaces for indentation?") is much
MIN_TELLING = 0.5  # of the weight of the question's most telling word that some document has
STATED_COVERAGE = 0.8  # of a question's words: who states so many of them answers it
MIN_COVERAGE_BESIDE = 0.5  # of a turn that is told beside such an answer
MAX_NEW_WORDS = 0.2  # of a turn that asks the question itself
MAX_ANSWERS_READ = 20  # of the best items
MIN_WORDS_ANNOUNCED = 8  # beside the question's, of an agent's turn that ends in a colon
NEAR = 4  # turns of a session on each side that are read with one
MIN_DOCUMENTS = 1000  # that a log is taken to have: of a few, most words seem to tell nothing
MIN_DOCUMENTS_OF_PROMPT = 100  # the same where nobody asked: fewer, since words that are common in it must tell little
_DIRECTORIES = re.compile(r"@?(?:[\w.~-]*/)+(?=[\w.-])")  # of a path: its last part says which file it is
_SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+|\s*\n\s*")
_GOES_AHEAD = re.compile(  # says that something is to be done, and not what
    r"(?:(?:ok(?:ay)?|yes|please|now|then|go ahead and|はい|では)[\s,、.!]*)*(?:go (?:ahead|on)"
    r"|(?:implement|execute|do|try|continue|proceed|start)(?:\s+(?:it|this|that|the plan|with it|again|now|please))*"
    r"|(?:やってみて|進めて|続けて|実行して|お願い)(?:ください|下さい|します)?)[\s.!。]*",
    re.IGNORECASE,
)
_MONTHS = frozenset(
    split_words("january february march april may june july august september october november december")
)
COMMAND_WORDS = frozenset(split_words("command run use"))
PURPOSE_WORDS = {  # how people ask for a command
    purpose: frozenset(split_words(words))
    for purpose, words in {
        "check": "check checks verify gate ci",
        "test": "test tests testing suite",
        "lint": "lint linter linting linters style",
        "format": "format formatter formatting",
        "typecheck": "type types check checker checking",
        "build": "build compile bundle",
        "run": "start serve server dev",
        "install": "install dependencies packages setup",
        "deploy": "deploy deployment release publish",
        "migrate": "migrate migration migrations",
        "generate": "generate generated codegen",
    }.items()
}


@dataclass(frozen=True, slots=True)
class PromptWords:
    """The words that say what a prompt is about, and how much each tells."""

    weights: Mapping[str, float]
    unit: float  # the weight of a word that only one document has

    @classmethod
    def weigh(cls, words: Sequence[str], documents_with: Mapping[str, int], documents: int) -> PromptWords:
        """Weigh the words of a prompt; `documents_with` counts the documents that have each, of `documents` in all."""
        largest = max(documents, *documents_with.values(), 1)
        weights = {word: _tell(documents_with.get(word, 0), largest) for word in dict.fromkeys(words)}
        return cls(weights, _tell(1, largest))

    @property
    def words(self) -> frozenset[str]:
        """The words themselves."""
        return frozenset(self.weights)

    def covers(self, text: str) -> bool:
        """Tell whether a text is about the prompt."""
        shared = self.weights.keys() & set(query_words(text))
        weight = sum(self.weights[word] for word in shared)
        if len(shared) < MIN_SHARED_WORDS or weight < MIN_SHARED_WEIGHT * self.unit:
            return False
        return weight >= ENOUGH_WEIGHT * self.unit or weight >= MIN_COVERAGE * sum(self.weights.values())

    def coverage(self, words: Iterable[str]) -> float:
        """Return the share of the prompt that some of its words are, weighted by how much each tells."""
        return sum(self.weights[word] for word in words) / (sum(self.weights.values()) or 1.0)

    def coverage_of(self, text: str) -> float:
        """Return the share of the prompt that a text has."""
        return self.coverage(self.weights.keys() & set(split_words(text)))

    def coverage_by(self, command: str, purpose: str | None) -> float:
        """Return the share that a command for a purpose has of what a question asks about that purpose."""
        own = PURPOSE_WORDS.get(purpose or "", frozenset())
        if self.words.isdisjoint(own):
            return self.coverage_of(command)
        others = frozenset().union(*PURPOSE_WORDS.values()) - own
        asked = PromptWords({word: weight for word, weight in self.weights.items() if word not in others}, self.unit)
        return asked.coverage(asked.words & {*own, *COMMAND_WORDS, *split_words(command)})

    def shares_telling_word(self, text: str) -> bool:
        """Tell whether a text has a word that tells much of the prompt, or several that tell enough."""
        shared = self.weights.keys() & set(split_words(text))
        most = max((weight for weight in self.weights.values() if weight <= self.unit), default=0.0)
        is_telling = any(self.weights[word] >= MIN_TELLING * most for word in shared)
        return is_telling or self.coverage(shared) >= MIN_FACT_COVERAGE

    def excerpt(self, text: str, limit: int) -> str:
        """Return the sentences of a long text that tell most about the prompt, in their order; a short one whole."""
        if len(text) <= limit:
            return text
        sentences = [" ".join(sentence.split()) for sentence in _SENTENCE_END.split(text.strip())]
        chosen: list[int] = []
        for number in sorted(range(len(sentences)), key=lambda number: -self.coverage_of(sentences[number])):
            limit -= len(sentences[number])
            if limit < 0 and chosen:
                break
            chosen.append(number)
        return " … ".join(sentences[number] for number in sorted(chosen))

    def may_be_answered_by(self, texts: Iterable[str], least: float = MIN_ANSWER_COVERAGE) -> bool:
        """Tell whether texts that belong together, with more than `least` of them, may answer a question."""
        shared = self.weights.keys() & {word for text in texts for word in split_words(text)}
        coverage = self.coverage(shared)
        return coverage > least or (len(shared) >= MANY_WORDS and coverage >= MIN_COVERAGE_OF_MANY)


def without_directories(text: str) -> str:
    """Return a text in which a path is its last part alone: that two files share a folder says nothing."""
    return _DIRECTORIES.sub(" ", text)


def subject_words(words: Sequence[str]) -> list[str]:
    """Return a question's words without its dates, which few texts repeat; all of them if it has only dates."""
    return [word for word in words if not word.isdigit() and word not in _MONTHS] or list(words)


def has_answer(question: PromptWords, items: Sequence[RecallItem]) -> bool:
    """Tell whether the best facts and turns may answer a question: one of them, with the turns that are near it."""
    best = items[:MAX_ANSWERS_READ]
    return any(
        question.may_be_answered_by([other.searched for other in best if _are_near(item, other)])
        or (item.kind == "fact" and question.may_be_answered_by([item.searched], MIN_FACT_COVERAGE))
        for item in best
    )


def drop_narration(question: PromptWords, items: Sequence[RecallItem], *, is_question: bool) -> list[RecallItem]:
    """Return items without what is only said near the subject, where a person's statement answers a question.

    That is what agents say; where a fact is the answer, what people say, too. A turn that repeats another is left out,
    and so is an agent's that announces what it does next ("Now run the tests again:") and a person's same question.
    """
    items = [item for item in items if not (item.kind == "episode" and _says_nothing(item, question, is_question))]
    answers = [item for item in items if is_stated(item, question)]
    has_fact = any(item.kind == "fact" for item in answers)
    aside = [item for item in items if _is_agents_turn(item) or (item.kind == "episode" and has_fact)]
    dropped = {item.citation for item in aside if question.coverage_of(item.searched) < MIN_COVERAGE_BESIDE}
    first = {(item.kind, tuple(split_words(item.searched))): item.citation for item in reversed(items)}
    return [
        item
        for item in items
        if not (answers and item.citation in dropped)
        and first[item.kind, tuple(split_words(item.searched))] == item.citation
    ]


def _says_nothing(item: RecallItem, question: PromptWords, is_question: bool) -> bool:
    """Tell whether a turn says hardly more than the question: an agent's next step, or a person's same question."""
    text = str(item.data["text"]).strip()
    words = set(query_words(text))
    new = len(words - question.words)
    if _is_agents_turn(item):
        return text.endswith(":") and new < MIN_WORDS_ANNOUNCED
    asks_the_same = is_question and looks_like_question(text) and new <= MAX_NEW_WORDS * len(words)
    return asks_the_same or _GOES_AHEAD.fullmatch(text) is not None


def is_stated(item: RecallItem, question: PromptWords) -> bool:
    """Tell whether a person states nearly all that a question asks about."""
    if _is_agents_turn(item) or (item.kind == "fact" and item.data["trust"] not in ("person", "user")):
        return False
    texts = [item.searched] if item.kind == "fact" else split_sentences(str(item.data["text"]))
    return any(question.coverage_of(text) >= STATED_COVERAGE and not looks_like_question(text) for text in texts)


def _is_agents_turn(item: RecallItem) -> bool:
    return item.kind == "episode" and item.data["role"] != "user"


def _are_near(one: RecallItem, other: RecallItem) -> bool:
    if one is other:
        return True
    return any(
        session == other_session and abs(seq - other_seq) <= NEAR
        for session, seq in one.events
        for other_session, other_seq in other.events
    )


def _tell(documents_with: int, documents: int) -> float:
    return math.log1p(documents / (documents_with + 0.5))
