"""Stands in for a model in the benchmark of models: finds the same facts for whoever asks, in the asker's format.

A fact is a sentence that a person says in the first person and that asks nothing; no model is as plain, but what is
compared is how often and how much one is asked.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from consolidator.llm.tokens import count_tokens
from consolidator.testing import ScriptedReply

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_FIRST_PERSON = re.compile(r"\b(?:I|[Mm]y|[Ww]e|[Oo]ur|[Mm]e|[Uu]s)\b")
_FEWEST, _MOST = 4, 40  # words of a sentence that is a fact
_LINE = re.compile(r'^(e\d+) \[[^\]]*\] user(?: "(?:[^"\\]|\\.)*")?: ("(?:[^"\\]|\\.)*")$', re.MULTILINE)
_SAID = re.compile(r"^(user|assistant): (.*?)(?=^(?:user|assistant): |\Z)", re.MULTILINE | re.DOTALL)
_NEW = re.compile(r"^## New Messages\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_FOUND = re.compile(r"mentioned in the triple backticks.*?```\s*(\[.*?\])\s*```", re.DOTALL)
_SAYING = re.compile(r"^(c\d+) \{", re.MULTILINE)
_WORD = re.compile(r"\w+")
_NAMED = re.compile(r"^[A-Z]\w*: ")  # where both who speak are people, each turn begins with a name


@dataclass(slots=True)
class Asked:
    """What a server was asked and answered."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    facts: int = 0
    purposes: dict[str, int] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """The tokens of questions and answers."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Asked) -> Asked:
        """Return both together."""
        purposes = {
            name: self.purposes.get(name, 0) + other.purposes.get(name, 0) for name in self.purposes | other.purposes
        }
        return Asked(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.facts + other.facts,
            purposes,
        )

    def __call__(self, asked: dict[str, Any]) -> ScriptedReply:
        """Answer, and count."""
        purpose, value, facts = answer(asked)
        text = json.dumps(value, ensure_ascii=False)
        self.calls += 1
        self.purposes[purpose] = self.purposes.get(purpose, 0) + 1
        self.facts += facts
        self.prompt_tokens += prompt_tokens(asked)
        self.completion_tokens += count_tokens(text)
        return ScriptedReply(text=text)


def prompt_tokens(asked: dict[str, Any]) -> int:
    """Count the tokens of a question: its messages, and the schema of the answer where one is sent."""
    schema = (asked.get("response_format") or {}).get("json_schema")
    told = [str(message["content"]) for message in asked["messages"]]
    return sum(map(count_tokens, [*told, json.dumps(schema)] if schema else told))


def facts_in(text: str) -> list[str]:
    """Return the sentences that state something of the one who says them."""
    found = []
    for sentence in _SENTENCE.findall(text):
        said = sentence.strip()
        fits = _FEWEST <= len(said.split()) <= _MOST and not said.endswith("?")
        if fits and _FIRST_PERSON.search(said) and said not in found:
            found.append(said)
    return found


def answer(asked: dict[str, Any]) -> tuple[str, dict[str, Any], int]:
    """Return what a question is for, the answer in the form it asks for, and how many facts are in it."""
    last = str(asked["messages"][-1]["content"])
    name = ((asked.get("response_format") or {}).get("json_schema") or {}).get("name")
    if name == "facts":
        shown = [(alias, json.loads(words)) for alias, words in _LINE.findall(last)]
        facts = [_fact(alias, said) for alias, text in shown for said in facts_in(text)]
        return "extract", {"facts": facts}, len(facts)
    if name == "decisions":
        return name, {"operations": [_news(one) for one in _SAYING.findall(last)]}, 0
    if new := _NEW.search(last):
        said = _said(new[1])
        told = [{"id": str(n), "text": one, "attributed_to": "user"} for n, one in enumerate(said)]
        return "add", {"memory": told}, len(said)
    if found := _FOUND.search(last):
        known = [str(one) for one in ast.literal_eval(found[1])]
        return "update", {"memory": [{"id": str(n), "text": t, "event": "ADD"} for n, t in enumerate(known, 100)]}, 0
    said = _said(last)
    return "find", {"facts": said}, len(said)


def _said(transcript: str) -> list[str]:
    """Return the facts that people say in a transcript of `user: ...` and `assistant: ...`."""
    found: list[str] = []
    for role, text in _SAID.findall(transcript):
        named = _NAMED.match(text)
        if role == "user" or named:
            found += facts_in(text[named.end() :] if named else text)
    return list(dict.fromkeys(found))


def _news(saying: str) -> dict[str, Any]:
    """Return what becomes of a saying that resembles a fact: like mem0's, it is added."""
    return {"saying": saying, "operation": "add", "target": None, "reason": "It says something else."}


def _fact(alias: str, said: str) -> dict[str, Any]:
    """Return a fact as our extraction has it; its predicate is what follows the first person."""
    told = _WORD.findall(_FIRST_PERSON.split(said, maxsplit=1)[-1].lower())
    return {
        "subject": "user",
        "predicate": "_".join(told[:2]) or "is",
        "value": said,
        "sentence": said,
        "kind": "profile",
        "single_valued": False,
        "valid_from": None,
        "valid_to": None,
        "evidence": [{"event": alias, "quote": said}],
    }


def embedded_tokens(requests: Sequence[Sequence[str]]) -> int:
    """Count the tokens of texts that vectors were asked for."""
    return sum(count_tokens(text) for texts in requests for text in texts)
