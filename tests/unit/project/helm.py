"""Renders the chart in deploy/helm by the part of Helm's templates that it uses: values, quote, eq, if, else, range."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.unit.project.deploy import DEPLOY

CHART = DEPLOY / "helm/consolidator"
_TAG = re.compile(r"(\s*)\{\{(-?) (.*?) \}\}")


def render_chart(**values: Any) -> list[dict[str, Any]]:
    """Return the objects of the chart, with some values set by their dotted names, such as logs__claim."""
    merged = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, value in values.items():
        *folders, last = name.split("__")
        place = merged
        for folder in folders:
            place = place[folder]
        assert last in place, name
        place[last] = value
    scope = {"$": {"Release": {"Name": "memory"}, "Values": merged}}
    texts = [_render(_tokens(path.read_text()), scope) for path in sorted((CHART / "templates").glob("*.yaml"))]
    return [manifest for text in texts for manifest in yaml.safe_load_all(text) if manifest is not None]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield texts and tags in turn; a dash in a tag takes the space before it away."""
    end = 0
    for match in _TAG.finditer(text):
        yield "text", text[end : match.start()] + ("" if match[2] else match[1])
        yield "tag", match[3]
        end = match.end()
    yield "text", text[end:]


def _render(tokens: Iterator[tuple[str, str]], scope: dict[str, Any]) -> str:
    text, end = _render_block(list(tokens), 0, scope)
    assert end is None, "an end without a beginning"
    return text


def _render_block(tokens: list[tuple[str, str]], start: int, scope: dict[str, Any]) -> tuple[str, int | None]:
    """Return the text of a block, and where its else or end stands; None at the end of the file."""
    parts, number = [], start
    while number < len(tokens):
        kind, content = tokens[number]
        word = content.partition(" ")[0]
        if kind == "text":
            parts.append(content)
        elif word in ("else", "end"):
            return "".join(parts), number
        elif word == "if":
            is_true = bool(_evaluate(content[3:], scope))
            text, end = _render_block(tokens, number + 1, scope)
            assert end is not None
            if tokens[end][1] == "else":
                other, last = _render_block(tokens, end + 1, scope)
                assert last is not None
                text, end = text if is_true else other, last
            elif not is_true:
                text = ""
            parts.append(text)
            number = end
        elif word == "range":
            (key, value), source = re.findall(r"\$(\w+)", content)[:2], content.split(":= ")[1]
            end = None
            for name, item in sorted(_evaluate(source, scope).items()):  # as Helm sorts a map
                text, end = _render_block(tokens, number + 1, {**scope, f"${key}": name, f"${value}": item})
                parts.append(text)
            assert end is not None
            number = end
        else:
            parts.append(str(_evaluate(content, scope)))
        number += 1
    return "".join(parts), None


def _evaluate(expression: str, scope: dict[str, Any]) -> Any:
    expression, pipe, function = expression.partition(" | ")
    assert not pipe or function == "quote", function
    if expression.startswith("eq "):
        _, name, literal = expression.split(" ")
        return _evaluate(name, scope) == json.loads(literal)
    root, *fields = expression.split(".")
    value = scope[root or "$"]
    for field in fields:
        value = value[field]
    return json.dumps(str(value)) if pipe else value
