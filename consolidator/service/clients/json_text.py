"""Changes members of a JSON text and keeps every other character, comments and trailing commas included.

Pure. A text is scanned into nodes that know where they stand; a change is made in the text, and scanned again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from consolidator.errors import UsageError

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SCALAR = re.compile(r"-?[0-9][-+.eE0-9]*|true|false|null")
_COMMA = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*,", re.DOTALL)
_MAX_DEPTH = 100
Key = str | int


@dataclass(slots=True)
class Node:
    """A value, where it stands, and what is in it: (key or position, where its name begins, value)."""

    start: int
    end: int = 0
    value: Any = None  # of a string, number, true, false or null
    kind: str = "scalar"  # object | array | scalar
    children: list[tuple[Key, int, Node]] = field(default_factory=list)

    def get(self, key: Key) -> Node | None:
        """Return the child of a name or position; of a repeated name the last, which counts."""
        return next((child for name, _, child in reversed(self.children) if name == key), None)

    def to_json(self) -> Any:
        """Return the value."""
        if self.kind == "object":
            return {str(name): child.to_json() for name, _, child in self.children}
        return [child.to_json() for _, _, child in self.children] if self.kind == "array" else self.value


def parse(text: str) -> Node:
    """Scan a JSON text, with comments or without; raise UsageError where it is none."""
    scanner = _Scanner(text)
    root = scanner.scan(_skip(text, 1 if text.startswith("\ufeff") else 0), 0)
    if _skip(text, root.end) != len(text):
        raise scanner.fail(root.end)
    return root


def find(text: str, path: Sequence[Key]) -> Node | None:
    """Return what stands at a path; None where nothing does."""
    node: Node | None = parse(text)
    for key in path:
        node = None if node is None else node.get(key)
    return node


def put(text: str, path: Sequence[Key], value: Any) -> str:
    """Return the text with a value at a path of names; what is missing of the path is made."""
    for depth in range(len(path)):
        parent = find(text, path[:depth])
        if parent is None or parent.kind != "object":
            where = ".".join(map(str, path[:depth])) or "the file"
            raise UsageError(f"{where} is no JSON object there: it cannot take {path[depth]!r}")
        child = parent.get(path[depth])
        if child is None:
            for key in reversed(path[depth + 1 :]):
                value = {key: value}
            return _insert(text, parent, f"{json.dumps(path[depth])}: ", value)
    node = find(text, path)
    assert node is not None
    return text[: node.start] + _dump(value, text, _line_indent(text, node.start)) + text[node.end :]


def append(text: str, path: Sequence[Key], value: Any) -> str:
    """Return the text with a value at the end of the array at a path, which is made if it is missing."""
    array = find(text, path)
    if array is None:
        return put(text, path, [value])
    if array.kind != "array":
        raise UsageError(f"{'.'.join(map(str, path))} is no JSON array there")
    return _insert(text, array, "", value)


def remove(text: str, path: Sequence[Key]) -> str:
    """Return the text without what stands at a path, and without the comma that came with it."""
    parent = find(text, path[:-1])
    index = None if parent is None else next((n for n, c in enumerate(parent.children) if c[0] == path[-1]), None)
    if parent is None or index is None:
        return text
    _, start, node = parent.children[index]
    if len(parent.children) == 1:
        inner = text[parent.start + 1 : start] + text[node.end : parent.end - 1]
        inner = "" if not inner.strip(" \t\r\n,") else inner
        return text[: parent.start + 1] + inner + text[parent.end - 1 :]
    comma = _COMMA.match(text, node.end)
    if index:
        before = parent.children[index - 1][2].end
        if text[before:start].strip() == ",":  # no comment stands in between
            first_comma = text.index(",", before)
            return text[: first_comma + 1] + text[comma.end() :] if comma else text[:before] + text[node.end :]
    if comma is None:
        return text[:start] + text[node.end :]
    return text[:start] + text[comma.end() :].lstrip()


def remove_empty(text: str, path: Sequence[Key], whole: Sequence[Key]) -> str:
    """Remove what stands at `whole` where what stands at `path` is empty and holds no comment."""
    node = find(text, path)
    is_empty = node is not None and not node.children and not text[node.start + 1 : node.end - 1].strip()
    return remove(text, whole) if is_empty else text


def _insert(text: str, parent: Node, name: str, value: Any) -> str:
    """Return the text with one more child at the end of an object or array."""
    if not parent.children:
        inner = text[parent.start + 1 : parent.end - 1]
        outer = _line_indent(text, parent.start)
        indent = outer + _unit(text)
        added = f"\n{indent}{name}{_dump(value, text, indent)}\n{outer}"
        kept = inner.rstrip() if inner.strip() else ""  # a comment
        return text[: parent.start + 1] + kept + added + text[parent.end - 1 :]
    _, start, last = parent.children[-1]
    comma = _COMMA.match(text, last.end)  # one that trails
    at, before, after = (comma.end(), "", ",") if comma else (last.end, ",", "")
    lead = text[:start].rpartition("\n")[2]
    if lead.strip() or "\n" not in text[parent.start : start]:  # several on one line
        return f"{text[:at]}{before} {name}{json.dumps(value, ensure_ascii=False)}{after}{text[at:]}"
    return f"{text[:at]}{before}\n{lead}{name}{_dump(value, text, lead)}{after}{text[at:]}"


def _dump(value: Any, text: str, indent: str) -> str:
    """Return a value as JSON on lines that are indented as the text is."""
    return json.dumps(value, indent=_unit(text), ensure_ascii=False).replace("\n", f"\n{indent}")


def _unit(text: str) -> str:
    """Return by what a text indents: that of its first indented line."""
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match else "  "


def _line_indent(text: str, position: int) -> str:
    line = text[:position].rpartition("\n")[2]
    return line[: len(line) - len(line.lstrip())]


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text

    def fail(self, position: int) -> UsageError:
        line = self._text.count("\n", 0, position) + 1
        return UsageError(f"this is no JSON, at line {line}")

    def scan(self, position: int, depth: int) -> Node:
        if depth > _MAX_DEPTH or position >= len(self._text):
            raise self.fail(position)
        node = Node(position)
        opening = self._text[position]
        if opening in "{[":
            node.kind = "object" if opening == "{" else "array"
            for name, start, child in self._scan_children(node, depth):
                node.children.append((name, start, child))
            return node
        match = (_STRING if opening == '"' else _SCALAR).match(self._text, position)
        if match is None:
            raise self.fail(position)
        try:
            node.value = json.loads(match[0])
        except ValueError:
            raise self.fail(position) from None
        node.end = match.end()
        return node

    def _scan_children(self, node: Node, depth: int) -> Iterator[tuple[Key, int, Node]]:
        closing = "}" if node.kind == "object" else "]"
        position, count = _skip(self._text, node.start + 1), 0
        while self._text[position : position + 1] != closing:
            start, name = position, None
            if node.kind == "object":
                key = _STRING.match(self._text, position)
                if key is None:
                    raise self.fail(position)
                name = json.loads(key[0])
                position = _skip(self._text, key.end())
                if self._text[position : position + 1] != ":":
                    raise self.fail(position)
                position = _skip(self._text, position + 1)
            child = self.scan(position, depth + 1)
            yield (count if name is None else name), start, child
            count += 1
            position = _skip(self._text, child.end)
            if self._text[position : position + 1] == ",":
                position = _skip(self._text, position + 1)
            elif self._text[position : position + 1] != closing:
                raise self.fail(position)
        node.end = position + 1
