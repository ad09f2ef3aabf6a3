"""Judges a value by itself: whether it is random enough to be a credential, or a placeholder for one."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

from detect_secrets.filters.heuristic import is_sequential_string, is_templated_secret

_PLACEHOLDER = re.compile(
    r"(?i)x{4,}|\*{2,}|•{2,}|\.{3,}|…|\byour\b|your[_-]|[_-]here\b|example|placeholder|changeme|change[_-]me|dummy|redacted|"
    r"insert[_-]|replace[_-]?me|hidden|masked|<[^>]*>|\$\{|\{\{|%\(|%[A-Z_]+%|\$\(|\$[A-Za-z_]|\{[a-z_.]+\}|^\{|"
    r"^(?:null|none|nil|true|false|undefined|empty|string|unset|todo|n/?a|test|secret|password|token|required|optional)$"
)
_UUID = re.compile(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_WORDS = re.compile(r"[A-Z]?[a-z]{4,}|[A-Z]{5,}")

_TANGLED_CHARS = re.compile(r"[A-Za-z0-9!@#$%^&*+=?~]{8,64}\Z")
_RUNS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def is_placeholder(value: str) -> bool:
    """Tell whether a value is a placeholder for a credential: masked, templated, a keyword, or an obvious example."""
    return (
        not value
        or _PLACEHOLDER.search(value) is not None
        or is_templated_secret(value)
        or is_sequential_string(value)
        or len(set(value)) <= 3
    )


def shannon_entropy(value: str) -> float:
    """Return the Shannon entropy of a value, in bits per character."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values()) if size else 0.0


def looks_random(value: str) -> bool:
    """Tell whether a value mixes letters and digits as no word, name, path or version does."""
    core = value.strip("=")
    if len(core) < 12 or is_placeholder(value) or _UUID.match(core):
        return False
    digits = sum(char.isdigit() for char in core)
    letters = sum(char.isalpha() for char in core)
    if not letters or (digits < 2 and not _mixed_case(core)):
        return False
    in_words = sum(len(word) for word in _WORDS.findall(core))
    return shannon_entropy(core) >= min(3.0, math.log2(len(core)) * 0.8) and in_words <= len(core) * 0.6


def is_tangled(value: str) -> bool:
    """Tell whether letters and digits alternate too often for a word; evidence enough only beside a telling name."""
    if not _TANGLED_CHARS.match(value):
        return False
    runs = _RUNS.findall(value)
    return len(runs) >= 4 and sum(map(len, runs)) <= 3 * len(runs) and shannon_entropy(value) >= 2.5


def _mixed_case(value: str) -> bool:
    """Tell whether upper and lower case change as often as in base64, not as in camelCase."""
    changes = sum(left.islower() and right.isupper() for left, right in pairwise(value))
    return len(value) >= 20 and changes >= len(value) / 6
