"""Generates credentials from the regular expressions of a gitleaks configuration, to measure redaction against.

The rules are read at run time and never kept. RE2 differs from Python in classes such as [[:alnum:]], in \\z, and in
flags that begin in the middle of an expression.
"""

from __future__ import annotations

import random
import re
import string
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from consolidator.llm.redaction.values import shannon_entropy

ops: Any = import_module("re._constants")  # what the library parses expressions with, without declared types
regex_parser: Any = import_module("re._parser")

_POSIX_CLASSES = {
    "[:alnum:]": "a-zA-Z0-9",
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:xdigit:]": "0-9a-fA-F",
}
_PLAIN = string.ascii_letters + string.digits
_MAX_MORE = 16  # repetitions beyond the least that an expression asks for
_TRIES = 400  # texts generated for one rule
_MIN_VALUE_CHARS = 8
FIXED_FORM = "fixed form"  # the value by itself
PLACE = "by its place"  # what stands around it
SERVICE = "by its service"  # only the name of a service beside it
_LEAST_LITERAL = 3  # characters that a value of a fixed form always has in a row
# What gitleaks writes between a service's name and a value that has no form of its own.
_NAMED_CONTEXT = r"(?:[ \t\w.-]{0,20})"


@dataclass(frozen=True, slots=True)
class CredentialSample:
    """A credential as a rule describes it."""

    rule: str
    text: str  # all that the rule matches
    value: str  # the credential in it
    form: str  # what tells it: FIXED_FORM, PLACE or SERVICE


@dataclass(slots=True)
class _TextGenerator:
    """Writes texts that an expression matches."""

    random: random.Random
    groups: dict[int, str] = field(default_factory=dict)

    def generate(self, tree: Any) -> str:
        return "".join(self._generate_item(op, argument) for op, argument in tree)

    def _generate_item(self, op: Any, argument: Any) -> str:
        if op is ops.LITERAL:
            return chr(argument)
        if op is ops.NOT_LITERAL:
            return self.random.choice(_PLAIN)
        if op is ops.ANY:
            return "."  # a dot in a host's name that a rule's author left as it is
        if op is ops.IN:
            return self.random.choice(_list_characters(argument))
        if op is ops.BRANCH:
            return self.generate(self.random.choice(argument[1]))
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            least, most, repeated = argument
            count = least if op is ops.MIN_REPEAT else self.random.randint(least, min(int(most), least + _MAX_MORE))
            if repeated[0][0] is ops.ANY:
                return "".join(self.random.choices(_PLAIN, k=count))
            return "".join(self.generate(repeated) for _ in range(count))
        if op is ops.SUBPATTERN:
            text = self.generate(argument[3])
            if argument[0] is not None:
                self.groups[argument[0]] = text
            return text
        if op is ops.GROUPREF:
            return self.groups[argument]
        return ""  # positions and assertions


def _list_characters(items: Sequence[tuple[Any, Any]]) -> str:
    if items[0][0] is ops.NEGATE or (ops.CATEGORY, ops.CATEGORY_NOT_SPACE) in items:
        return _PLAIN
    characters = ""
    for op, argument in items:
        if op is ops.LITERAL:
            characters += chr(argument)
        elif op is ops.RANGE:
            characters += "".join(map(chr, range(argument[0], argument[1] + 1)))
        elif argument is ops.CATEGORY_SPACE:
            characters += " "
        elif argument is ops.CATEGORY_DIGIT:
            characters += string.digits
        else:
            characters += _PLAIN + ("_" if argument is ops.CATEGORY_WORD else "")
    return characters


def translate_re2(pattern: str) -> str:
    """Return an expression of Go's RE2 as Python writes it."""
    for name, characters in _POSIX_CLASSES.items():
        pattern = pattern.replace(name, characters)
    pattern = pattern.replace(r"\z", r"\Z")
    start = pattern.find("(?i)", 1)
    while start >= 0:
        end = _find_group_end(pattern, start + 4)
        pattern = f"{pattern[:start]}(?i:{pattern[start + 4 : end]}){pattern[end:]}"
        start = pattern.find("(?i)", start + 1)
    return pattern


def _find_group_end(pattern: str, position: int) -> int:
    """Return where the group around a position ends, or the expression."""
    depth = 0
    is_in_class = False
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            position += 1
        elif is_in_class:
            is_in_class = char != "]"
        elif char == "[":
            is_in_class = True
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                return position
        position += 1
    return position


def generate_samples(configuration: Path, per_rule: int) -> Iterator[CredentialSample]:
    """Yield samples of every rule that describes texts, the same in every run."""
    for rule in tomllib.loads(configuration.read_text(encoding="utf-8"))["rules"]:
        if "regex" in rule:
            yield from _generate_rule_samples(rule, per_rule)


def _generate_rule_samples(rule: dict[str, Any], per_rule: int) -> Iterator[CredentialSample]:
    translated = translate_re2(rule["regex"])
    pattern = re.compile(translated)
    tree = regex_parser.parse(translated)
    generator = random.Random(rule["id"])
    count = 0
    for _ in range(_TRIES):
        if count == per_rule:
            return
        text = _TextGenerator(generator).generate(tree)
        match = pattern.search(text)
        if match is None:
            continue
        group = rule.get("secretGroup") or next((n for n, part in enumerate(match.groups(), 1) if part), 0)
        value = match.group(group).strip("\"'")
        if len(value) < _MIN_VALUE_CHARS or shannon_entropy(value) < rule.get("entropy", 0):
            continue
        count += 1
        literal = _count_literals(_find_group(tree, group))
        form = FIXED_FORM if literal >= _LEAST_LITERAL else SERVICE if _NAMED_CONTEXT in rule["regex"] else PLACE
        yield CredentialSample(rule["id"], text, value, form)


def _find_group(tree: Any, number: int) -> Any:
    """Return the expression in a group; the whole one for 0."""
    if number == 0:
        return tree
    for op, argument in tree:
        inner = [argument[3]] if op is ops.SUBPATTERN else argument[1] if op is ops.BRANCH else []
        inner = [argument[2]] if op in (ops.MAX_REPEAT, ops.MIN_REPEAT) else inner
        if op is ops.SUBPATTERN and argument[0] == number:
            return argument[3]
        for subtree in inner:
            found = _find_group(subtree, number)
            if found is not None:
                return found
    return None


def _count_literals(tree: Any) -> int:
    """Return the longest row of fixed characters in every text of an expression."""
    longest = row = 0
    for op, argument in tree:
        row = row + 1 if op is ops.LITERAL else 0
        inner = 0
        if op is ops.SUBPATTERN:
            inner = _count_literals(argument[3])
        elif op is ops.BRANCH:
            inner = min(map(_count_literals, argument[1]))
        elif op in (ops.MAX_REPEAT, ops.MIN_REPEAT) and argument[0] > 0:
            inner = _count_literals(argument[2])
        longest = max(longest, row, inner)
    return longest
