"""A stand-in model for tests: it answers with the facts of the transcript lines that match its patterns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply

_LINE = re.compile(r'^((?:s\d+)?([PASFEC])\d+)(?: "(?:[^"\\]|\\.)*")?: ("(?:[^"\\]|\\.)*")(?: -> ".*")?$', re.MULTILINE)
_SPEAKERS = {"P": "user", "A": "agent", "S": "agent", "F": "tool", "E": "tool", "C": "tool"}
_STATEMENT = re.compile(r"^([cf]\d+) (\{.*\})$", re.MULTILINE)
PATTERNS = {
    r"(\w+) is my fuel": ("fuel", "{0}", "The user's fuel is {0}.", "preference"),
    r"(\w+) is where my desk stands": ("lives_in", "{0}", "The user lives in {0}.", "profile"),
    r"The staging server is (\S+\w)": ("staging_server", "{0}", "The staging server is {0}.", "environment"),
    r"(\w+) is where staging lives": ("staging_server", "{0}", "Staging lives on {0}.", "environment"),
}
SUBJECTS = {"staging_server": "staging server"}  # "user" for any other predicate


def parse_lines(request: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (name, speaker, text) of the transcript lines that a request shows."""
    content = request["messages"][1]["content"]
    return [(name, _SPEAKERS[kind], json.loads(text)) for name, kind, text in _LINE.findall(content)]


def fact_json(
    line: str, quote: str, predicate: str, value: str, sentence: str, kind: str, **more: Any
) -> dict[str, Any]:
    """Return a fact as an answer has it."""
    about = "thing" if more.get("subject", "user") != "user" else "speaker"
    stated = {"about": about, "line": line, "quote": quote, "subject": "user", "predicate": predicate, "value": value}
    dates = {"single_valued": True, "valid_from": None, "valid_to": None}
    return {**stated, "sentence": sentence, "kind": kind, **dates, **more}


def schema_name(request: dict[str, Any]) -> str:
    """Return the name of the schema that a request wants: "facts" or "decisions"."""
    return str(request.get("response_format", {}).get("json_schema", {}).get("name", "facts"))


def parse_statements(request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the facts (f1, ...) and candidates (c1, ...) that a comparison shows, by name."""
    content = request["messages"][1]["content"]
    return {name: json.loads(statement) for name, statement in _STATEMENT.findall(content)}


def candidate_names(request: dict[str, Any]) -> list[str]:
    """Return the names of the candidates that need an operation."""
    return [name for name in parse_statements(request) if name.startswith("c")]


def decide_by_value(name: str, statements: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the operation for a candidate: its value decides, then its predicate."""
    candidate = statements[name]
    operation, target = "add", None
    for other in candidate["may_target"]:
        if statements[other]["value"].casefold() == candidate["value"].casefold():
            operation, target = "reinforce", other
            break
        if statements[other]["predicate"] == candidate["predicate"]:
            operation, target = "supersede", other
    return {"saying": name, "operation": operation, "target": target, "reason": "by its value"}


def decide_all(request: dict[str, Any]) -> ScriptedReply:
    """Answer a comparison: the value of each candidate decides."""
    statements = parse_statements(request)
    return ScriptedReply.json({"operations": [decide_by_value(name, statements) for name in candidate_names(request)]})


def oracle(request: dict[str, Any]) -> ScriptedReply:
    """Answer with the facts that the lines state."""
    if schema_name(request) == "decisions":
        return decide_all(request)
    facts = []
    for name, speaker, text in parse_lines(request):
        for pattern, templates in PATTERNS.items():
            for match in re.finditer(pattern, text) if speaker == "user" else ():
                predicate, value, sentence, kind = (template.format(*match.groups()) for template in templates)
                subject = SUBJECTS.get(predicate, "user")
                facts.append(fact_json(name, match[0], predicate, value, sentence, kind, subject=subject))
    return ScriptedReply.json({"facts": facts})


def with_model(settings: Settings, server: ModelServer, **more: Any) -> Settings:
    """Return settings with a model of this server."""
    update = {"model": "gpt-4o-mini", "openai_base_url": server.url, "model_timeout_seconds": 20, **more}
    return settings.model_copy(update=update)


def oracle_except(
    broken: Callable[[dict[str, Any]], ScriptedReply | None],
) -> Callable[[dict[str, Any]], ScriptedReply]:
    """Return an oracle that answers what `broken` returns, unless that is None."""
    return lambda request: broken(request) or oracle(request)
