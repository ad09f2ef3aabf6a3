"""Decide from a tool's output alone whether the call failed, for logs without a status.

Conservative: a false "failed" teaches a false fix, a missed failure only loses one. Errors that a program merely
prints (in a log, a search result, documentation) must not count, so nearly every rule is anchored.
"""

from __future__ import annotations

import re

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
