"""A stand-in that answers with what a model once answered for a dialogue, mistakes included."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness import locomo
from benchmarks.model_use.transcript_lines import parse_shown_lines
from consolidator.memory.text import similarity
from consolidator.testing import ScriptedReply

_MIN_LIKENESS = 0.75  # of a refused quote to the words of its event, for them to be the ones that were meant
_TOKEN = re.compile(r"\S+")


class RecordedAnswers:
    """Answers a question about a transcript with the recorded facts that its lines prove."""

    def __init__(self, dialogue: Mapping[str, Any], answers: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self.texts = {
            str(turn["dia_id"]): str(turn["text"]).strip()
            for _, turns, _ in locomo.parse_sessions(dict(dialogue))
            for turn in turns
        }
        self.facts = [fact for facts in answers.values() for fact in facts]

    def __call__(self, request: dict[str, Any]) -> ScriptedReply:
        """Answer a question, or mend the quotes of an answer that was refused."""
        messages = request["messages"]
        lines = [line for line in parse_shown_lines(messages[1]["content"]) if line.citable]
        shown = {line.name: line.words for line in lines}
        if len(messages) > 2:
            return ScriptedReply.json(
                {"facts": [_mend(fact, shown) for fact in json.loads(messages[2]["content"])["facts"]]}
            )
        facts = []
        for fact in self.facts:
            stated = {key: value for key, value in fact.items() if key != "evidence"}
            cited = next(
                (
                    (line, cited["quote"])
                    for cited in fact["evidence"]
                    for line in lines
                    if line.words.startswith(self.texts.get(cited["dia_id"], "\0"))
                ),
                None,
            )
            if cited is not None:
                line, quote = cited
                about = "speaker" if str(fact["subject"]).casefold() == (line.detail or "").casefold() else "thing"
                facts.append({**stated, "about": about, "line": line.name, "quote": quote})
        return ScriptedReply.json({"facts": facts})


def _mend(fact: Mapping[str, Any], shown: Mapping[str, str]) -> dict[str, Any]:
    """Return a fact with its quote replaced by the words of its line that are most like it."""
    return {**fact, "quote": find_closest(fact["quote"], shown.get(fact["line"], ""))}


def find_closest(quote: str, text: str) -> str:
    """Return the words of a text that are most like a quote; the quote itself where none are like it."""
    tokens = list(_TOKEN.finditer(text))
    length = len(quote.split())
    best, likeness = quote, _MIN_LIKENESS
    for size in range(max(1, length - 2), length + 3):
        for start in range(len(tokens) - size + 1):
            window = text[tokens[start].start() : tokens[start + size - 1].end()]
            ratio = difflib.SequenceMatcher(None, quote.casefold(), window.casefold()).ratio()
            if ratio > likeness:
                best, likeness = window, ratio
    return best


def judge_saying(name: str, saying: Mapping[str, Any], statements: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the operation on a saying that its words suggest; a real model knows better what they mean."""
    operation, target = "add", None
    for option in saying["may_target"]:
        other = statements[option]
        same_value = similarity.content_words(saying["value"]) == similarity.content_words(other["value"])
        overlap = similarity.word_overlap(saying["says"], other["says"])
        if saying["subject"].casefold() != other["subject"].casefold():
            continue
        if same_value or (overlap >= similarity.SAME and similarity.details_agree(saying["says"], other["says"])):
            operation, target = "reinforce", option
            break
        if overlap >= similarity.SAME and similarity.lost_details(other["says"], saying["says"]) is None:
            operation, target = "refine", option
        elif saying["predicate"] == other["predicate"] and other.get("single_valued"):
            operation, target = "supersede", option
    return {"saying": name, "operation": operation, "target": target, "reason": "by its words"}
