"""Asks a model once more for facts that were refused only because a quote is not in the line that it names.

The second question shows only the persons' lines that these facts cite and their neighbours, so it costs little.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consolidator.memory.facts.model_extraction import has_wrong_quote
from consolidator.memory.facts.transcript import TranscriptChunk
from consolidator.memory.text.similarity import content_words

MAX_FACTS = 12  # that are asked for once more, of one chunk
MAX_SHOWN_QUOTE = 200  # characters of a refused quote that are repeated
_NEIGHBOURS = 1  # lines before and after each cited one, in case the fact names the wrong one


@dataclass(frozen=True, slots=True)
class QuoteRepair:
    """The refused facts of an answer, and the lines to quote from, under names of their own."""

    chunk: TranscriptChunk
    facts: tuple[dict[str, Any], ...]  # as the answer has them, with the new names of their lines
    kept: tuple[Mapping[str, Any], ...]  # the other facts of the answer
    refused: tuple[Mapping[str, Any], ...]  # the same facts as `facts`, with the names of the first question
    original_names: Mapping[str, str]  # by new name
    others: Mapping[str, Any]  # what else the first answer holds

    def turns(self) -> tuple[tuple[str, str], ...]:
        """Return the answer that was refused, and why, as turns of the conversation after the events."""
        complaints = [
            f"{fact['line']} does not hold {json.dumps(str(fact['quote'])[:MAX_SHOWN_QUOTE], ensure_ascii=False)}"
            for fact in self.facts
        ]
        request = (
            "These quotes are not in the lines that they name:\n"
            + "\n".join(f"- {complaint}" for complaint in dict.fromkeys(complaints))
            + "\nAnswer once more with these facts alone, their quotes copied from the lines above word by word and "
            "letter by letter, as short as proves the fact. Leave out a fact that no line above proves."
        )
        return ("assistant", json.dumps({"facts": self.facts}, ensure_ascii=False)), ("user", request)

    def merge(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return the first answer with those refused facts replaced that the second answer quotes rightly."""
        lines = self.chunk.named_lines()
        mended: dict[tuple[object, ...], dict[str, Any]] = {}
        for fact in answer["facts"]:
            if str(fact["line"]) in lines and not has_wrong_quote(fact, lines):
                mended.setdefault(_key(fact), {**fact, "line": self.original_names[str(fact["line"])]})
        return {**self.others, "facts": [*self.kept, *(mended.get(_key(fact), fact) for fact in self.refused)]}


def plan_repair(chunk: TranscriptChunk, answer: Mapping[str, Any]) -> QuoteRepair | None:
    """Return the question to ask about an answer's wrong quotes; None where it has none."""
    lines = chunk.named_lines()
    is_refused = [has_wrong_quote(fact, lines) for fact in answer["facts"]]
    refused = [fact for fact, wrong in zip(answer["facts"], is_refused, strict=True) if wrong][:MAX_FACTS]
    if not refused:
        return None
    names = [name for name, line in lines.items() if line.is_persons]
    cited = {names.index(str(fact["line"])) for fact in refused}
    near = {position + step for position in cited for step in range(-_NEIGHBOURS, _NEIGHBOURS + 1)}
    shown = [name for position, name in enumerate(names) if position in near]
    part = TranscriptChunk(tuple(lines[name] for name in shown))
    original_names = dict(zip(part.named_lines(), shown, strict=True))
    new_names = {original: new for new, original in original_names.items()}
    facts = tuple({**fact, "line": new_names[str(fact["line"])]} for fact in refused)
    kept = [fact for fact in answer["facts"] if not any(fact is other for other in refused)]
    others = {key: part for key, part in answer.items() if key != "facts"}
    return QuoteRepair(part, facts, tuple(kept), tuple(refused), original_names, others)


def _key(fact: Mapping[str, Any]) -> tuple[str, str, frozenset[str]]:
    """Return what tells which fact it is, when its quotes are mended."""
    return str(fact["subject"]).casefold(), str(fact["predicate"]).casefold(), content_words(str(fact["value"]))
