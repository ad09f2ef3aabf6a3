"""Checks a model's answer against what was asked for, by the few words of JSON Schema that our own questions use.

Schemas of other people's tools are checked by jsonschema, which the extra `mcp` brings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_WORDS = {"type", "enum", "minLength", "items", "properties", "required", "additionalProperties"}


def list_violations(value: Any, schema: Mapping[str, Any], path: str = "$") -> Iterator[tuple[str, str]]:
    """Yield where a value does not fit a schema, and what is wrong there. Raises ValueError for words not in use."""
    if unknown := schema.keys() - _WORDS:
        raise ValueError(f"no question of ours says {', '.join(sorted(unknown))}")
    types = schema.get("type", [*_TYPES])
    types = [types] if isinstance(types, str) else types
    if type(value) not in [_TYPES[name] for name in types]:
        yield path, f"{value!r} is not of type {' or '.join(map(repr, types))}"
        return
    if value not in schema.get("enum", [value]):
        yield path, f"{value!r} is not one of {schema['enum']!r}"
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        yield path, f"{value!r} is too short"
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from list_violations(item, schema.get("items", {}), f"{path}[{position}]")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                yield path, f"{name!r} is a required property"
        for name, member in value.items():
            if name in properties:
                yield from list_violations(member, properties[name], f"{path}.{name}")
            elif schema.get("additionalProperties") is False:
                yield path, f"{name!r} was unexpected"
