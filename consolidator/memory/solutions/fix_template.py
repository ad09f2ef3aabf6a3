"""Fix templates: the call that resolves an error, as a function of the error's text and of the failed call.

`git push -u origin ⟨branch in the error⟩` is one. A template has parts that every case shares, and slots that are
filled from the case in hand: a value is found by the words around it, in the error's text or in an argument of the
failed call. `fix_learning` finds the templates, from two cases at least. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

ERROR = "error"  # the document of the error's text; the others are its names, and the arguments of the failed call
_ERROR_NAME = "error/name"  # the documents of the names in an error's headline: "error/name", "error/name 2"
WHOLE = ("", "")  # the context of a value that is the whole document
_TOKEN = re.compile(r"[^\s\"'`‘’“”()\[\]{};&|<>=,:]+")
_CODE_TOKEN = re.compile(r"\s+|[^\s\"'`‘’“”()\[\]{};&|<>=,:]+|.", re.DOTALL)
_CASE_MARK = re.compile(r"[\d/_@.#~-]|[a-z][A-Z]")
_FUNCTION_WORDS = (
    "a an and are as at be but by for from has have if in is it its no not of on or that the this to was were with you"
    " your"
)
_STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
_PLAIN_VALUE = re.compile(r"[\w./][\w./@:#=,%-]*")  # no option, variable, home, pattern, nor a mark of a shell
_FILE_ENDING = re.compile(r"\.[A-Za-z]\w*")
_MAX_DOCUMENT = 2000  # characters of a document that are read


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value stands: in a document, after a word and before another one, or after two words."""

    document: str  # ERROR, or the key of an argument
    before: tuple[str, ...]  # one or two words, in lower case; "^" is the start
    after: str | None = None  # None, as an earlier release stored it, finds nothing

    @property
    def label(self) -> str:
        """The source for people."""
        if self.is_name:
            return f"⟨{self.document.removeprefix('error/')} in the error⟩"
        word = next((word for word in reversed(self.before) if word not in ("^", "*")), "")
        value = f"what follows “{word}”" if word else "the value"
        return f"⟨{value} in the {'error' if self.document == ERROR else 'failed call'}⟩"

    @property
    def is_name(self) -> bool:
        """Whether it is a name in the error's headline."""
        return is_name_document(self.document)

    @property
    def is_of_error(self) -> bool:
        """Whether the failed call need not be known."""
        return self.is_name or self.document == ERROR

    def to_json(self) -> list[Any]:
        """Return it as JSON."""
        return [self.document, list(self.before), self.after]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Source:
        """Read what `to_json` returned."""
        return cls(data[0], tuple(data[1]), data[2])


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a text: constant, or filled from the first source that has a value."""

    text: str  # of a slot: the value of the latest case
    sources: tuple[Source, ...] = ()
    values: tuple[str, ...] = ()  # of a slot: those of its cases, sorted

    def fill(self, documents: Mapping[str, str], *, is_written: bool = True) -> str | None:
        """Return the piece for the case in hand; None where no source has a value, or one that is not to be written."""
        if not self.sources:
            return self.text
        for source in self.sources:
            value = find_value(source, documents)
            if value is not None:
                is_open = is_written and source.is_of_error
                return None if is_open and not may_fill(value, documents[source.document], self.values) else value
        return None


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of words in an argument of the failed call; without old words an insertion."""

    old: tuple[tuple[Part, ...], ...]  # the parts of each word
    new: tuple[tuple[Part, ...], ...]
    place: str | None = None  # of an insertion: "^", "$", or the word before it


@dataclass(frozen=True, slots=True)
class FixTemplate:
    """A call that resolves an error. `texts` are written whole, `edits` change arguments of the failed call.

    Arguments of the failed call that neither names are kept if there are `edits`, or if the template `keeps` them.
    """

    kind: str  # call: the call that worked; step: a call to make before the failed one is tried again
    tool: str | None  # None: the tool that failed
    texts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    keeps: bool = False
    operands: tuple[tuple[str | None, ...], ...] = ()  # of the failed commands in the cases; None stands for any word
    same_call_only: Mapping[str, str] | None = None  # binds only where the failed call had just these arguments

    @property
    def example(self) -> dict[str, str]:
        """The texts of the latest case that the template writes, by key."""
        texts = {key: "".join(part.text for part in parts) for key, parts in self.texts.items()}
        for key, edits in self.edits.items():
            new = (" ".join("".join(part.text for part in word) for word in edit.new) for edit in edits)
            texts[key] = " ".join([*filter(None, [texts.get(key)]), *new])
        return texts

    @property
    def constants(self) -> dict[str, str]:
        """What is written in every case, by key."""
        return {key: " ".join(part.text for part in parts if not part.sources) for key, parts in self.texts.items()}

    @property
    def values(self) -> frozenset[str]:
        """What its slots were filled with in its cases."""
        words = [word for edits in self.edits.values() for edit in edits for word in edit.new]
        return frozenset(value for parts in (*self.texts.values(), *words) for part in parts for value in part.values)

    @property
    def needs_name(self) -> bool:
        """Whether a name in the error's headline is written, or taken out of the failed call."""
        written = [
            *self.texts.values(),
            *(word for edits in self.edits.values() for edit in edits for word in edit.new),
        ]
        written += [word for edits in self.edits.values() for edit in edits if not edit.new for word in edit.old]
        return any(part.sources and part.sources[0].is_name for parts in written for part in parts)

    def bind(self, error: str, failed: Mapping[str, str] | None, names: Sequence[str] = ()) -> dict[str, str] | None:
        """Return the call's arguments for an error's text and the failed call's arguments; None if a slot is open.

        `names` are those in the error's headline, where the template is one of a family.
        """
        if failed is None and (self.edits or self.keeps or self.same_call_only is not None):
            return None
        arguments = dict(failed or {}) if self.edits or self.keeps else {}
        if self.same_call_only is not None and not _is_same(self.same_call_only, failed or {}):
            return None
        if failed is not None and self.operands and not self._has_known_operands(failed):
            return None
        documents = case_documents(error, failed or {}, names)
        for key in self.dropped:
            arguments.pop(key, None)
        for key, parts in self.texts.items():
            pieces = [part.fill(documents) for part in parts]
            if None in pieces:
                return None
            arguments[key] = "".join(piece or "" for piece in pieces)
        for key, edits in self.edits.items():
            edited = apply_edits(arguments.get(key), edits, documents)
            if edited is None:
                return None
            arguments[key] = edited
        return arguments

    def _has_known_operands(self, failed: Mapping[str, str]) -> bool:
        """Whether a failed command has the operands that those of the cases had: a new one could contradict them."""
        failed_operands = command_operands(failed.get("command", ""))
        return any(
            len(failed_operands) == len(pattern)
            and all(word in (None, operand) for word, operand in zip(pattern, failed_operands, strict=True))
            for pattern in self.operands
        )

    def describe(self) -> str:
        """Return the template for people, with its slots named."""
        texts = [
            _key_prefix(key) + "".join(_describe_part(part) for part in parts) for key, parts in self.texts.items()
        ]
        for edits in self.edits.values():
            texts += [_describe_edit(edit) for edit in edits]
        texts += [f"without {key}" for key in self.dropped]
        return ", ".join(texts)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "kind": self.kind,
            "tool": self.tool,
            "texts": {key: _parts_json(parts) for key, parts in self.texts.items()},
            "edits": {
                key: [[_words_json(edit.old), _words_json(edit.new), edit.place] for edit in edits]
                for key, edits in self.edits.items()
            },
            "dropped": list(self.dropped),
            "keeps": self.keeps,
            "operands": [list(words) for words in self.operands],
            "same_call_only": None if self.same_call_only is None else dict(self.same_call_only),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FixTemplate:
        """Read what `to_json` returned."""
        return cls(
            kind=data["kind"],
            tool=data["tool"],
            texts={key: _read_parts(parts) for key, parts in data["texts"].items()},
            edits={
                key: tuple(Edit(_read_words(old), _read_words(new), place) for old, new, place in edits)
                for key, edits in data["edits"].items()
            },
            dropped=tuple(data["dropped"]),
            keeps=data["keeps"],
            operands=tuple(map(tuple, data.get("operands", ()))),
            same_call_only=data["same_call_only"],
        )


def may_fill(value: str, text: str, known: Sequence[str]) -> bool:
    """Whether a value that an error's text names may be written: a plain name, or a path where those of the cases are.

    The text of an error is anybody's: a file's or branch's name may be made to be read as an option or a command.
    """
    if re.search(rf"(?:^|[\s'\"`(\[])(?:[:=+$;&|<>~!-]+|\.){re.escape(value)}|{re.escape(value)}[*$;&|<>{{}}\\]", text):
        return False  # a piece of what stands there
    if value in known:
        return True
    if not _PLAIN_VALUE.fullmatch(value) or ".." in value.split("/") or "://" in value:
        return False
    if not value.isascii() and all(map(str.isascii, known)):
        return False
    endings = {posixpath.splitext(each)[1] for each in known}
    if endings and all(map(_FILE_ENDING.fullmatch, endings)) and posixpath.splitext(value)[1] not in endings:
        return False  # where the cases have lock files, a source file is no value
    are_absolute = {each.startswith("/") for each in known}
    if are_absolute <= {False} and not value.startswith("/"):
        folders = [posixpath.dirname(each) for each in known if posixpath.splitext(each)[1]]
        shared = posixpath.commonpath(folders) if folders and len(folders) == len(known) else ""
        return not shared or value.startswith(f"{shared}/")
    if are_absolute != {True}:
        return False
    shared = posixpath.commonpath([posixpath.dirname(each) for each in known])
    is_file = not value.endswith("/") or any(each.endswith("/") for each in known)
    return shared != "/" and is_file and value.startswith(f"{shared}/")


def command_operands(command: str) -> tuple[str, ...]:
    """Return the words of a command that are no options."""
    return tuple(word for word in command.split() if not word.startswith("-"))


def case_documents(error: str, failed: Mapping[str, str], names: Sequence[str] = ()) -> dict[str, str]:
    """Return the texts in which the values of a case are looked up; names and the error first."""
    named = {_ERROR_NAME if number == 1 else f"{_ERROR_NAME} {number}": name for number, name in enumerate(names, 1)}
    return {**named, ERROR: error, **{key: text for key, text in failed.items() if key != ERROR}}


def is_name_document(document: str) -> bool:
    """Whether a document is a name in the error's headline."""
    return document.startswith(_ERROR_NAME)


def _parts_json(parts: Sequence[Part]) -> list[Any]:
    return [[part.text, [source.to_json() for source in part.sources], list(part.values)] for part in parts]


def _words_json(words: Sequence[Sequence[Part]]) -> list[Any]:
    return [_parts_json(parts) for parts in words]


def _read_words(data: Sequence[Any]) -> tuple[tuple[Part, ...], ...]:
    """Read words of parts; the release before stored a replaced word as one part."""
    return tuple(_read_parts([word] if word and isinstance(word[0], str) else word) for word in data)


def _read_parts(data: Sequence[Any]) -> tuple[Part, ...]:
    return tuple(
        Part(text, tuple(Source.from_json(source) for source in sources), tuple(*values))
        for text, sources, *values in data
    )


def _key_prefix(key: str) -> str:
    return "" if key in ("command", "") else f"{key} = "


def _describe_part(part: Part) -> str:
    return part.sources[0].label if part.sources else part.text


def _describe_edit(edit: Edit) -> str:
    old, new = (" ".join("".join(map(_describe_part, word)) for word in words) for words in (edit.old, edit.new))
    return f"{new} in place of {old}" if old and new else f"with {new}" if new else f"without {old}"


def _is_same(first: Mapping[str, str], second: Mapping[str, str]) -> bool:
    return {k: v.split() for k, v in first.items()} == {k: v.split() for k, v in second.items()}


def apply_edits(text: str | None, edits: Sequence[Edit], documents: Mapping[str, str]) -> str | None:
    """Return a text with words replaced, each from where the one before ended; None where one does not apply."""
    if text is None:
        return None
    words = text.split()
    start = 0
    for edit in edits:
        old = _fill_words(edit.old, documents, is_written=False)
        replacement = _fill_words(edit.new, documents)
        position = None if old is None else _find_place(words, old, edit.place, start)
        if old is None or replacement is None or position is None:
            return None
        words[position : position + len(old)] = replacement
        start = position + len(replacement)
    return " ".join(words)


def _fill_words(
    words: Sequence[Sequence[Part]], documents: Mapping[str, str], *, is_written: bool = True
) -> list[str] | None:
    """Return words with their slots filled; None where a slot has no value."""
    filled = [[part.fill(documents, is_written=is_written) for part in word] for word in words]
    if any(None in word for word in filled):
        return None
    return ["".join(piece or "" for piece in word) for word in filled]


def _find_place(words: Sequence[str], old: Sequence[str], place: str | None, start: int) -> int | None:
    if old:
        ends = range(start, len(words) - len(old) + 1)
        return next((n for n in ends if list(words[n : n + len(old)]) == list(old)), None)
    if place == "$":
        return len(words)
    if place == "^":
        return 0
    return next((n + 1 for n in range(max(start - 1, 0), len(words)) if words[n] == place), None)


def split_code(text: str) -> list[str]:
    """Return the tokens of an argument: words, single marks and spaces; together they are the text."""
    return _CODE_TOKEN.findall(text)


def is_word(token: str) -> bool:
    """Whether a token can be a value."""
    return _TOKEN.fullmatch(token) is not None


def names_a_case(token: str) -> bool:
    """Whether a token looks like the name of one thing (an id, a path, a date), so that the next case has another."""
    return not token.startswith("-") and _CASE_MARK.search(token) is not None


@lru_cache(maxsize=4096)
def _split_words(text: str) -> tuple[str, ...]:
    """Return the words of a document, without the marks of the sentence around them."""
    words = (word.strip(".!?…*") for word in _TOKEN.findall(text[:_MAX_DOCUMENT]))
    return tuple(word for word in words if word)


@lru_cache(maxsize=4096)
def _cut_off_words(text: str) -> frozenset[str]:
    """Return the words that are a piece of a longer name in a document: of `crate::foo`, or of a shortened path."""
    cut_off = set()
    for match in _TOKEN.finditer(text[:_MAX_DOCUMENT]):
        token, start, end = match[0], match.start(), match.end()
        is_shortened = "…" in token or ((token.startswith("...") or token.endswith("...")) and "/" in token)
        if is_shortened or text[end : end + 2] == "::" or text[max(0, start - 2) : start] == "::":
            cut_off.add(token.strip(".!?…*"))
    return frozenset(cut_off)


def find_value(source: Source, documents: Mapping[str, str]) -> str | None:
    """Return the value that a source has in the case in hand: the first that stands between its words."""
    text = documents.get(source.document)
    if text is None:
        return None
    if source.before == WHOLE:
        return text
    words = _split_words(text)
    for position, word in enumerate(words):
        context = _context(words, position)
        if context[-len(source.before) :] != source.before or _following(words, position) != source.after:
            continue
        if source.document == ERROR and (word.lower() in _STOP_WORDS or word in _cut_off_words(text)):
            continue
        return word
    return None


def find_sources(value: str, documents: Mapping[str, str]) -> Iterator[Source]:
    """Yield the sources that have a value in a case."""
    for name, text in documents.items():
        if name != ERROR and text == value:
            yield Source(name, WHOLE)
        if is_name_document(name):
            continue
        words = _split_words(text)
        for position, word in enumerate(words):
            if word == value:
                context = _context(words, position)
                for source in (
                    Source(name, context, _following(words, position)),
                    Source(name, context[-1:], _following(words, position)),
                ):
                    if find_value(source, documents) == value:
                        yield source


def _context(words: Sequence[str], position: int) -> tuple[str, ...]:
    """Return the two words before a position; what names a case matches any such word."""
    before = [_common(word) for word in words[max(0, position - 2) : position]]
    return tuple(["^"] * (2 - len(before)) + before)


def _following(words: Sequence[str], position: int) -> str:
    return _common(words[position + 1]) if position + 1 < len(words) else "$"


def _common(word: str) -> str:
    return "*" if re.search(r"[\d/_@#]|\w[.-]\w", word) else word.lower()
