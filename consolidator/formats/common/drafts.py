"""Drafts of events that readers of agents' logs share: a type and the payload's values, which nothing has checked.

Whether a call failed is read from its output where a log has no status. That is conservative: a false "failed" teaches
a false fix, a missed failure only loses one. Errors that a program merely prints (in a log, a search result,
documentation) must not count, so nearly every rule is anchored.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from consolidator.formats.common.content import extract_text
from consolidator.formats.common.wrappers import MESSAGE_BLOCKS, Unwrapped, is_one_element, unwrap
from consolidator.models.payload import EventType

SIGNALS = (129, 130, 137, 143, 144)  # hung up, interrupted, killed, terminated: from outside, mostly by the agent

# How the tools of agent frameworks report errors, at the very start of the output.
_TOOL_FAILURE = re.compile(
    r"""(?x)
    No\ replacement\ was\ performed                           # str_replace editors
    | No\ file\ open\b                                          # an edit before any open
    | File\ \S+\ not\ found\.?\s*(?:\n|\Z)
    | Error:\s | ERROR\ \d{4}\ \(                              # general; MySQL's client
    """
)

# An error of a shell or core utility about the command itself: a whole line "prog: what: reason".
_COMPLAINT = re.compile(
    r"""(?xi)
    ^\S+:\ cannot\ open\ .*\(.*\)\s*$                           # as `file` says it, of an operand
    | ^(?:/[\w./-]*/)?[\w.+-]+:\ .*?
    (?: command\ not\ found
      | no\ such\ file(?:\ or\ directory)?\)?
      | permission\ denied
      | (?:is|not)\ a\ directory\)?
      | (?:syntax\ error|unexpected\ EOF|runaway\ regular\ expression)\b.*
      | (?:missing|extra)\ operand\b.*
      | (?:invalid|unrecognized|unknown|illegal)\ option\b.*
      | you\ may\ not\ specify\ more\ than\ one\b.*
      | paths\ must\ precede\ expression\b.*
      | cannot\ (?:access|open|stat|remove|create|overwrite|touch|move|copy)\b.*
      | file\ exists
      | invalid\ input
    )\s*$
    """
)
_USAGE_HINT = re.compile(
    r"(?i)^(?:try .*--help\b.*|usage: .*|\S+: possible unquoted pattern\b.*|.*: try .*--help\b.*)$"
)
# bash names an inline script by its text: "<script>: -c: line 1: syntax error ...".
_INLINE_SCRIPT_ERROR = re.compile(r": -c: line \d+: ")

_TIMEOUT = re.compile(
    r"(?ms)^EXECUTION TIMED OUT\b|^COMMAND TIMED OUT\b|\AThe command .{0,2000} was cancelled because it took more than"
)
_EXIT_CODE = re.compile(
    r"(?i)^\W*(?:process |command )?(?:exit(?:ed)?(?: with)?(?: code| status)?|returncode)\W+([1-9]\d{0,2})\W*$"
)

_TRACEBACK = re.compile(r"(?m)^Traceback \(most recent call last\):\s*$")
# The last line of a traceback that ended the program: "json.JSONDecodeError: ...", "KeyboardInterrupt".
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Failed)\b(?::|\s*$)")

_MAX_COMPLAINT_LINES = 12  # a longer output is ordinary output, even with such errors in it


def is_timeout(text: str) -> bool:
    """Tell whether the output says that the command was stopped by a timeout."""
    return _TIMEOUT.search(text) is not None


def is_failure(text: str) -> bool:
    """Tell whether an output is clearly that of a failed call."""
    body = text.replace("\r\n", "\n").strip()
    if not body:
        return False
    if _TOOL_FAILURE.match(body) or is_timeout(body):
        return True
    lines = [line for line in body.split("\n") if line.strip()]
    traceback = _TRACEBACK.search(body)
    if traceback is not None and (traceback.start() == 0 or _EXCEPTION.match(lines[-1]) is not None):
        return True
    return _EXIT_CODE.match(lines[-1]) is not None or _has_only_complaints(lines)


def _has_only_complaints(lines: list[str]) -> bool:
    """Tell whether all lines are errors or usage hints: one refused path among many results is not a failure."""
    if len(lines) > _MAX_COMPLAINT_LINES:
        return False
    complaints = [line for line in lines if _COMPLAINT.match(line) or _INLINE_SCRIPT_ERROR.search(line)]
    return bool(complaints) and len(complaints) + sum(_USAGE_HINT.match(line) is not None for line in lines) >= len(
        lines
    )


Draft = tuple[EventType, dict[str, Any]]
Drafts = Iterator[Draft]
BLOCKS = (*MESSAGE_BLOCKS, "recalled-memory", "hook_context", "session_context")  # that agents and hooks put in
# How the shell tools of Gemini CLI and its forks label what they tell: a head, the output, and lines at the end.
_HEAD = re.compile(r"\A(?:Command: .*?\nDirectory: [^\n]*\n)?(?:Output|Stdout): ?", re.DOTALL)
_TAIL = re.compile(r"(?:\n(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?[^\n]*)+\s*\Z")
_EMPTY_LABEL = re.compile(r"^(?:Stderr: )?\((?:none|empty)\)$|^Stderr: ", re.MULTILINE)
_TOLD_CODE = re.compile(  # an exit code in a tool's own words, as the first or last line
    r"\W{0,3}(?:(?:Command|Process|Shell)\b.{0,300}?\W)?(?:failed with |exited with )?exit code:? (-?\d{1,10})\W{0,3}",
    re.IGNORECASE,
)


def words(typed: str, other: str = "", *, names: Collection[str] = BLOCKS, only_before: bool = False) -> Drafts:
    """Yield what a person typed, and what a harness put around it or beside it."""
    unwrapped = Unwrapped("", typed) if is_one_element(typed) else unwrap(typed, names, only_before=only_before)
    if around := join(unwrapped.around, other):
        yield EventType.USER_MESSAGE, {"text": around, "origin": "harness"}
    if unwrapped.words.strip():
        yield EventType.USER_MESSAGE, {"text": unwrapped.words}


def message(text: Any, other: str = "", *, is_persons: bool) -> Drafts:
    """Yield a text in a person's role: a person's words, or what nobody typed."""
    typed = text_of(text)
    yield from words(typed, other) if is_persons else harness(join(typed, other))


def harness(text: Any, origin: str = "harness") -> Drafts:
    """Yield a message in a person's role that nobody typed; nothing for an empty one."""
    if extract_text(text).strip():
        yield EventType.USER_MESSAGE, {"text": extract_text(text), "origin": origin}


def answer(text: Any, model: Any = None, usage: Any = None) -> Drafts:
    """Yield what the model answered; nothing for an empty text."""
    if extract_text(text).strip():
        yield EventType.ASSISTANT_RESPONSE, {"text": extract_text(text), "model": model, "usage": usage}


def thought(text: Any, model: Any = None) -> Drafts:
    """Yield what the model thought; nothing for an empty text."""
    if extract_text(text).strip():
        yield EventType.THINKING_START, {"text": extract_text(text), "model": model}


def call(call_id: Any, tool: Any, arguments: Any) -> Draft:
    """Return a call."""
    return EventType.TOOL_CALL, {"call_id": text_of(call_id), "tool": text_of(tool), "arguments": arguments}


def result(
    call_id: Any, tool: Any, content: Any, *, failed: bool | None, reason: str | None = None, exit_code: Any = None
) -> Draft:
    """Return a result; `failed` is what the log says, None where it does not tell: then the output decides."""
    text = extract_text(content)
    code = exit_code if isinstance(exit_code, int) and not isinstance(exit_code, bool) else None
    is_error = failed or (code is not None and code != 0) or (failed is None and code is None and is_failure(text))
    return EventType.TOOL_RESULT, {
        "call_id": text_of(call_id),
        "tool": tool if isinstance(tool, str) else None,
        "status": "error" if is_error else "ok",
        "reason": reason or ("timeout" if is_error and is_timeout(text) else None),
        "content": text,
        "exit_code": code,
    }


def split_output(text: str) -> tuple[str, int | None]:
    """Return the output alone of a text in which a tool labels what it tells, and the exit code if it is told."""
    head = _HEAD.match(text)
    if head is None:
        lines = text.strip("\n").split("\n")
        for place in (-1, 0):
            if code := _TOLD_CODE.fullmatch(lines[place]):
                del lines[place]
                return "\n".join(lines).strip("\n"), int(code[1])
        return text, None
    tail = _TAIL.search(text, head.end() - 1)
    output = _EMPTY_LABEL.sub("", text[head.end() : tail.start() if tail else len(text)])
    labelled = tail[0].split("\n") if tail else []
    code = next((code for line in labelled if (code := _TOLD_CODE.fullmatch(line))), None)
    errors = [line for line in labelled if line.startswith("Error: ") and line != "Error: (none)"]
    return "\n".join(part for part in (output.strip("\n"), *errors) if part), int(code[1]) if code else None


def object_of(value: Any) -> dict[str, Any]:
    """Return a value that is an object; an empty one for any other."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; none for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def join(*texts: str) -> str:
    """Return the texts that are not empty, one below the other."""
    return "\n".join(text for text in texts if text.strip())


def text_of(value: Any) -> str:
    """Return a name or an id as a text; "" for none."""
    return value if isinstance(value, str) else "" if value is None else str(value)
