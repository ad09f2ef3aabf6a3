"""How the call that worked differs from the failed one: an option added or left out, a word replaced.

Such a difference says what to do about another call with the same error, however long its texts are. Pure, and bounded:
a line is read word by word, and only its commands of the failed program are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from consolidator.memory.calls.symbols import SHELL_PREFIX

MAX_LINE = 8000  # characters of a line that is read
MAX_WORDS = 200  # of a command that is compared
MAX_EDITS = 3  # of one call
MAX_EDITED = 2  # words that are added, or left out: an option and its value
MAX_WORD = 80  # characters of one
_TEXT = "…"
_LEADING = 4  # words within which a command has its program, after wrappers and assignments
_TOKEN = re.compile(
    r"(?P<space>(?:[^\S\n]|\\\n)+)|(?P<link>&&|\|\||\|&?|[;&\n()]+)"
    r"|(?P<redirection>(?:\d|&)?(?:>>?|<<?<?-?)(?:&\d|&-)?)"
    r"|(?P<word>(?:[^\s'\"\\;&|<>()]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\")+)",
    re.DOTALL,
)
_BINDS = re.compile(r"cd|pushd|export|source|\.|set|unset|alias|if|then|else|for|while|do|done|fi|\{|\w+=.*")
_OPTION = re.compile(r"--?[A-Za-z][\w-]*(?:=[\w./:@,+-]+)?")
_VALUE = re.compile(r"[\w./:@,+%][\w./:@,+%=-]*")


class Word(NamedTuple):
    """A word of a line, as written."""

    text: str
    start: int
    end: int


class Pipeline(NamedTuple):
    """Commands of a line that are joined by pipes."""

    commands: tuple[tuple[Word, ...], ...]  # without redirections
    start: int
    end: int
    is_bound: bool  # to its line: what comes before or around it may decide how it runs

    def of_symbol(self, symbol: str) -> list[Sequence[Word]]:
        """Return its commands of a symbol ("sh:git push"), each from the program on."""
        return [words for command in self.commands if (words := _from_program(command, symbol))]


class CallEdit(NamedTuple):
    """Words of a call, and those in their place; where no words are named, they are added at the command's end."""

    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def is_replacement(self) -> bool:
        """Whether it is a word in place of another one."""
        return len(self.old) == len(self.new)

    def _changed(self) -> tuple[str, str]:
        """Return the words, without the one after which something is added."""
        shared = 1 if self.old[:1] == self.new[:1] else 0
        return " ".join(self.old[shared:]), " ".join(self.new[shared:])

    def is_named(self, error: str) -> bool:
        """Whether an error's text names the option, or one of two words."""
        names = [_unquote(word) for text in self._changed() for word in text.split()]
        return any(
            re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", error)
            for name in names
            if self.is_replacement or name.startswith("-")
        )

    def describe(self) -> str:
        """Return what the same call has otherwise, for people and agents."""
        old, new = self._changed()
        if not old or not new:
            return f"with `{new}`" if new else f"without `{old}`"
        return f"with `{new}` in place of `{old}`"

    def apply(self, line: str, symbol: str) -> str | None:
        """Return a line with its commands of a symbol edited; None where none of them is of the edit's shape.

        Of commands that only follow each other, the one that failed alone: those before it have worked.
        """
        edited = [(pipeline, self._edit(line, pipeline, symbol)) for pipeline in _read_line(line)]
        texts = [text for _, text in edited if text is not None]
        if len(texts) == 1 and split_line(line):
            return texts[0]
        whole = line
        for pipeline, text in reversed(edited):
            whole = whole if text is None else whole[: pipeline.start] + text + whole[pipeline.end :]
        return whole if texts else None

    def _edit(self, line: str, pipeline: Pipeline, symbol: str) -> str | None:
        text, end = "", pipeline.end  # what comes after `end`, edited
        for words in reversed(pipeline.of_symbol(symbol)):
            place = self._find_place([word.text for word in words])
            if place is None:
                continue
            text = "".join(f" {word}" for word in self.new) + line[words[place.stop - 1].end : end] + text
            end = words[place.start - 1].end
        return line[pipeline.start : end] + text if end != pipeline.end or text else None

    def _find_place(self, words: Sequence[str]) -> range | None:
        """Return which words of a command are replaced; None where it has others, or has been edited."""
        size = len(self.old)
        if not size:
            return None if self.new[0] in words else range(len(words), len(words))
        starts = (n for n in range(1, len(words) - size + 1) if tuple(words[n : n + size]) == self.old)
        start = next(starts, None)
        is_done = size < len(self.new) and self.new[-1] in words
        is_joined = self.new == (f"{self.old[0]}=",)  # of an older record: it had the value, too
        return None if start is None or is_done or is_joined else range(start, start + size)


def split_line(line: str) -> list[str]:
    """Return the parts of a line that only follow each other; none where one of them may decide how others run."""
    pipelines = _read_line(line)
    return [] if any(part.is_bound for part in pipelines) else [line[part.start : part.end] for part in pipelines]


def find_edits(failed: str, worked: str, symbol: str, error: str) -> tuple[CallEdit, ...]:
    """Return how the line that worked differs from the failed one in its commands of a symbol; () for otherwise.

    Of several differences those that the error names. A word in place of another one tells nothing else.
    """
    if not symbol.startswith(SHELL_PREFIX):
        return ()
    before, after = (list(_commands_of(line, symbol)) for line in (failed, worked))
    if before and after[-len(before) :] == before:  # a check after what mended it
        after = after[: -len(before)]
        before = before[-len(after) :]
    changed = [words for words in before if words not in after]
    instead = [words for words in after if words not in before]
    pairs = zip(changed, instead, strict=False)
    ways = {_compare(*pair, symbol) for pair in pairs} if len(changed) <= len(instead) else set()
    edits = ways.pop() if len(ways) == 1 else ()
    named = tuple(edit for edit in edits if edit.is_named(error))
    if len(changed) < len(instead):  # more than what failed was run then
        return tuple(edit for edit in named if not edit.is_replacement)
    return named or tuple(edit for edit in edits if len(edits) == 1 and not edit.is_replacement)


def _compare(failed: Sequence[str], worked: Sequence[str], symbol: str) -> tuple[CallEdit, ...]:
    """Return how two commands differ; () where one of the differences is no edit, or there are many."""
    if max(len(failed), len(worked)) > MAX_WORDS:
        return ()
    edits: list[CallEdit] = []
    for tag, *place in SequenceMatcher(None, failed, worked, autojunk=False).get_opcodes():
        if tag != "equal":
            edits += (here := _read_edits(failed, worked, place, symbol))
            if not here or len(edits) > MAX_EDITS:
                return ()
    return tuple(edits)


def _read_edits(failed: Sequence[str], worked: Sequence[str], place: Sequence[int], symbol: str) -> list[CallEdit]:
    """Return the edits by which some words of a command became others; none where these are the case's own."""
    start, end, start_worked, end_worked = place
    gone, added = tuple(failed[start:end]), tuple(worked[start_worked:end_worked])
    if start == 0:
        return []
    if any(len(word) > MAX_WORD or _TEXT in word for word in gone + added):
        return []
    if gone and added:
        surplus = [word for word in gone if len(gone) > len(added) and _OPTION.fullmatch(word)]
        replaced = [word for word in gone if word not in surplus]
        pairs = zip(replaced, added, strict=False) if len(replaced) == len(added) else ()
        return [CallEdit((word,), ()) for word in surplus] + [CallEdit((old,), (new,)) for old, new in pairs]
    if not _is_option(gone or added):
        return []
    before, after = failed[start - 1], failed[start : start + 1]
    if gone or not after:
        return [CallEdit(gone, added)]
    if start > 1 and before in symbol.split() and not after[0].startswith("-"):
        return [CallEdit((before,), (before, *added))]  # what follows may be a program with options of its own
    return [CallEdit((), added)] if added[0].startswith("--") else []


def _is_option(words: Sequence[str]) -> bool:
    values = (_OPTION.fullmatch(word) or _VALUE.fullmatch(word) for word in words[1:])
    return len(words) <= MAX_EDITED and re.fullmatch(rf"{_OPTION.pattern}|--", words[0]) is not None and all(values)


def _unquote(word: str) -> str:
    return re.sub(r"['\"]", "", word)


def _commands_of(line: str, symbol: str) -> Iterator[tuple[str, ...]]:
    for pipeline in _read_line(line):
        yield from (tuple(_without_text(word.text) for word in words) for words in pipeline.of_symbol(symbol))


def _without_text(word: str) -> str:
    """Return a word, of one with spaces only that it is one: which text a call has is its case's."""
    option, is_joined, _ = _unquote(word).partition("=")
    return (f"{option}=" if is_joined and _OPTION.fullmatch(option) else "") + _TEXT if re.search(r"\s", word) else word


def _from_program(words: Sequence[Word], symbol: str) -> Sequence[Word]:
    """Return a command's words from the program of a symbol on; none where it is another one's."""
    program, *subcommand = (word for word in symbol.removeprefix(SHELL_PREFIX).split() if not word.startswith("--"))
    texts = [word.text for word in words]
    position = next((n for n, text in enumerate(texts[:_LEADING]) if text.rpartition("/")[2] == program), None)
    return () if position is None or not set(subcommand) <= set(texts[position:]) else words[position:]


def _read_line(line: str) -> list[Pipeline]:
    """Return the pipelines of a line, up to a here-document's text; none of a long one, or of one in open quotes."""
    if len(line) > MAX_LINE:
        return []
    pipelines: list[Pipeline] = []
    commands: list[list[Word]] = [[]]
    is_open, is_bound, has_document, position = True, False, False, 0  # open: words are no longer a redirection's
    while position <= len(line):
        token = _TOKEN.match(line, position)
        if token is None and position < len(line):
            return []
        if token is not None and token["link"] in ("|", "|&"):
            commands.append([])
            is_open = True
        elif token is None or token["link"]:
            link = "" if token is None else token["link"]
            is_bound = is_bound or "(" in link or ")" in link
            pipelines += _build_pipeline(commands, position, line, is_bound)
            if has_document and "\n" in link:
                break
            commands, is_open = [[]], True
        elif token["redirection"]:
            is_open, has_document = False, has_document or token["redirection"] in ("<<", "<<-")
            is_bound = is_bound or has_document
        elif token["word"] and is_open:
            commands[-1].append(Word(token["word"], token.start(), token.end()))
        position = len(line) + 1 if token is None else token.end()
    return pipelines


def _build_pipeline(commands: Iterable[Sequence[Word]], end: int, line: str, is_bound: bool) -> list[Pipeline]:
    named = tuple(tuple(words) for words in commands if words)
    is_bound = is_bound or any(_BINDS.fullmatch(words[0].text) for words in named)
    start = named[0][0].start if named else end
    return [Pipeline(named, start, start + len(line[start:end].rstrip()), is_bound)] if named else []
