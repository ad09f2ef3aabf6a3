"""Says what is wrong with a call's arguments: one sentence an argument, which tells what to type instead.

Pure: a tool's JSON schema and what pydantic found, never its own words, which name no value and end with an address.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

MAX_SHOWN = 40  # characters of a rejected value
MAX_ERRORS = 3  # arguments that a message is about


def describe_unknown_arguments(tool: str, arguments: Collection[str], schema: Mapping[str, Any]) -> str | None:
    """Return what to type instead of the arguments that a tool does not have; None where it has them all."""
    known = list(schema.get("properties", {}))
    unknown = [name for name in arguments if name not in known]
    if not unknown:
        return None
    similar = difflib.get_close_matches(unknown[0], known, n=1)
    instead = f"write {similar[0]}" if similar else f"its arguments are {', '.join(known)}"
    return f"{tool} has no argument {_shorten(unknown[0])}: {instead}"


def describe_invalid_arguments(
    tool: str, error: ValidationError, arguments: Mapping[str, Any], schema: Mapping[str, Any]
) -> str:
    """Return what a tool takes instead of each argument that pydantic rejected, or misses."""
    rejected = list(dict.fromkeys(str(detail["loc"][0]) for detail in error.errors() if detail["loc"]))
    sentences = [_describe_argument(name, arguments, schema) for name in rejected[:MAX_ERRORS]]
    return f"{tool}: {'; '.join(sentences)}"


def _describe_argument(name: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    expected = _describe_type(schema["properties"].get(name, {}))
    if name not in arguments:
        return f"{name} is missing: give {expected}"
    return f"{name} must be {expected}, not {_describe_value(arguments[name], expected)}"


def _describe_type(schema: Mapping[str, Any]) -> str:
    """Return what an argument takes, for people; of an optional one what it takes if it is there."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    schema = options[0] if options else schema
    kind = schema.get("type")
    if schema.get("format") == "date-time":
        return 'a time such as "2026-03-31T08:00:00Z"'
    if kind == "string":
        return "a text" + _bounds(schema, "minLength", "maxLength", " characters")
    if kind == "integer":
        return "a whole number" + _bounds(schema, "minimum", "maximum", "")
    if kind == "array":
        return "a list" + _bounds(schema, "minItems", "maxItems", " objects")
    return {"boolean": "true or false", "object": "an object"}.get(str(kind), "another value")


def _bounds(schema: Mapping[str, Any], least: str, most: str, unit: str) -> str:
    lower, upper = schema.get(least), schema.get(most)
    if upper is None:
        return f" of at least {lower:,}{unit}" if lower is not None else ""
    return f" of {lower:,} to {upper:,}{unit}" if lower is not None else f" of at most {upper:,}{unit}"


def _describe_value(value: Any, expected: str) -> str:
    """Return a rejected value; of one that is of the right kind only how large it is."""
    if isinstance(value, str) and expected.startswith("a text"):
        return f"{len(value):,}"
    if isinstance(value, list) and expected.startswith("a list"):
        wrong = [item for item in value if not isinstance(item, dict)]
        return f"with {_shorten(wrong[0])} in it" if wrong else f"{len(value):,}"
    return _shorten(value)


def _shorten(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else f'"{" ".join(value.split())}"'
    return text if len(text) <= MAX_SHOWN else f'{text[: MAX_SHOWN - 2]}…"'
