"""How deeply the objects and lists of a value are nested; needs neither the log nor the database."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 100  # levels of a call's arguments, and of a tool's result


def nesting_depth(value: Any, limit: int = MAX_DEPTH) -> int:
    """Return how many levels of objects and lists a value has; at most `limit` + 1 are counted."""
    depth, level = 0, [value]
    while level and depth <= limit:
        level = [
            item
            for container in level
            if isinstance(container, (dict, list))
            for item in (container.values() if isinstance(container, dict) else container)
        ]
        depth += 1 if level else 0
    return depth
