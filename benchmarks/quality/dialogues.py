"""Dialogues in the LoCoMo format: their questions, and stand-ins for a model that extracts facts from them.

A stand-in answers from what annotators observed, or from what a model once answered about the same dialogue.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import locomo
from consolidator.testing import ScriptedReply

OBSERVED = "observed"
KINDS = {4: "single-hop", 1: "multi-hop", 2: "temporal", 3: "open"}  # of questions, by their category
_NEVER_SAID = 5  # the category of questions about what was never said
_TURN = re.compile(r"D(\d+):(\d+)")
_PROMPT_LINE = re.compile(r'^((?:s\d+)?[PA]\d+)(?: ("(?:[^"\\]|\\.)*"))?: ("(?:[^"\\]|\\.)*")$', re.MULTILINE)
Answers = Callable[[dict[str, Any]], ScriptedReply]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its answer, and the turns that answer it."""

    text: str
    answer: str
    evidence: frozenset[str]
    category: int

    @property
    def kind(self) -> str:
        """What kind of question it is."""
        return KINDS.get(self.category, "other")


class Observation(NamedTuple):
    """A fact that annotators observed about a speaker, and the turns that prove it."""

    speaker: str
    fact: str
    turns: list[str]


def parse_questions(record: Mapping[str, Any]) -> list[Question]:
    """Return a dialogue's questions, except those without evidence and those about what was never said."""
    questions = []
    for entry in record.get("qa", []):
        evidence = frozenset(parse_turns(entry.get("evidence")))
        if evidence and entry.get("category") != _NEVER_SAID:
            answer = str(entry.get("answer", ""))
            questions.append(Question(str(entry["question"]), answer, evidence, entry.get("category", 0)))
    return questions


def parse_turns(value: Any) -> list[str]:
    """Return the turns that a text or a list names, in canonical form."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    return [f"D{int(session)}:{int(turn)}" for session, turn in _TURN.findall(text)]


def parse_observations(record: Mapping[str, Any]) -> list[Observation]:
    """Return a dialogue's observations; they stand at the top level or below `observation`."""
    nested = record.get("observation")
    observations = []
    for name, by_speaker in {**record, **(nested if isinstance(nested, dict) else {})}.items():
        if re.fullmatch(r"session_\d+_observation", name) and isinstance(by_speaker, dict):
            for speaker, entries in by_speaker.items():
                observations += [
                    Observation(speaker, str(entry[0]), parse_turns(entry[1])) for entry in entries if len(entry) > 1
                ]
    return observations


def observed_facts(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the annotators observed as a model would answer it, with the turns' names in place of events."""
    texts = _turn_texts(record)
    return [
        {
            "subject": observation.speaker,
            "predicate": OBSERVED,
            "value": observation.fact,
            "sentence": observation.fact,
            "kind": "profile",
            "single_valued": False,
            "valid_from": None,
            "valid_to": None,
            "evidence": [{"dia_id": turn, "quote": texts[turn][:200]} for turn in observation.turns if texts.get(turn)],
        }
        for observation in parse_observations(record)
    ]


def find_recorded_facts(path: Path) -> list[dict[str, Any]] | None:
    """Return what a model answered about the dialogue in a file, from `NAME.answers.json` beside it; None without."""
    recorded = path.with_suffix(".answers.json")
    if not recorded.exists():
        return None
    by_session = json.loads(recorded.read_text("utf-8"))
    return [fact for facts in by_session.values() for fact in facts]


def create_stand_in(record: Mapping[str, Any], facts: Sequence[Mapping[str, Any]]) -> Answers:
    """Return the answers of a model that finds these facts in the lines of its prompt."""
    texts = _turn_texts(record)

    def answer(request: dict[str, Any]) -> ScriptedReply:
        if request.get("response_format", {}).get("json_schema", {}).get("name", "facts") != "facts":
            return ScriptedReply.json({"operations": []})
        prompt = request["messages"][1]["content"]
        lines = {
            _fold(json.loads(text)): (name, json.loads(speaker or '""'))
            for name, speaker, text in _PROMPT_LINE.findall(prompt)
        }
        answered = (_cite_lines(fact, texts, lines) for fact in facts)
        return ScriptedReply.json({"facts": [fact for fact in answered if fact is not None]})

    return answer


def _cite_lines(
    fact: Mapping[str, Any], texts: Mapping[str, str], lines: Mapping[str, tuple[str, str]]
) -> dict[str, Any] | None:
    """Return a fact with a line of the prompt that proves it; None if no turn that proves it is in the prompt."""
    stated = {name: value for name, value in fact.items() if name != "evidence"}
    for proof in fact["evidence"]:
        name, speaker = lines.get(_fold(texts.get(proof["dia_id"], "")), (None, ""))
        if name is not None:
            about = "speaker" if speaker == fact["subject"] else "other"
            return {"about": about, "line": name, "quote": proof["quote"], **stated}
    return None


def _turn_texts(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of a dialogue's turns by their names, as they are imported."""
    turns = (turn for _, turns, _ in locomo.parse_sessions(dict(record)) for turn in turns)
    return {name: turn["text"].strip() for turn in turns for name in parse_turns(turn["dia_id"])}


def _fold(text: str) -> str:
    return " ".join(text.split())
