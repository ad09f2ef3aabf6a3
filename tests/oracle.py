"""A model for tests: it reads the lines it is shown, and answers with the facts of those that it has a pattern for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply

_LINE = re.compile(r'^(e\d+) \[[^\]]*\] (\w+)(?: "(?:[^"\\]|\\.)*")?: ("(?:[^"\\]|\\.)*")$', re.MULTILINE)
_TOLD = re.compile(r"^([cf]\d+) (\{.*\})$", re.MULTILINE)
PATTERNS = {
    r"(\w+) is my fuel": ("fuel", "{0}", "The user's fuel is {0}.", "preference"),
    r"(\w+) is where my desk stands": ("lives_in", "{0}", "The user lives in {0}.", "profile"),
    r"The staging server is (\S+\w)": ("staging_server", "{0}", "The staging server is {0}.", "environment"),
    r"(\w+) is where staging lives": ("staging_server", "{0}", "Staging lives on {0}.", "environment"),
    r"postgres version: (\S+\w)": ("postgres_version", "{0}", "PostgreSQL is {0}.", "environment"),
}


def lines(asked: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, who and words of the lines that a question shows."""
    return [(name, who, json.loads(words)) for name, who, words in _LINE.findall(asked["messages"][1]["content"])]


def fact(event: str, quote: str, predicate: str, value: str, sentence: str, kind: str, **more: Any) -> dict[str, Any]:
    """Return a fact as an answer holds it."""
    told = {"subject": "user", "predicate": predicate, "value": value, "sentence": sentence, "kind": kind}
    evidence = [{"event": event, "quote": quote}]
    return {**told, "single_valued": True, "valid_from": None, "valid_to": None, "evidence": evidence, **more}


def schema_of(asked: dict[str, Any]) -> str:
    """Return what kind of answer a question wants."""
    return str(asked.get("response_format", {}).get("json_schema", {}).get("name", "facts"))


def shown(asked: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the facts and the sayings of a question about duplicates, by name."""
    return {name: json.loads(told) for name, told in _TOLD.findall(asked["messages"][1]["content"])}


def sayings(asked: dict[str, Any]) -> list[str]:
    """Return the names of the sayings that want an operation."""
    return [name for name in shown(asked) if name.startswith("c")]


def decided(name: str, told: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the operation for a saying: its value decides, then its predicate."""
    one = told[name]
    operation, target = "add", None
    for other in one["may_target"]:
        if told[other]["value"].casefold() == one["value"].casefold():
            operation, target = "reinforce", other
            break
        if told[other]["predicate"] == one["predicate"]:
            operation, target = "supersede", other
    return {"saying": name, "operation": operation, "target": target, "reason": "by its value"}


def oracle(asked: dict[str, Any]) -> ScriptedReply:
    """Answer with what the lines state."""
    if schema_of(asked) == "decisions":
        return ScriptedReply.json({"operations": [decided(one, shown(asked)) for one in sayings(asked)]})
    found = []
    for name, who, words in lines(asked):
        for pattern, (predicate, value, sentence, kind) in PATTERNS.items():
            for match in re.finditer(pattern, words) if who != "agent" else ():
                one, two, three = (part.format(*match.groups()) for part in (predicate, value, sentence))
                found.append(fact(name, match[0], one, two, three, kind))
    return ScriptedReply.json({"facts": found})


def configured(settings: Settings, server: ModelServer, **more: Any) -> Settings:
    """Return settings that ask this server."""
    told = {"model": "gpt-4o-mini", "openai_base_url": server.url, "model_timeout_seconds": 20, **more}
    return settings.model_copy(update=told)


def unless(broken: Callable[[dict[str, Any]], ScriptedReply | None]) -> Callable[[dict[str, Any]], ScriptedReply]:
    """Return an oracle that answers otherwise where `broken` says how."""
    return lambda asked: broken(asked) or oracle(asked)
