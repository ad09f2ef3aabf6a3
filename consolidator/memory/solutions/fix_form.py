"""The form of a fix: the call that worked, with a slot for each word of the error's headline or of the failed call.

`git push -u origin ⟨id in the error⟩` is one. Cases with the same form are one fix; a new case fills the slots from its
own error and call, and where a slot stays open nothing is suggested. Pure.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.argument_texts import argument_texts
from consolidator.memory.calls.directory import call_directory
from consolidator.memory.calls.symbols import is_edit, is_inspection, is_shell_symbol
from consolidator.memory.calls.tool_kinds import tool_base_name
from consolidator.memory.solutions.error_records import ErrorRecord, FixStep
from consolidator.memory.solutions.fingerprint import masked_values

DIRECTORY = "directory"  # the key under which a shell call's directory stands beside its command
CUT = "…"
MAX_STEPS = 5  # before the call that worked, the last ones that acted
MAX_TEXT = 500  # characters; a text of that length may be cut
_CASE_MARK = re.compile(r"[\d/_@.#~]|[a-z][A-Z]")
_CASE_VALUE = re.compile(r"\w*\d{2,}\w*|.*@.*|\w+#\w+")
_TOKEN = re.compile(r"\s+|[\w./@#~-]+|.")
_PLAIN_VALUE = re.compile(r"[\w./][\w./@:#=,%-]*")  # no option, variable, home, pattern, nor a mark of a shell
_FILE_ENDING = re.compile(r"\.[A-Za-z]\w*")
CallTexts = Mapping[str, str]  # a call's arguments, by key
Words = tuple[str, ...]


class Slot(NamedTuple):
    """Where a piece of the call comes from."""

    source: str  # call | error
    key: str  # of the failed call's argument; of the error the kind of value
    start: int  # the first word of the argument; the position of the value among those of the headline
    end: int | None = None  # after the last word; None: up to the end
    before: str = ""  # what stands before it in its word, and after it
    after: str = ""

    @property
    def label(self) -> str:
        """The slot for people."""
        named = "…" if self.key == "command" else f"{self.key} of the failed call"
        named = f"{self.key} in the error" if self.source == "error" else named
        return f"{self.before}⟨{named}⟩{self.after}"


@dataclass(frozen=True, slots=True)
class FixForm:
    """A call that resolves an error."""

    kind: str  # call: instead of the failed call | step: first, then the failed call again
    tool: str | None  # None: the tool that failed
    texts: Mapping[str, tuple[str | Slot, ...]]  # by key; a string is a constant word
    dropped: Mapping[str, tuple[str | Slot, ...]]  # words of the failed call that it leaves out: each case has them
    left_out: Words = ()  # arguments of the failed call

    @property
    def key(self) -> str:
        """The form as text: equal for equal forms."""
        return json.dumps(self.to_json(), ensure_ascii=False, sort_keys=True)

    @property
    def slots(self) -> list[Slot]:
        """Its slots, in order."""
        return [part for _, parts in sorted(self.texts.items()) for part in parts if isinstance(part, Slot)]

    @property
    def constants(self) -> dict[str, str]:
        """What is written in every case, by key."""
        return {key: " ".join(part for part in parts if isinstance(part, str)) for key, parts in self.texts.items()}

    def bind(
        self, headline: str, failed: CallTexts | None, known: Sequence[Sequence[str]] = ()
    ) -> dict[str, str] | None:
        """Return the call's arguments for an error and the failed call's arguments; None where a slot stays open.

        `known` are the values that each slot had in the cases.
        """
        arguments = dict(failed or {}) if self.kind == "call" and self.tool is None else {}
        values = _error_values(masked_values(headline))
        dropped = {
            key: {values.get(part) if isinstance(part, Slot) else part for part in parts}
            for key, parts in self.dropped.items()
        }
        if failed is not None and any(not of <= set(split_words(failed.get(key, ""))) for key, of in dropped.items()):
            return None
        if failed is None and self.kind == "call" and self.tool is None and "command" not in self.texts:
            return None  # what it keeps of the failed call is not known
        if failed is not None and not self._has_known_operands(failed, known):
            return None
        pieces = iter([_fill(slot, headline, values, failed, at) for slot, at in self._with_known(known)])
        for key, parts in sorted(self.texts.items()):
            filled = [part if isinstance(part, str) else next(pieces) for part in parts]
            text = _glue(failed, key).join(piece for piece in filled if piece is not None)
            if None in filled or dropped.get(key, set()) & set(split_words(text)) - set(parts) - set(filled):
                return None
            arguments[key] = text
        return {key: text for key, text in arguments.items() if key not in self.left_out}

    def _has_known_operands(self, failed: CallTexts, known: Sequence[Sequence[str]]) -> bool:
        """Whether a command that gets operands after its own has those of the cases: new ones could contradict them."""
        parts = self.texts.get("command", ())
        at = next((n for n, part in enumerate(parts) if isinstance(part, Slot) and part.source == "call"), None)
        if self.kind == "step" or at is None or all(str(part).startswith("-") for part in parts[at + 1 :]):
            return True
        of_slot = dict(self._with_known(known))
        slot = parts[at]
        return not isinstance(slot, Slot) or slot.end is not None or _read_call(slot, failed) in of_slot[slot]

    def _with_known(self, known: Sequence[Sequence[str]]) -> Iterator[tuple[Slot, Sequence[str]]]:
        slots = self.slots
        return zip(slots, known if len(known) == len(slots) else [()] * len(slots), strict=True)

    def describe(self, known: Sequence[Sequence[str]] = ()) -> str:
        """Return the form for people: a slot that had the same value in all cases by that value, else by its name."""
        changed = self._describe_change(known)
        if changed:
            return changed
        shown = iter(
            [
                f"{slot.before}{at[0]}{slot.after}" if len(at) == 1 else slot.label
                for slot, at in self._with_known(known)
            ]
        )
        texts = {
            key: " ".join(part if isinstance(part, str) else next(shown) for part in parts)
            for key, parts in sorted(self.texts.items())
        }
        text = ", ".join(value if key in ("command", "") else f"{key} = {value}" for key, value in texts.items())
        if self.kind == "step":
            return f"first run `{text}`" if self.tool is None else f"first call {self.tool} with {text}"
        if "command" in texts and DIRECTORY in texts:
            return f"run `cd {texts[DIRECTORY]} && {texts['command']}`"
        return (
            f"run `{text}`"
            if "command" in texts
            else f"call {self.tool or 'it'} with {text}" + "".join(f" without {key}" for key in self.left_out)
        )

    def _describe_change(self, known: Sequence[Sequence[str]]) -> str:
        """Return the form as a change of the first words of a command; "" for any other form."""
        parts, dropped = self.texts.get("command", ()), self.dropped.get("command", ())
        rest = parts[-1] if parts else ""
        new = [part for part in parts[:-1] if isinstance(part, str)]
        is_change = isinstance(rest, Slot) and rest.source == "call" and rest.start == len(dropped) and rest.end is None
        old = [word for word in dropped if isinstance(word, str)]
        if self.kind != "call" or not (is_change and old) or len(new) < len(parts) - 1 or len(self.texts) > 1:
            return ""
        told = f"with `{' '.join(new)}` in place of" if new else "without"
        only = known[0] if known and len(known[0]) == 1 else ()
        example = f": `{' '.join([*new, *only])}`" if only else ""
        return f"run the same {told} `{' '.join(old)}`{example}"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "kind": self.kind,
            "tool": self.tool,
            "texts": {key: list(parts) for key, parts in self.texts.items()},
            "dropped": {key: list(parts) for key, parts in self.dropped.items()},
            "left_out": list(self.left_out),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FixForm:
        """Read what `to_json` returned."""
        texts, dropped = (
            {
                key: tuple(part if isinstance(part, str) else Slot(*part) for part in parts)
                for key, parts in data[name].items()
            }
            for name in ("texts", "dropped")
        )
        return cls(data["kind"], data["tool"], texts, dropped, tuple(data["left_out"]))


class FormOfCase(NamedTuple):
    """The form of what resolved one failure, and what its slots had there."""

    form: FixForm
    values: Words


def forms_of_record(record: ErrorRecord) -> list[FormOfCase]:
    """Return the forms of what resolved a failure: the call that worked, or the steps before the same call."""
    failed = _failed_texts(record)
    if record.rule in ("installation", "check"):
        return _step_forms([FixStep(record.resolver_symbol or "", record.resolving or "")], failed, record)
    forms = _step_forms(record.between, failed, record)
    worked = _worked_texts(record)
    if worked is not None and not any(is_edit(step.symbol) for step in record.between):
        changed = record.resolver_symbol or record.symbol
        is_same_tool = is_shell_symbol(changed) if is_shell_symbol(record.symbol) else changed == record.symbol
        forms += _call_form(None if is_same_tool else changed, worked, failed, record)
    return forms


def form_of_attempt(record: ErrorRecord, arguments: CallTexts, directory: str | None) -> list[FormOfCase]:
    """Return the form of a call that was tried in vain."""
    return _call_form(None, _with_directory(arguments, directory), _failed_texts(record), record)


def forms_of_steps(record: ErrorRecord, steps: Sequence[FixStep]) -> list[FormOfCase]:
    """Return the forms of steps that were taken in vain."""
    return _step_forms(steps, _failed_texts(record), record)


def _call_form(tool: str | None, worked: CallTexts, failed: CallTexts, record: ErrorRecord) -> list[FormOfCase]:
    if not failed or same_texts(worked, failed) or record.operation == "edit":  # the texts of an edit are its own
        return []
    values = [(variable.kind, variable.text) for variable in record.variables]
    texts: dict[str, tuple[str | Slot, ...]] = {}
    dropped: dict[str, tuple[str | Slot, ...]] = {}
    by_value = {value: slot for slot, value in _error_values(values).items()}
    for key, text in sorted(worked.items()):
        if len(text) >= MAX_TEXT or CUT in text:
            return []
        if tool is None and key in failed and same_texts({"": text}, {"": failed[key]}) and key != "command":
            continue
        parts = texts[key] = tuple(_align(text, key, failed, values))
        covered = {
            n
            for part in parts
            if isinstance(part, Slot) and (part.source, part.key) == ("call", key)
            for n in _range(part, failed[key])
        }
        rest = [word for n, word in enumerate(split_words(failed.get(key, ""))) if n not in covered]
        if rest and key != DIRECTORY:
            dropped[key] = tuple(by_value.get(word, word) for word in rest)
    left_out = tuple(sorted(failed.keys() - worked.keys())) if tool is None else ()
    return [_with_values(FixForm("call", tool, texts, dropped, left_out), failed, values)]


def _step_forms(steps: Sequence[FixStep], failed: CallTexts, record: ErrorRecord) -> list[FormOfCase]:
    acting = [step for step in steps if _is_step(step, failed)][-MAX_STEPS:]
    values = [(variable.kind, variable.text) for variable in record.variables]
    forms = []
    for step in acting:
        is_shell = is_shell_symbol(step.symbol)
        key = "command" if is_shell else ""
        words = (step.argument,) if "\n" in step.argument else tuple(step.argument.split())
        parts = tuple(_find_slot(word, failed, values) for word in words)
        tool = None if is_shell and "command" in failed else step.symbol.split(" ", 1)[0] if not is_shell else "shell"
        forms.append(_with_values(FixForm("step", tool, {key: parts}, {}), failed, values))
    return list({case.form.key: case for case in forms}.values())


def _is_step(step: FixStep, failed: CallTexts) -> bool:
    """Whether a step could be made again, and mends something: an edit or a reading belongs to its case."""
    if not step.argument or CUT in step.argument or len(step.argument) >= MAX_TEXT:
        return False
    if is_shell_symbol(step.symbol):
        return not is_inspection(step.symbol)
    if tool_kinds.READING_TOOLS.fullmatch(tool_base_name(step.symbol)):
        return step.argument in failed.values() and "command" not in failed  # read it again, then edit it
    return not is_edit(step.symbol) and not is_inspection(step.symbol)


def _align(text: str, key: str, failed: CallTexts, values: Sequence[tuple[str, str]]) -> Iterator[str | Slot]:
    """Yield the parts of a text: runs of the failed call's words, values of the error, and constants."""
    old, new = split_words(failed.get(key, "")), split_words(text)
    if text[:1] in ("[", "{") and _glue(failed, key):
        new = (text,)
    blocks = {b: (a, size) for a, b, size in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()}
    position = 0
    while position < len(new):
        start, size = blocks.get(position, (0, 0))
        if size:
            yield Slot("call", key, start, None if start + size == len(old) else start + size)
            position += size
        else:
            yield _find_slot(new[position], failed, values)
            position += 1


def _find_slot(word: str, failed: CallTexts, values: Sequence[tuple[str, str]]) -> str | Slot:
    """Return the slot of a word that is, or contains, something of the case; the word itself where it is a constant."""
    sources = [(value, slot) for slot, value in _error_values(values).items()]
    sources += [(text, Slot("call", key, 0)) for key, text in failed.items()]
    for key, text in failed.items():
        sources += [(each, Slot("call", key, n, n + 1)) for n, each in enumerate(split_words(text))]
    bare = word.strip("'\"`")
    for value, slot in sources:
        if bare == value and (slot.source == "error" or _names_a_case(value)):
            return slot
    inside = [pair for pair in sources if _names_a_case(pair[0]) and pair[0] in bare and " " not in pair[0]]
    if not inside or word.startswith("-"):
        return word
    value, slot = max(inside, key=lambda pair: len(pair[0]))
    before, _, after = bare.partition(value)
    is_inside_a_name = before[-1:].isalnum() or after[:1].isalnum()
    return word if is_inside_a_name else slot._replace(before=before, after=after)


def _names_a_case(word: str) -> bool:
    return len(word) >= 3 and not word.startswith("-") and _CASE_MARK.search(word) is not None


def _error_values(values: Sequence[tuple[str, str]]) -> dict[Slot, str]:
    """Return the values of a headline that its fingerprint masks, by their slots."""
    masked = [(kind, text) for kind, text in values if kind != "name"]
    return {Slot("error", kind, number): text for number, (kind, text) in enumerate(masked)}


def _with_values(form: FixForm, failed: CallTexts, values: Sequence[tuple[str, str]]) -> FormOfCase:
    by_slot = _error_values(values)
    filled = (by_slot.get(slot._replace(before="", after="")) or _read_call(slot, failed) for slot in form.slots)
    return FormOfCase(form, tuple(value or "" for value in filled))


def _range(slot: Slot, text: str) -> range:
    return range(slot.start, slot.end or len(split_words(text)))


def _read_call(slot: Slot, failed: CallTexts) -> str | None:
    """Return the words of a slot in the failed call; None where it has fewer."""
    words = split_words(failed.get(slot.key, ""))
    taken = words[slot.start : slot.end]
    return _glue(failed, slot.key).join(taken) if taken and (slot.end is None or slot.end <= len(words)) else None


def _fill(
    slot: Slot, headline: str, values: Mapping[Slot, str], failed: CallTexts | None, known: Sequence[str]
) -> str | None:
    """Return what fills a slot; None where nothing may. Where the failed call is not told, its usual words do."""
    if slot.source == "error":
        value = values.get(slot._replace(before="", after=""))
        value = value if value and may_fill(value, headline, known) else None
    elif failed is None:
        value = known[0] if len(known) == 1 else None
    else:
        value = _read_call(slot, failed)
    return None if value is None else f"{slot.before}{value}{slot.after}"


def may_fill(value: str, text: str, known: Sequence[str]) -> bool:
    """Whether a value that an error's text names may be written: a plain name, or a path where those of the cases are.

    The text of an error is anybody's: a file's or branch's name may be made to be read as an option or a command.
    """
    here = re.escape(value)
    if re.search(rf"(?:^|[\s'\"`(\[])(?:[:=+$;&|<>~!-]+|\.){here}|{here}(?:[*$;&|<>{{}}\\(]|`\w)", text):
        return False  # a piece of what stands there
    if value in known:
        return True
    if not _PLAIN_VALUE.fullmatch(value) or value.startswith(".") or ".." in value.split("/") or "://" in value:
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


def is_of_one_case(form: FixForm) -> bool:
    """Whether a form of a tool's call has a constant that names a person or case; a shell's are the project's."""
    return "command" not in form.texts and any(
        _CASE_VALUE.fullmatch(part) for parts in form.texts.values() for part in parts if isinstance(part, str)
    )


def split_words(text: str) -> Words:
    """Return the words of a text, of JSON its tokens; a text of several lines is a word."""
    if "\n" in text.strip():
        return (text,)
    return tuple(_TOKEN.findall(text)) if text[:1] in ("[", "{") else tuple(text.split())


def _glue(failed: CallTexts | None, key: str) -> str:
    return "" if (failed or {}).get(key, "")[:1] in ("[", "{") else " "


def call_texts(tool: str, arguments: Any) -> dict[str, str]:
    """Return a call's arguments as forms have them: a command stripped, its directory beside it."""
    return _with_directory(argument_texts(tool, arguments), call_directory(tool, arguments))


def same_texts(first: CallTexts, second: CallTexts) -> bool:
    """Whether two calls are given the same, but for spacing."""
    return {key: text.split() for key, text in first.items()} == {key: text.split() for key, text in second.items()}


def write_call(texts: CallTexts) -> dict[str, str]:
    """Return the arguments of a call to make: a shell's directory becomes a `cd` of its command."""
    if DIRECTORY in texts and "command" in texts:
        return {"command": f"cd {texts[DIRECTORY]} && {texts['command']}"}
    return dict(texts)


def _failed_texts(record: ErrorRecord) -> dict[str, str]:
    return _with_directory(record.arguments, record.directory)


def _with_directory(texts: CallTexts, directory: str | None) -> dict[str, str]:
    return {**texts, DIRECTORY: directory} if directory and "command" in texts else dict(texts)


def _worked_texts(record: ErrorRecord) -> CallTexts | None:
    """Return what the call that worked was given; None where only the spacing differs, which forms do not keep."""
    texts = dict(record.resolver_arguments)
    return _with_directory(texts, record.resolver_directory) if texts and record.change != "spacing" else None
