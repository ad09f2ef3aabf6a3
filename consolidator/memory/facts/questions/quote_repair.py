"""Asks a model once more for what was refused only because a quote is not in the line that it names.

The second question shows only the lines that these facts and observations cite, and their neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from consolidator.memory.facts.questions.model_extraction import has_wrong_quote
from consolidator.memory.facts.questions.transcript import TranscriptChunk
from consolidator.memory.text.similarity import content_words

MAX_REPAIRED = 12  # facts or observations that are asked for once more, of one chunk
MAX_SHOWN_QUOTE = 200  # characters of a refused quote that are repeated
_NEIGHBOURS = 1  # lines before and after each cited one, in case it is named wrongly
_WORDS = {"facts": ("subject", "predicate", "value"), "observations": ("kind", "moment", "sentence")}  # that tell which


@dataclass(frozen=True, slots=True)
class QuoteRepair:
    """What of an answer was refused, and the lines to quote from, under names of their own."""

    chunk: TranscriptChunk
    wrong_items: Mapping[str, tuple[dict[str, Any], ...]]  # as the answer has them, with the new names of their lines
    original_names: Mapping[str, str]  # of lines, by new name
    answer: Mapping[str, Any]  # the first

    def turns(self) -> tuple[tuple[str, str], ...]:
        """Return the answer that was refused, and why, as turns of the conversation after the events."""
        complaints = [
            f"{item['line']} does not hold {json.dumps(str(item['quote'])[:MAX_SHOWN_QUOTE], ensure_ascii=False)}"
            for items in self.wrong_items.values()
            for item in items
        ]
        request = (
            "These quotes are not in the lines that they name:\n"
            + "\n".join(f"- {complaint}" for complaint in dict.fromkeys(complaints))
            + f"\nAnswer once more with these {' and '.join(self.wrong_items)} alone, their quotes copied from the "
            "lines above word by word and letter by letter, as short as proves each. "
            "Leave out what no line above proves."
        )
        return ("assistant", json.dumps({"facts": [], **self.wrong_items}, ensure_ascii=False)), ("user", request)

    def merge(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return the first answer with those refused quotes replaced that the second answer gives rightly."""
        lines = self.chunk.named_lines()
        merged = dict(self.answer)
        for part, items in self.wrong_items.items():
            mended: dict[object, dict[str, Any]] = {}
            for item in answer.get(part, ()):
                if str(item["line"]) in lines and not has_wrong_quote(item, lines, part):
                    place = {"line": self.original_names[str(item["line"])], "quote": item["quote"]}
                    mended.setdefault(_key(part, item), place)
            refused = {(self.original_names[str(item["line"])], item["quote"]) for item in items}
            merged[part] = [
                {**item, **mended.get(_key(part, item), {})} if (str(item["line"]), item["quote"]) in refused else item
                for item in self.answer[part]
            ]
        return merged


def plan_repair(chunk: TranscriptChunk, answer: Mapping[str, Any]) -> QuoteRepair | None:
    """Return the question to ask about an answer's wrong quotes; None where it has none."""
    lines = chunk.named_lines()
    refused = {
        part: [item for item in answer.get(part, ()) if has_wrong_quote(item, lines, part)][:MAX_REPAIRED]
        for part in _WORDS
    }
    refused = {part: items for part, items in refused.items() if items}
    if not refused:
        return None
    shown: set[str] = set()
    for part, items in refused.items():
        names = [name for name, line in lines.items() if line.is_persons or part != "facts"]
        cited = {names.index(str(item["line"])) for item in items}
        near = {position + step for position in cited for step in range(-_NEIGHBOURS, _NEIGHBOURS + 1)}
        shown |= {name for position, name in enumerate(names) if position in near}
    part_names = [name for name in lines if name in shown]
    asked_chunk = TranscriptChunk(tuple(lines[name] for name in part_names))
    original_names = dict(zip(asked_chunk.named_lines(), part_names, strict=True))
    new_names = {original: new for new, original in original_names.items()}
    wrong_items = {
        part: tuple({**item, "line": new_names[str(item["line"])]} for item in items) for part, items in refused.items()
    }
    return QuoteRepair(asked_chunk, wrong_items, original_names, answer)


def _key(part: str, item: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what tells which fact or observation it is, when its quote is mended."""
    *names, words = (str(item.get(name, "")) for name in _WORDS[part])
    return *(name.casefold() for name in names), content_words(words)
