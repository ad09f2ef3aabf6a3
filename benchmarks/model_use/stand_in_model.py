"""A stand-in for a model: finds the same facts for whoever asks, in the format that the request asks for, and counts.

A fact is a sentence in the first person that is not a question. No real model is that simple, but the benchmark
compares only how often and how much a model is asked.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from consolidator.llm.tokens import count_tokens
from consolidator.testing import ScriptedReply

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_FIRST_PERSON = re.compile(r"\b(?:I|[Mm]y|[Ww]e|[Oo]ur|[Mm]e|[Uu]s)\b")
_MIN_WORDS, _MAX_WORDS = 4, 40  # of a sentence that is a fact
_PROMPT_LINE = re.compile(r'^((?:s\d+)?P\d+)(?: "(?:[^"\\]|\\.)*")?: ("(?:[^"\\]|\\.)*")', re.MULTILINE)
_MESSAGE = re.compile(r"^(user|assistant): (.*?)(?=^(?:user|assistant): |\Z)", re.MULTILINE | re.DOTALL)
_MEM0_NEW_MESSAGES = re.compile(r"^## New Messages\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_MEM0_NEW_FACTS = re.compile(r"mentioned in the triple backticks.*?```\s*(\[.*?\])\s*```", re.DOTALL)
_CANDIDATE = re.compile(r"^(c\d+) \{", re.MULTILINE)
_WORD = re.compile(r"\w+")
_SPEAKER = re.compile(r"^[A-Z]\w*: ")  # where both speakers are people, each turn begins with a name


@dataclass(slots=True)
class ModelUsage:
    """A stand-in model and the sum of the requests that it answered."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    facts: int = 0
    purposes: dict[str, int] = field(default_factory=dict)  # calls by purpose

    @property
    def tokens(self) -> int:
        """The tokens of requests and answers."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: ModelUsage) -> ModelUsage:
        """Return the sum of both."""
        purposes = {
            name: self.purposes.get(name, 0) + other.purposes.get(name, 0) for name in self.purposes | other.purposes
        }
        return ModelUsage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.facts + other.facts,
            purposes,
        )

    def __call__(self, request: dict[str, Any]) -> ScriptedReply:
        """Answer a request and count it."""
        purpose, value, fact_count = answer(request)
        text = json.dumps(value, ensure_ascii=False)
        self.calls += 1
        self.purposes[purpose] = self.purposes.get(purpose, 0) + 1
        self.facts += fact_count
        self.prompt_tokens += count_prompt_tokens(request)
        self.completion_tokens += count_tokens(text)
        return ScriptedReply(text=text)


def count_common_tokens(first: dict[str, Any], second: dict[str, Any]) -> int:
    """Count the tokens with which two requests begin alike, as a provider's cache sees them: schema, then messages."""
    return count_tokens(common_start(_prompt_text(first), _prompt_text(second)))


def common_start(first: str, second: str) -> str:
    """Return the characters with which two texts begin alike."""
    return "".join(char for char, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _prompt_text(request: dict[str, Any]) -> str:
    schema = (request.get("response_format") or {}).get("json_schema")
    return json.dumps(schema) + "".join(str(message["content"]) for message in request["messages"])


def count_prompt_tokens(request: dict[str, Any]) -> int:
    """Count the tokens of a request: its messages, and the schema of the answer if it has one."""
    schema = (request.get("response_format") or {}).get("json_schema")
    texts = [str(message["content"]) for message in request["messages"]]
    return sum(map(count_tokens, [*texts, json.dumps(schema, separators=(",", ":"))] if schema else texts))


def count_embedded_tokens(requests: Sequence[Sequence[str]]) -> int:
    """Count the tokens of texts that were embedded."""
    return sum(count_tokens(text) for texts in requests for text in texts)


def find_facts(text: str) -> list[str]:
    """Return the sentences that state something about their speaker."""
    facts = []
    for sentence in map(str.strip, _SENTENCE.findall(text)):
        fits = _MIN_WORDS <= len(sentence.split()) <= _MAX_WORDS and not sentence.endswith("?")
        if fits and _FIRST_PERSON.search(sentence) and sentence not in facts:
            facts.append(sentence)
    return facts


def answer(request: dict[str, Any]) -> tuple[str, dict[str, Any], int]:
    """Return the purpose of a request, the answer in the format that it asks for, and its number of facts."""
    last = str(request["messages"][-1]["content"])
    schema_name = ((request.get("response_format") or {}).get("json_schema") or {}).get("name")
    if schema_name == "facts":
        lines = [(alias, json.loads(text)) for alias, text in _PROMPT_LINE.findall(last)]
        extracted = [_extracted_fact(alias, sentence) for alias, text in lines for sentence in find_facts(text)]
        return "extract", {"facts": extracted}, len(extracted)
    if schema_name == "decisions":
        return schema_name, {"operations": [_add_operation(alias) for alias in _CANDIDATE.findall(last)]}, 0
    if match := _MEM0_NEW_MESSAGES.search(last):
        facts = _find_spoken_facts(match[1])
        memory = [{"id": str(n), "text": fact, "attributed_to": "user"} for n, fact in enumerate(facts)]
        return "add", {"memory": memory}, len(facts)
    if match := _MEM0_NEW_FACTS.search(last):
        facts = [str(fact) for fact in ast.literal_eval(match[1])]
        memory = [{"id": str(n), "text": fact, "event": "ADD"} for n, fact in enumerate(facts, 100)]
        return "update", {"memory": memory}, 0
    facts = _find_spoken_facts(last)
    return "find", {"facts": facts}, len(facts)


def _find_spoken_facts(transcript: str) -> list[str]:
    """Return the facts that people state in a transcript of `user: ...` and `assistant: ...`."""
    facts: list[str] = []
    for role, text in _MESSAGE.findall(transcript):
        speaker = _SPEAKER.match(text)
        if role == "user" or speaker:
            facts += find_facts(text[speaker.end() :] if speaker else text)
    return list(dict.fromkeys(facts))


def _add_operation(alias: str) -> dict[str, Any]:
    """Return the decision on a candidate that resembles a fact: it is added, as mem0 adds it."""
    return {"saying": alias, "operation": "add", "target": None, "reason": "It says something else."}


def _extracted_fact(alias: str, sentence: str) -> dict[str, Any]:
    """Return a fact in the format of our extraction; its predicate is the words after the first person."""
    words = _WORD.findall(_FIRST_PERSON.split(sentence, maxsplit=1)[-1].lower())
    return {
        "subject": "user",
        "predicate": "_".join(words[:2]) or "is",
        "value": sentence,
        "sentence": sentence,
        "kind": "profile",
        "single_valued": False,
        "valid_from": None,
        "valid_to": None,
        "about": "speaker",
        "line": alias,
        "quote": sentence,
    }
