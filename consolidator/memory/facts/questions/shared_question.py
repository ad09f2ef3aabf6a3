"""Puts transcript chunks of several sessions of one scope into one question, and gives each its own part of the answer.

A part is what an answer to a question about its chunk alone would be, with the names that lines have there. Nothing of
another session is in it: a part that says what only another session says is not taken, so that its chunk is asked
about alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.memory.facts.questions.gate import PERSONS_NAMES
from consolidator.memory.facts.questions.transcript import TranscriptChunk
from consolidator.memory.text.similarity import content_words, has_form, name_words, numbers

_NAME = re.compile(r"s([0-9]{1,4})([PASFECc][0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class SharedQuestion:
    """Chunks of several sessions: s1, s2, ..., whose lines are s1P1, s1A1, ..., s2P1, ..."""

    chunks: tuple[TranscriptChunk, ...]

    def render(self) -> str:
        """Return what the model is shown."""
        return "\n\n".join(
            f"Session s{number}\n{chunk.render(f's{number}')}" for number, chunk in enumerate(self.chunks, 1)
        )

    def split(self, answer: Mapping[str, Any]) -> list[dict[str, Any] | None]:
        """Return the part of each chunk, in order; None for one that has to be asked about alone."""
        facts: list[list[dict[str, Any]] | None] = [[] for _ in self.chunks]
        words = [_words_of(chunk) for chunk in self.chunks]
        for fact in answer["facts"]:
            number = self._chunk_of(str(fact["line"]))
            if number is None:  # whose fact it is cannot be told
                return [None] * len(self.chunks)
            part = facts[number]
            if part is not None and _is_of_another(fact, words[number], words[:number] + words[number + 1 :]):
                facts[number] = None
            elif part is not None:
                part.append({**fact, "line": _own_name(str(fact["line"]))})
        others = [self._observed(answer, number) for number in range(len(self.chunks))]
        return [None if part is None else {"facts": part} | more for part, more in zip(facts, others, strict=True)]

    def _observed(self, answer: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Return the observations that cite lines of a chunk, and what the answer says of known ones by them."""
        parts: dict[str, Any] = {}
        for key in ("observations", "again", "ended"):
            for item in answer.get(key, ()):
                if self._chunk_of(str(item["line"])) != number:
                    continue
                own = {**item, "line": _own_name(str(item["line"]))}
                if "proof" in item:
                    proofs = map(str, item["proof"])
                    own["proof"] = [_own_name(name) for name in proofs if self._chunk_of(name) == number]
                parts.setdefault(key, []).append(own)
        return parts

    def _chunk_of(self, name: str) -> int | None:
        """Return which chunk a line's name is of, counted from 0; None where it is of none."""
        match = _NAME.fullmatch(name)
        number = int(match[1]) if match else 0
        return number - 1 if 1 <= number <= len(self.chunks) else None


def _own_name(name: str) -> str:
    match = _NAME.fullmatch(name)
    return match[2] if match else name


def _words_of(chunk: TranscriptChunk) -> frozenset[str]:
    """Return the words that a chunk shows."""
    lines = (*chunk.context, *chunk.lines)
    return content_words(" ".join(f"{line.text} {line.detail or ''} {line.outcome or ''}" for line in lines))


def _is_of_another(fact: Mapping[str, Any], own: frozenset[str], others: Sequence[frozenset[str]]) -> bool:
    """Tell whether a fact has words of another session that its own does not have, in any form that begins alike.

    Of its sentence only names and numbers count: it is a paraphrase.
    """
    sentence, subject = str(fact["sentence"]), str(fact["subject"])
    stated = content_words(str(fact["value"])) | name_words(sentence) | content_words(" ".join(numbers(sentence)))
    if subject.strip().casefold() not in PERSONS_NAMES:
        stated |= content_words(subject)
    missing = [word for word in stated if not has_form(word, own)]
    return any(word in words for word in missing for words in others)
