"""Suggest a fix for a failure in hand: the form of a fix bound to it, or what was done last time.

Pure. A call is suggested only where every part of it is known from the error's headline and the failed call; anything
else is "last time: ...", with its case, never a command to run.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from consolidator.memory.calls.argument_summary import argument_texts, shorten
from consolidator.memory.calls.directory import (
    call_directory,
    find_place,
    in_directory,
    is_absolute,
    names_path_in,
    strip_cd,
)
from consolidator.memory.calls.harm import find_harm
from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.calls.operation import failed_symbol
from consolidator.memory.calls.symbols import shell_command
from consolidator.memory.solutions.call_edit import CallEdit, split_line
from consolidator.memory.solutions.error_line import headline
from consolidator.memory.solutions.fingerprint import error_names, mask_line
from consolidator.memory.solutions.fix_form import FixForm, acts_once, call_texts, first_command
from consolidator.memory.solutions.solution import count_support
from consolidator.memory.text.invisible import strip_colours, strip_invisible

MAX_SHOWN, MAX_ERROR = 300, 120  # characters of a call, and of an error
MAX_REPEATED = 4000  # of a call that is to be made again as it was
MAX_LINKED = 20  # commands of a line that are read by themselves
_FILE = re.compile(r"['\"]?[\w-]+\.[A-Za-z]\w*['\"]?")
_NAME_MASK = re.compile(r"<\w+>")
_WORD = re.compile(r"[^\s\"'`‘’“”()\[\]{}<>=,:]+")


@dataclass(frozen=True, slots=True)
class FailedCall:
    """The call that failed, as the one who asks has it; its arguments are redacted."""

    tool: str
    arguments: Any
    directory: str | None = None  # where the shell was, below `root`; None where that is unknown
    root: str = ""  # the checkout's folder

    def run_in(self, place: str) -> str | None:
        """Return the call's line for a folder of the checkout; None where it ran there, or its paths are none there.

        A file without a folder may be meant where the call ran.
        """
        line = shell_command(self.tool, self.arguments)
        if line is None or self.directory is None or not is_absolute(self.root):
            return None
        ran_in = find_place(self.tool, self.arguments, posixpath.join(self.root, self.directory), self.root)
        words = first_command(strip_cd(line))
        is_up = not place or (ran_in or "").startswith(f"{place}/")
        if ran_in is None or ran_in == place or names_path_in(place, words):
            return None
        if is_up and any(_FILE.fullmatch(word) for word in words):
            return None
        return in_directory(strip_cd(line).strip(), shlex.quote(posixpath.join(self.root, place).rstrip("/")))

    def make_edited(self, edit: CallEdit, fingerprint: str, error: str) -> str | None:
        """Return the call's line, edited; None where it is of another shape, long, or may act twice when made again."""
        line, symbol = shell_command(self.tool, self.arguments), failed_symbol(self.tool, self.arguments, error)
        is_same = symbol.split(" ", 1)[0] == fingerprint.partition(":")[2].partition("|")[0]
        if line is None or not is_same or len(line) > MAX_REPEATED or acts_once(self.tool, {"command": line}):
            return None
        return edit.apply(strip_cd(line).strip(), symbol)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What to do about a failure."""

    kind: str  # of its form (`FixForm.kind`), or last time
    text: str  # for people and agents
    tool: str | None = None  # None: no call is suggested
    arguments: dict[str, Any] | None = None
    fix: int = 0  # its position in the solution
    worked: int = 0
    tried: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        values = asdict(self)
        del values["fix"]
        return values


def suggest_fix(solution: Mapping[str, Any], error: str, failed: FailedCall | None = None) -> Suggestion | None:
    """Return the best confirmed fix of a solution (as JSON) that binds to an error's text; None without fixes."""
    fixes = solution["fixes"]
    line = headline(error)
    texts = argument_texts(failed.tool, failed.arguments) if failed is not None else None
    directory = call_directory(failed.tool, failed.arguments) if failed is not None else None
    seen = strip_colours(error)
    is_plain = strip_invisible(seen) == seen  # names with hidden letters are made to deceive: they fill nothing
    for number, fix in enumerate(fixes):
        if not (is_plain and fix["confirmed"] and "words" in (fix.get("form") or {})):  # not of an older memory
            continue
        form = FixForm.from_json(fix["form"])
        if form.kind in ("again", "inner") and failed is not None and texts is not None:
            arguments = form.repeat(failed.arguments) if isinstance(failed.arguments, dict) else None
            is_long = sum(map(len, texts.values())) > MAX_REPEATED
            is_harmful = find_harm(failed.tool, arguments, solution["project"]) is not None
            if arguments is None or is_long or is_harmful or acts_once(failed.tool, texts):
                return None
            counts = fix["worked"], fix["tried"]
            return Suggestion(form.kind, form.describe(), failed.tool, dict(arguments), number, *counts)
        if form.kind == "place":
            bound = None if failed is None else failed.run_in(form.constants)
        elif form.edit is not None:
            bound = None if failed is None else failed.make_edited(form.edit, solution["fingerprint"], error)
        else:
            parts = [] if texts is None else split_line(texts.get("command", ""))[:MAX_LINKED]  # one of several failed
            calls = [texts, *({**(texts or {}), "command": part} for part in parts)]
            bounds = (form.bind(line, call, fix["values"]) for call in calls)
            bound = next((bound for bound in bounds if bound is not None), None)
        if bound is None:
            continue
        tool = form.tool or (solution["tool"] if failed is None else failed.tool)
        if form.tool is None:
            tool = tool if shell_command(tool, "") is not None else "shell"
            bound = bound if bound.startswith("cd ") else in_directory(bound, directory)
        arguments = {"command" if form.tool is None else _argument_name(form, tool, failed): bound}
        if (
            form.kind != "edit"
            and failed is not None
            and call_texts(tool, arguments) == call_texts(failed.tool, failed.arguments)
        ):
            continue  # the call that just failed, in the same directory, is no fix
        if _may_be_made(tool, arguments, form, fix, failed, solution["project"]):
            text = _describe_bound(form, tool, arguments)
            return Suggestion(form.kind, text, tool, arguments, number, fix["worked"], fix["tried"])
    if not fixes:
        return None
    fix = fixes[0]
    text = fix.get("last_time") or fix["description"]
    return Suggestion("last time", f"last time: {text}", worked=fix["worked"], tried=fix.get("tried", fix["worked"]))


def _argument_name(form: FixForm, tool: str, failed: FailedCall | None) -> str:
    """Return the name of a tool's one argument: as the failed call of the tool has it, else where its value is from."""
    arguments = failed.arguments if failed is not None and isinstance(failed.arguments, Mapping) else {}
    if failed is not None and failed.tool == tool and len(arguments) == 1:
        return str(next(iter(arguments)))
    return next((slot.key for slot in form.slots if slot.source == "call"), "input")


def _may_be_made(
    tool: str,
    arguments: Mapping[str, str],
    form: FixForm,
    fix: Mapping[str, Any],
    failed: FailedCall | None,
    project: str | None,
) -> bool:
    """Whether a bound call is harmless, and installs only what its project's sessions did, or the failed call."""
    if find_harm(tool, arguments, project) is not None:
        return False
    own = () if failed is None else installed_packages(failed.tool, failed.arguments)
    installable = {*own, *installed_packages(tool, {"command": form.constants})}
    if project is not None:
        installable.update(value.lower() for values in fix["values"] for value in values)
    return installable.issuperset(installed_packages(tool, arguments))


def _describe_bound(form: FixForm, tool: str, arguments: Mapping[str, str]) -> str:
    ((name, text),) = arguments.items()
    if form.tool is not None:
        return f"first call {tool} with {name} = {shorten(text, 100)}"
    if form.edit is not None and len(text) > MAX_SHOWN:
        return form.describe()
    command = f"`{shorten(text, MAX_SHOWN)}`"
    if form.kind == "place":
        return f"{form.describe()}: {command}"
    return f"first run {command}, then the same again" if form.kind == "step" else f"run {command}"


def answer_line(solution: Mapping[str, Any], suggestion: Suggestion, error_headline: str) -> str:
    """Return the error that is asked about, by its headline, and the fix for it in one line."""
    fix = solution["fixes"][suggestion.fix]
    certainty = "" if fix["confirmed"] else ", unconfirmed"
    sessions = count_support(fix["sessions"], fix.get("people", 1))
    rate = f"worked in {suggestion.worked} of {suggestion.tried}, in {sessions}{certainty}"
    is_bound = suggestion.tool is not None and error_headline  # "last time" has its own case
    shown_headline = error_headline if is_bound else fix["headline"]
    shown = shorten(shown_headline, MAX_ERROR)  # whoever asks has just seen all of it
    return f"{solution['failed']} failed: “{shown}” → {suggestion.text} ({rate})"


def concerns_error(known_line: str, error_line: str) -> bool:
    """Whether a known error's constant words, names of modules and commands among them, are all in an error's line.

    "No module named pip" is not the error of "No module named 'requests'", nor "lodash" that of "lodash-es".
    """
    if not error_names(known_line) and any(not name.startswith("-") for name in error_names(error_line)):
        return False  # the missing file './config.js' is not the missing module 'express'; an option may be a hint
    names_in_error = _whole_names(error_line) | _whole_names(_NAME_MASK.sub(" ", mask_line(error_line)))
    known_names = _whole_names(_NAME_MASK.sub(" ", mask_line(known_line)))
    return bool(known_names) and known_names <= names_in_error


def _whole_names(line: str) -> set[str]:
    """Return the words of a line in lower case; a name with marks inside ("lodash-es", "./app") is one."""
    words = (word.strip(".!?…*,;").lower() for word in _WORD.findall(line))
    return {word for word in words if any(map(str.isalpha, word))}
