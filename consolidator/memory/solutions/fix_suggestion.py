"""Suggest a fix for a failure in hand: a template bound to it, or what was done last time.

Pure. A call is suggested only where every part of it is known from the error's text and the failed call; anything else
is "last time: ...", with its case, never a command to run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from consolidator.memory.calls.argument_summary import shorten
from consolidator.memory.calls.harm import find_harm
from consolidator.memory.calls.installation import installed_packages
from consolidator.memory.calls.symbols import is_shell_symbol, shell_command
from consolidator.memory.solutions.error_line import extract_error_text, find_error_line, headline, truncate_middle
from consolidator.memory.solutions.fingerprint import error_names, mask_line
from consolidator.memory.solutions.fix_cases import DIRECTORY, CallTexts, call_texts, same_texts, write_call
from consolidator.memory.solutions.fix_template import FixTemplate
from consolidator.memory.solutions.solution import count_support
from consolidator.memory.text.invisible import strip_invisible

MAX_EXCERPT = 500  # characters of an error from its line on, as error records quote it
MAX_SHOWN = 300
_NAME_MASK = re.compile(r"<\w+>")
_WORD = re.compile(r"[^\s\"'`‘’“”()\[\]{}<>=,:]+")


@dataclass(frozen=True, slots=True)
class FailedCall:
    """The call that failed, as the one who asks has it; its arguments are redacted."""

    tool: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What to do about a failure."""

    kind: str  # call: this instead of the failed call | step: this first, then the failed call again | last time
    text: str  # for people and agents
    tool: str | None = None  # None: no call is suggested
    arguments: dict[str, Any] | None = None
    fix: int = 0  # its position in the solution
    worked: int = 0
    tried: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "kind": self.kind,
            "text": self.text,
            "tool": self.tool,
            "arguments": self.arguments,
            "worked": self.worked,
            "tried": self.tried,
        }


def suggest_family_fix(solution: Mapping[str, Any], error: str, failed: FailedCall | None = None) -> Suggestion | None:
    """Return the fix of a family (a solution as JSON), bound to the name in an error's text; None where none binds."""
    names = error_names(headline(error))
    suggestion = suggest_fix(solution, error, failed, names)
    if suggestion is None or not names:
        return None
    description = solution["fixes"][suggestion.fix]["description"]
    of_others = f"for other names, in {suggestion.worked} of {suggestion.tried} cases: {description}"
    if suggestion.tool is None:  # what it would write here is nothing that the project's sessions used
        return replace(suggestion, text=of_others)
    return replace(suggestion, text=f"{of_others} → {suggestion.text}")


def knows_better(
    solution: Mapping[str, Any], of_family: Suggestion, error: str, failed: FailedCall | None = None
) -> bool:
    """Whether an error's own solution says more than its family: another fix, or that the family's was in vain."""
    call = " ".join(" ".join(map(str, (of_family.arguments or {}).values())).split())
    if any(" ".join(attempt.split()) == call for attempt in solution["tried"]):
        return True
    own = suggest_fix(solution, error, failed)
    if own is None:
        return False
    made = [text for fix in solution["fixes"] for text in (fix["resolving"], *(s["argument"] for s in fix["steps"]))]
    return own.tool is not None or all(" ".join(text.split()) != call for text in made)


def suggest_fix(
    solution: Mapping[str, Any], error: str, failed: FailedCall | None = None, names: Sequence[str] = ()
) -> Suggestion | None:
    """Return the best fix of a solution (as JSON) that binds to an error's text; None for a solution without fixes.

    `names` are those in the error's headline, for the solution of a family.
    """
    fixes = solution["fixes"]
    excerpt = error_excerpt(error)
    texts = call_texts(failed.tool, failed.arguments) if failed is not None else None
    is_plain = strip_invisible(error) == error  # names with hidden letters are made to deceive: they fill nothing
    for number, fix in enumerate(fixes):
        for template in map(FixTemplate.from_json, fix.get("templates", ()) if is_plain else ()):
            bound = template.bind(excerpt, texts, names)
            if bound is not None and not _is_failed_call(template, bound, texts, failed):
                tool, arguments = _name_call(template, bound, solution, failed)
                if not _may_be_made(tool, arguments, template, failed, solution["project"]):
                    continue
                text = _describe_bound(template, tool, arguments, failed)
                return Suggestion(template.kind, text, tool, arguments, number, fix["worked"], fix["tried"])
    if not fixes:
        return None
    fix = fixes[0]
    text = fix.get("last_time") or fix["description"]
    return Suggestion("last time", f"last time: {text}", worked=fix["worked"], tried=fix.get("tried", fix["worked"]))


def _may_be_made(
    tool: str, arguments: Mapping[str, Any], template: FixTemplate, failed: FailedCall | None, project: str | None
) -> bool:
    """Whether a bound call is harmless, and installs only what its project's sessions did, or the failed call."""
    if find_harm(tool, arguments, project) is not None:
        return False
    own = () if failed is None else installed_packages(failed.tool, failed.arguments)
    known = {*own, *installed_packages(tool, template.constants)}
    if project is not None:
        known.update(value.lower() for value in template.values)
    return known.issuperset(installed_packages(tool, arguments))


def answer_line(solution: Mapping[str, Any], suggestion: Suggestion, error_headline: str) -> str:
    """Return the error that is asked about, by its headline, and the fix for it in one line."""
    fix = solution["fixes"][suggestion.fix]
    certainty = "" if fix["confirmed"] else ", unconfirmed"
    sessions = count_support(fix["sessions"], fix.get("people", 1))
    rate = f"worked in {suggestion.worked} of {suggestion.tried}, in {sessions}{certainty}"
    shown_headline = (
        error_headline if suggestion.tool is not None and error_headline else fix["headline"]
    )  # "last time" has its own case
    return f"{solution['failed']} failed: “{shown_headline}” → {suggestion.text} ({rate})"


def describe_template(template: FixTemplate) -> str:
    """Return a template for people."""
    description = template.describe()
    if template.kind == "step":
        return f"first run {_quote_call(template.tool, description)}"
    if not description:
        return "try the same call again"
    if "command" in template.texts:
        return f"run `{description}`"
    if template.texts and not template.keeps:
        return f"call {template.tool or 'it'} with {description}"
    return f"the same call {description}" if template.edits or template.dropped else f"the same call with {description}"


def error_excerpt(text: str) -> str:
    """Return an error's text from the line that says what went wrong, as error records quote it."""
    text = extract_error_text(truncate_middle(text))
    return text[find_error_line(text).start :][:MAX_EXCERPT].strip()


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


def _is_failed_call(
    template: FixTemplate, bound: CallTexts, texts: CallTexts | None, failed: FailedCall | None
) -> bool:
    """Whether a bound template is the call that just failed, in the same directory."""
    if texts is None or failed is None:
        return False
    is_same_tool = template.tool in (None, failed.tool) or (is_shell_symbol(template.tool) and "command" in texts)
    kept = {DIRECTORY: texts[DIRECTORY]} if DIRECTORY in texts and "command" in bound else {}
    return is_same_tool and same_texts({**kept, **bound}, texts)


def _name_call(
    template: FixTemplate, bound: Mapping[str, str], solution: Mapping[str, Any], failed: FailedCall | None
) -> tuple[str, dict[str, Any]]:
    """Return the tool and arguments of a bound template; values of the failed call keep their types."""
    written = write_call(bound)
    tool = template.tool or (failed.tool if failed is not None else solution["tool"])
    if template.tool is not None and is_shell_symbol(template.tool):
        tool = failed.tool if failed is not None and shell_command(failed.tool, failed.arguments) else "shell"
    failed_arguments = failed.arguments if failed is not None and isinstance(failed.arguments, Mapping) else {}
    if set(written) == {""}:
        key = (
            next(iter(failed_arguments))
            if len(failed_arguments) == 1 and failed is not None and failed.tool == tool
            else "input"
        )
        written = {key: written[""]}
    return tool, {key: _with_type(text, failed_arguments.get(key)) for key, text in written.items()}


def _with_type(text: str, failed_value: Any) -> Any:
    """Return an argument's value, of the type that the failed call gave it."""
    if failed_value is None or isinstance(failed_value, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _describe_bound(template: FixTemplate, tool: str, arguments: Mapping[str, Any], failed: FailedCall | None) -> str:
    if shell_command(tool, arguments) is not None and "command" in arguments:
        command = f"`{shorten(str(arguments['command']), MAX_SHOWN)}`"
        return f"first run {command}, then the same again" if template.kind == "step" else f"run {command}"
    failed_arguments = failed.arguments if failed is not None and isinstance(failed.arguments, Mapping) else {}
    changed = {
        key: value for key, value in arguments.items() if failed_arguments.get(key) != value or template.kind == "step"
    }
    if not changed and not template.dropped:
        return "try the same call again"
    values = ", ".join(f"{key} = {shorten(str(value), 100)}" for key, value in changed.items())
    if template.kind == "step":
        return f"first call {tool} with {values}"
    left_out = f" without {', '.join(template.dropped)}" if template.dropped else ""
    return f"call {tool}{' with ' + values if values else ''}{left_out}"


def _quote_call(tool: str | None, description: str) -> str:
    return f"`{description}`" if tool is None else f"{tool} `{description}`"
