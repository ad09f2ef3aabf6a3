"""Writes an expression that finds any of many fixed words and compares as few of them as it can."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


def write_alternation(words: Iterable[str]) -> str:
    """Return an expression for the words in which common beginnings stand once; it matches the longest word."""
    tree: dict[str, Any] = {}
    for word in words:
        branch = tree
        for char in word:
            branch = branch.setdefault(char, {})
        branch[""] = {}
    return _write_branch(tree)


def _write_branch(branch: dict[str, Any]) -> str:
    parts = [re.escape(char) + _write_branch(rest) for char, rest in sorted(branch.items()) if char]
    if not parts:
        return ""
    joined = parts[0] if len(parts) == 1 and "" not in branch else f"(?:{'|'.join(parts)})"
    return f"{joined}?" if "" in branch else joined
