"""Changes members of a JSON text and keeps every other character, comments and trailing commas included.

Pure. A place is looked up in the text without comments, at the same offsets; the change is made in the text as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from consolidator.errors import UsageError

_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|(?<![\[{,]),(?=\s*[\]}])')
_COMMA = re.compile(r"\s*,")
_SPACE = re.compile(r"\s*")
Key = str | int


@dataclass(frozen=True, slots=True)
class Node:
    """A value, and where it stands; of a member also where its name begins."""

    key: Key  # its name, or its position in an array
    name_start: int
    start: int
    end: int
    value: Any


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def parse(text: str) -> Any:
    """Return the value of a JSON text, with comments or without; raise UsageError where it is none."""
    try:
        return _DECODER.decode(_plain(text))
    except json.JSONDecodeError as error:
        raise UsageError(f"this is no JSON, at line {error.lineno}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is no JSON: {error}") from None


def find(text: str, path: Sequence[Key]) -> Node | None:
    """Return what stands at a path; of a repeated name the last, which counts. None where nothing does."""
    value, plain = parse(text), _plain(text)
    node: Node | None = Node("", 0, _skip(plain, 0), len(plain.rstrip()), value)
    for key in path:
        children = [] if node is None else _list_children(plain, node)
        node = next((child for child in reversed(children) if child.key == key), None)
    return node


def put(text: str, path: Sequence[Key], value: Any) -> str:
    """Return the text with a value at a path of names; what is missing of the path is made."""
    for depth in range(len(path)):
        parent = find(text, path[:depth])
        if parent is None or not isinstance(parent.value, dict):
            where = ".".join(map(str, path[:depth])) or "the file"
            raise UsageError(f"{where} is no JSON object there: it cannot take {path[depth]!r}")
        if path[depth] not in parent.value:
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
    if not isinstance(array.value, list):
        raise UsageError(f"{'.'.join(map(str, path))} is no JSON array there")
    return _insert(text, array, "", value)


def remove(text: str, path: Sequence[Key]) -> str:
    """Return the text without what stands at a path, and without the comma that came with it."""
    parent = find(text, path[:-1])
    children = [] if parent is None else _list_children(_plain(text), parent)
    index = next((number for number, child in enumerate(children) if child.key == path[-1]), None)
    if parent is None or index is None:
        return text
    start, end = children[index].name_start, children[index].end
    if len(children) == 1:
        inner = text[parent.start + 1 : start] + text[end : parent.end - 1]
        inner = "" if not inner.strip(" \t\r\n,") else inner
        return text[: parent.start + 1] + inner + text[parent.end - 1 :]
    comma = _COMMA.match(_without_comments(text), end)
    if index:
        before = children[index - 1].end
        if text[before:start].strip() == ",":  # no comment stands in between
            first_comma = text.index(",", before)
            return text[: first_comma + 1] + text[comma.end() :] if comma else text[:before] + text[end:]
    if comma is None:
        return text[:start] + text[end:]
    return text[:start] + text[comma.end() :].lstrip()


def remove_empty(text: str, path: Sequence[Key], whole: Sequence[Key]) -> str:
    """Remove what stands at `whole` where what stands at `path` is empty and holds no comment."""
    node = find(text, path)
    is_empty = node is not None and not node.value and not text[node.start + 1 : node.end - 1].strip()
    return remove(text, whole) if is_empty else text


def _insert(text: str, parent: Node, name: str, value: Any) -> str:
    """Return the text with one more child at the end of an object or array."""
    if not parent.value:
        inner = text[parent.start + 1 : parent.end - 1]
        outer = _line_indent(text, parent.start)
        indent = outer + _unit(text)
        added = f"\n{indent}{name}{_dump(value, text, indent)}\n{outer}"
        comment = inner.rstrip() if inner.strip() else ""  # a comment
        return text[: parent.start + 1] + comment + added + text[parent.end - 1 :]
    last = _list_children(_plain(text), parent)[-1]
    comma = _COMMA.match(_without_comments(text), last.end)  # one that trails
    at, before, after = (comma.end(), "", ",") if comma else (last.end, ",", "")
    lead = text[: last.name_start].rpartition("\n")[2]
    if lead.strip() or "\n" not in text[parent.start : last.name_start]:  # several on one line
        return f"{text[:at]}{before} {name}{json.dumps(value, ensure_ascii=False)}{after}{text[at:]}"
    return f"{text[:at]}{before}\n{lead}{name}{_dump(value, text, lead)}{after}{text[at:]}"


def _list_children(plain: str, node: Node) -> list[Node]:
    """Return the members of an object, or the items of an array, of a text without comments."""
    children: list[Node] = []
    position = _skip(plain, node.start + 1)
    while isinstance(node.value, dict | list) and plain[position] not in "]}":
        key, start = len(children), position
        if isinstance(node.value, dict):
            key, position = _DECODER.raw_decode(plain, position)
            position = _skip(plain, _skip(plain, position) + 1)
        value, end = _DECODER.raw_decode(plain, position)
        children.append(Node(key, start, position, end, value))
        position = _skip(plain, end)
        position = _skip(plain, position + 1) if plain[position] == "," else position
    return children


def _plain(text: str) -> str:
    """Return a text as JSON knows it, each character where it was: blanks for comments and commas that trail."""
    return _TRAILING_COMMA.sub(lambda match: match[1] or " ", _without_comments(text))


def _without_comments(text: str) -> str:
    text = " " + text[1:] if text.startswith("\ufeff") else text
    return _COMMENT.sub(lambda match: match[1] or re.sub(r"[^\n]", " ", match[0]), text)


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
