"""The form of a fix: the call that worked, with a slot for each word of the error's headline or of the failed call.

`git push -u origin ⟨id in the error⟩` is one. Cases with the same form are one fix; a new case fills the slots from its
own error and call, and where a slot stays open nothing is suggested. Pure.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from consolidator.memory.calls import tool_kinds
from consolidator.memory.calls.argument_summary import argument_texts
from consolidator.memory.calls.directory import call_directory, in_directory, is_absolute, name_folder
from consolidator.memory.calls.symbols import is_edit, is_inspection, is_shell_symbol
from consolidator.memory.calls.tool_kinds import tool_base_name
from consolidator.memory.plain import Plain
from consolidator.memory.solutions.call_edit import CallEdit
from consolidator.memory.solutions.error_records import ErrorRecord, FixStep
from consolidator.memory.solutions.fingerprint import is_wrong_place, masked_values, missing_command
from consolidator.memory.solutions.fix_description import mending_steps

CUT = "…"
MAX_STEPS = 5  # before the call that worked, the last ones that acted
MAX_TEXT = 500  # characters; a text of that length may be cut
_CASE_MARK = re.compile(r"[\d/_@.#~]|[a-z][A-Z]")
_CASE_VALUE = re.compile(r"\w*\d{2,}\w*|.*@.*|\w+#\w+")
_PLAIN_VALUE = re.compile(r"[\w./][\w./@:#=,%-]*")  # no option, variable, home, pattern, nor a mark of a shell
_LINKS = re.compile(r"&&|\|\||[;|\n]|\d?>|<")
_FILE_ENDING = re.compile(r"\.[A-Za-z]\w*")
_NOTES = re.compile(
    r"todo_?(?:write|read)|\w*plan|task(?:create|update|list|get|output)|toolsearch|think\w*|bashoutput"
)
_SENDING_TOOLS = re.compile(
    r"(?!get|list|read|search|find|fetch|view|show|check)(?:.*[_.-])?(?:send|post|create|add|pay|charge|transfer|refund|order|book|buy|submit|publish|deploy|release|upload"
    r"|delete|remove|cancel|comment|reply|merge|invite|execute)"
)
_PUBLISHES = re.compile(
    r"(?<![\w./-])(?:publish|deploy|release|upload|send|(?:pr|mr|issue) (?:create|comment|merge|review)"
    r"|(?:terraform|tofu|pulumi) (?:apply|up|destroy))\b|\bcurl\b[^|;&\n]{0,300}\s(?:-X|--request|-d|--data|-F|--form)"
)
CallTexts = Mapping[str, str]  # a call's arguments, by key
Words = tuple[str, ...]
WHOLE = -1  # the number of a slot for all words of the failed call
_PLAIN_KEY = re.compile(r"[A-Za-z]\w{0,40}")
_PLAIN_FOLDER = re.compile(r"(?:\$HOME)?(?:/[\w.@+-]+)+")  # nothing that a shell would run or replace
_SETS_PATH = re.compile(r"(?<![\w$])PATH=(\"[^\"]*\"|'[^']*'|[^\s;&|]+)")


class Slot(NamedTuple):
    """Where a word of the call comes from."""

    source: str  # call | error
    key: str  # of the failed call's argument; of the error the kind of value
    number: int  # of the word in the argument, or of the value among those of the headline
    before: str = ""  # what stands before it in its word, and after it
    after: str = ""

    @property
    def label(self) -> str:
        """The slot for people."""
        if self.number == WHOLE:
            return "⟨…⟩"
        named = f"{self.key} in the error" if self.source == "error" else f"{self.key} of the failed call"
        return f"{self.before}⟨{'…' if named == 'command of the failed call' else named}⟩{self.after}"


Parts = tuple[str | Slot, ...]  # a string is a constant word
_WHOLE_CALL: Parts = (Slot("call", "command", WHOLE),)


@dataclass(frozen=True, slots=True)
class FixForm(Plain):
    """A call that resolves an error: a command in place of the failed one, or a call to make first."""

    # call: instead of the failed call | step: first, then it | place: it, in a folder | again: it alone
    # inner: it, with what stood in an argument within another of its name | edit: it, with `words` for `failed`
    kind: str
    tool: str | None  # of a step, which has one argument; None: a shell
    words: Parts
    failed: Parts = ()  # what a call takes the place of

    @property
    def key(self) -> str:
        """The form as text: equal for equal forms."""
        return json.dumps(self.to_json(), ensure_ascii=False)

    @property
    def edit(self) -> CallEdit | None:
        """What the same call has otherwise, where that is all."""
        old, new = (tuple(map(str, words)) for words in (self.failed, self.words))
        return CallEdit(old, new) if self.kind == "edit" else None

    @property
    def slots(self) -> list[Slot]:
        """Its slots, in order."""
        return [part for part in self.words if isinstance(part, Slot)]

    @property
    def constants(self) -> str:
        """What is written in every case."""
        return " ".join(part for part in self.words if isinstance(part, str))

    def bind(self, headline: str, failed: CallTexts | None, known: Sequence[Sequence[str]] = ()) -> str | None:
        """Return the call for an error and the failed call's texts; None where a slot stays open.

        `known` are the values that each slot had in the cases. What the failed call has must be what it had there.
        """
        if self.kind in ("place", "again", "inner", "edit"):
            return None
        values = _error_values(masked_values(headline))
        if self.kind == "call" and failed is not None:
            words = tuple(part if isinstance(part, str) else _read(part, values, failed) for part in self.failed)
            if self.failed != _WHOLE_CALL and split_words(failed.get("command", "")) != words:
                return None
        filled = [
            part if isinstance(part, str) else _fill(part, headline, values, failed, at)
            for part, at in self._with_known(known)
        ]
        return None if None in filled else " ".join(map(str, filled))

    def repeat(self, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the failed call's arguments as they are given again; None where they are not of the form's shape."""
        if self.kind == "again":
            return arguments
        outer = arguments.get(self.constants)
        if not isinstance(outer, Mapping) or outer.keys() != {self.constants}:
            return None
        return {**arguments, self.constants: outer[self.constants]}

    def _with_known(self, known: Sequence[Sequence[str]]) -> list[tuple[str | Slot, Sequence[str]]]:
        of_slots = iter(known if len(known) == len(self.slots) else [()] * len(self.slots))
        return [(part, next(of_slots) if isinstance(part, Slot) else ()) for part in self.words]

    def describe(self, known: Sequence[Sequence[str]] = ()) -> str:
        """Return the form for people: a slot that had the same value in all cases by that value, else by its name."""
        if self.kind == "place":
            return f"run it in {name_folder(self.constants)}"
        if self.kind == "again":
            return "the same call again, with nothing changed"
        if self.edit is not None:
            return f"the same call {self.edit.describe()}"
        if self.kind == "inner":
            return f"the same call with `{self.constants}` itself, not within another `{self.constants}`"
        shown = (
            part if isinstance(part, str) else f"{part.before}{at[0]}{part.after}" if len(at) == 1 else part.label
            for part, at in self._with_known(known)
        )
        text = " ".join(shown)
        if self.tool is not None:
            return f"first call {self.tool} with {text}"
        return f"first run `{text}`" if self.kind == "step" else f"run `{text}`"


AGAIN = FixForm("again", None, ())


class FormOfCase(NamedTuple):
    """The form of what resolved one failure, and what its slots had there."""

    form: FixForm
    values: Words


def forms_of_record(record: ErrorRecord) -> list[FormOfCase]:
    """Return the forms of what resolved a failure: the call that worked, or the steps before the same call."""
    if record.rule == "check":
        return forms_of_steps(record, [FixStep(record.resolver_symbol or "", record.resolving or "")])
    if record.change == "none" and not record.edits and is_only_repeated(record.between):
        others = (record.resolver_index or 0) - record.last_try - 1 - len(record.between)  # that failed in between
        is_untold = not record.headline or record.person_spoke or acts_once(record.tool, record.arguments)
        return [] if is_untold or others else [FormOfCase(AGAIN, ())]
    if forms := _forms_of_path(record) or _forms_of_inner(record):
        return forms
    forms = forms_of_steps(record, mending_steps(record))
    if (record.change != "spacing" or record.edits) and not any(is_edit(step.symbol) for step in record.between):
        made = record.resolver_arguments, record.resolver_directory, record.resolver_place
        forms += form_of_attempt(record, *made, record.edits)
    return forms


def is_only_repeated(between: Sequence[FixStep]) -> bool:
    """Whether a call was made again and nothing was done in between, but to look or to take notes."""
    names = [tool_base_name(step.symbol) for step in between if tool_kinds.is_bookkeeping(tool_base_name(step.symbol))]
    lets_act = not all(map(_NOTES.fullmatch, names))  # another agent, a person or a process
    return not lets_act and all(is_inspection(step.symbol) and not _is_reading(step) for step in between)


def acts_once(tool: str, arguments: CallTexts) -> bool:
    """Whether a call, made again, may do twice what it did before it failed: publish, send, pay."""
    name = tool_base_name(tool)
    is_tool = _SENDING_TOOLS.match(name) is not None and tool_kinds.EDITING_TOOLS.fullmatch(name) is None
    return is_tool or _PUBLISHES.search(arguments.get("command", "")) is not None


def _forms_of_path(record: ErrorRecord) -> list[FormOfCase]:
    """Return a form for each folder that a call named for a command that the shell had not found: on its PATH, or
    before the command. However the call said it, the form is the same."""
    missing = missing_command(record.headline)
    failed, worked = record.arguments.get("command", ""), record.resolver_arguments.get("command", "")
    if missing is None or not failed or not is_shell_symbol(record.symbol):
        return []
    folders = [folder for match in _SETS_PATH.finditer(worked) for folder in match[1].strip("'\"").split(":")]
    folders += re.findall(rf"(?<!\bcd )(?<![^\s;&|(\"'])([/~$][^\s;&|\"'=]*)/{re.escape(missing)}(?![\w./-])", worked)
    plain = dict.fromkeys(re.sub(r"^(?:~|\$\{HOME\})(?=/)", "$HOME", folder.rstrip("/")) for folder in folders)
    named = [folder for folder in plain if _PLAIN_FOLDER.fullmatch(folder) and folder not in failed]
    words = [("export", f'PATH="{folder}:$PATH"', "&&", *_WHOLE_CALL) for folder in named]
    return [_with_values(FixForm("call", None, form, _WHOLE_CALL), record) for form in words]


def _forms_of_inner(record: ErrorRecord) -> list[FormOfCase]:
    """Return the form of a call that gave as an argument what had stood within another of its name before."""
    failed, worked = record.arguments, record.resolver_arguments
    changed = [key for key, text in failed.items() if worked.get(key) != text]
    if len(changed) != 1 or failed.keys() != worked.keys() or not _PLAIN_KEY.fullmatch(key := changed[0]):
        return []
    is_within = failed[key] == f'{{"{key}": {worked[key]}}}'[:MAX_TEXT]  # a long text is cut there
    return [FormOfCase(FixForm("inner", None, (key,)), ())] if is_within else []


def form_of_attempt(
    record: ErrorRecord,
    arguments: CallTexts,
    directory: str | None,
    place: str | None = None,
    edits: Sequence[CallEdit] = (),
) -> list[FormOfCase]:
    """Return the forms of a shell call in place of the failed one: how it was edited, else all of it.

    There is none where the texts are its own.

    Where an error is about the folder, and the call begins as the failed one did in another, this is the form.
    """
    failed = record.arguments.get("command", "")
    worked = arguments.get("command", "").removesuffix(f"&& {failed}").rstrip()  # checked again after it was mended
    is_elsewhere = None not in (record.place, place) and record.place != place
    if is_elsewhere and first_command(failed) == first_command(worked) and is_wrong_place(record.headline):
        assert place is not None
        return [] if is_absolute(place) else [FormOfCase(FixForm("place", None, (place,)), ())]
    if directory != record.directory:
        worked = in_directory(worked, directory)
    if edits and not any(isinstance(word, Slot) for edit in edits for word in _find_slots(" ".join(edit.new), record)):
        return [FormOfCase(FixForm("edit", None, edit.new, edit.old), ()) for edit in edits]
    if not is_shell_symbol(record.symbol) or not failed or not worked or failed.split() == worked.split():
        return []
    if len(worked) >= MAX_TEXT or CUT in worked:
        return []
    words = _find_slots(worked, record)
    used = {slot._replace(before="", after="") for slot in words if isinstance(slot, Slot)}
    of_error = [(value, slot) for slot, value in _values_of(record).items()]
    replaced = tuple(
        slot if (slot := Slot("call", "command", n)) in used else _find_slot(word, of_error)
        for n, word in enumerate(split_words(failed))
    )
    return [_with_values(FixForm("call", None, words, replaced), record)]


def forms_of_steps(record: ErrorRecord, steps: Sequence[FixStep]) -> list[FormOfCase]:
    """Return the forms of the steps that could be taken again."""
    forms = dict.fromkeys(
        FixForm(
            "step",
            None if is_shell_symbol(step.symbol) else step.symbol.split(" ", 1)[0],
            _find_slots(step.argument, record),
        )
        for step in [step for step in steps if _is_step(step, record.arguments)][-MAX_STEPS:]
    )
    return [_with_values(form, record) for form in forms]


def _is_step(step: FixStep, failed: CallTexts) -> bool:
    """Whether a step could be made again, and mends something: an edit or a reading belongs to its case."""
    if not step.argument or CUT in step.argument or len(step.argument) >= MAX_TEXT or is_edit(step.symbol):
        return False
    if _is_reading(step):
        return step.argument in failed.values() and "command" not in failed  # read it again, then edit it
    return not is_inspection(step.symbol)


def _is_reading(step: FixStep) -> bool:
    return tool_kinds.READING_TOOLS.fullmatch(tool_base_name(step.symbol)) is not None


def _find_slots(text: str, record: ErrorRecord) -> Parts:
    """Return the words of a text, each that is or contains something of the case as the slot of that."""
    sources = [(value, slot) for slot, value in _values_of(record).items()]
    for key, of_key in record.arguments.items():
        sources += [(word, Slot("call", key, n)) for n, word in enumerate(split_words(of_key))]
    return tuple(_find_slot(word, sources) for word in split_words(text))


def _find_slot(word: str, sources: Sequence[tuple[str, Slot]]) -> str | Slot:
    bare = word.strip("'\"`")
    if bare != word and any(bare == value for value, slot in sources if slot.source == "call"):
        return word  # the quotes are what was missing
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


def _values_of(record: ErrorRecord) -> dict[Slot, str]:
    return _error_values([(variable.kind, variable.text) for variable in record.variables])


def _with_values(form: FixForm, record: ErrorRecord) -> FormOfCase:
    bare = (slot._replace(before="", after="") for slot in form.slots)
    return FormOfCase(form, tuple(_read(slot, _values_of(record), record.arguments) or "" for slot in bare))


def _read(slot: Slot, values: Mapping[Slot, str], failed: CallTexts | None) -> str | None:
    """Return the word of a slot as the error or the failed call has it; None where it has fewer."""
    if slot.source == "error":
        value = values.get(slot._replace(before="", after=""))
    else:
        text = (failed or {}).get(slot.key, "")
        words = (text,) if slot.number == WHOLE else split_words(text)
        value = words[slot.number] if slot.number < len(words) else None
    return None if value is None else f"{slot.before}{value}{slot.after}"


def _fill(
    slot: Slot, headline: str, values: Mapping[Slot, str], failed: CallTexts | None, known: Sequence[str]
) -> str | None:
    """Return what fills a slot; None where nothing may. Where the failed call is not told, its usual words do."""
    if slot.source == "call" and failed is None:
        return f"{slot.before}{known[0]}{slot.after}" if len(known) == 1 else None
    value = _read(slot._replace(before="", after=""), values, failed)
    is_refused = value is None or (slot.source == "error" and not may_fill(value, headline, known))
    return None if is_refused else f"{slot.before}{value}{slot.after}"


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
    return form.tool is not None and any(_CASE_VALUE.fullmatch(part) for part in form.words if isinstance(part, str))


def first_command(line: str) -> Words:
    """Return the words of a line's first command."""
    return tuple(_LINKS.split(line, maxsplit=1)[0].split())


def split_words(text: str) -> Words:
    """Return the words of a text; a text of several lines is a word."""
    return (text,) if "\n" in text.strip() else tuple(text.split())


def call_texts(tool: str, arguments: Any) -> dict[str, str]:
    """Return what a call is given, by key: of a shell its command, with the directory where it says one."""
    texts = argument_texts(tool, arguments)
    if "command" in texts:
        texts["command"] = in_directory(texts["command"], call_directory(tool, arguments))
    return texts
