"""Tells from a tool's output alone whether it failed, for logs that carry no status of their own.

Conservative: a wrong "failed" teaches a false fix, a missed one only a little less. What a program prints about
errors of others (a log, a search result, a page of documentation) must not count, so nearly every rule is anchored.
"""

from __future__ import annotations

import re

# Said by the tools of agent frameworks, at the very start of the output: nobody else begins so.
_TOOL_SAYS = re.compile(
    r"""(?x)
    Your\ proposed\ edit\ has\ introduced\ new\ syntax\ error   # swe-agent's edit with linting: not applied
    | Your\ edit\ was\ not\ applied
    | Your\ changes\ have\ NOT\ been\ applied
    | No\ replacement\ was\ performed                           # str_replace editors
    | No\ file\ open\b                                          # an edit before any open
    | File\ \S+\ not\ found\.?\s*(?:\n|\Z)
    | Error:\s | Error\ executing\ query\b | ERROR\ \d{4}\ \(    # general; InterCode's SQL; MySQL's client
    | Malformed\ command\s*\Z                                   # InterCode's shell
    | Wrong\ flag!\s*\Z                                         # a CTF's submit
    """
)

# A shell's or a core utility's complaint about the command itself: "prog: what: reason", a whole line.
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
_HINT = re.compile(r"(?i)^(?:try .*--help\b.*|usage: .*|\S+: possible unquoted pattern\b.*|.*: try .*--help\b.*)$")
# bash names an inline script by its own text, so a broken one reads "<script>: -c: line 1: syntax error ...".
_INLINE = re.compile(r": -c: line \d+: ")

_TIMED_OUT = re.compile(
    r"(?ms)^EXECUTION TIMED OUT\b|^COMMAND TIMED OUT\b|\AThe command .{0,2000} was cancelled because it took more than"
)
_EXIT_CODE = re.compile(
    r"(?i)^\W*(?:process |command )?(?:exit(?:ed)?(?: with)?(?: code| status)?|returncode)\W+([1-9]\d{0,2})\W*$"
)
_PROCESS_DONE = re.compile(r"///PROCESS-DONE:(\d+):PROCESS-DONE///\s*\Z")

_TRACEBACK = re.compile(r"(?m)^Traceback \(most recent call last\):\s*$")
# The last line of a traceback that ended the program: "json.JSONDecodeError: ...", "KeyboardInterrupt".
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Iteration|Warning|Failed)\b(?::|\s*$)")

_MOST_LINES = 12  # an output of more lines than this is an output, whatever complaints stand among it


def timed_out(text: str) -> bool:
    """Tell whether the environment says that it stopped the command because of its time."""
    return _TIMED_OUT.search(text) is not None


def failed(text: str) -> bool:
    """Tell whether an output clearly is that of a failed call; in doubt, it is not."""
    body = text.replace("\r\n", "\n").strip()
    if not body:
        return False
    if _TOOL_SAYS.match(body) or timed_out(body):
        return True
    done = _PROCESS_DONE.search(body)
    if done:
        return int(done[1]) != 0
    lines = [line for line in body.split("\n") if line.strip()]
    return _EXIT_CODE.match(lines[-1]) is not None or _raised(body, lines) or _only_complaints(lines)


def _raised(body: str, lines: list[str]) -> bool:
    """A traceback begins the output, or stands in it and the output ends with its exception."""
    found = _TRACEBACK.search(body)
    return found is not None and (found.start() == 0 or _EXCEPTION.match(lines[-1]) is not None)


def _only_complaints(lines: list[str]) -> bool:
    """Nothing but complaints and usage hints: one refused path among many results is no failure."""
    if len(lines) > _MOST_LINES:
        return False
    complaints = [line for line in lines if _COMPLAINT.match(line) or _INLINE.search(line)]
    return bool(complaints) and len(complaints) + sum(_HINT.match(line) is not None for line in lines) >= len(lines)
