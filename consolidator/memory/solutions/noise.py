"""Tells failed calls that teach nothing: rejected, aborted, dragged along, a search that found nothing, a poll.

Pure: looks at one call and its result.
"""

from __future__ import annotations

import re

from consolidator.memory.calls import shell, tool_kinds
from consolidator.memory.calls.call_pairing import CompletedCall
from consolidator.memory.calls.symbols import shell_command
from consolidator.memory.solutions import fingerprint as naming

_HEAD = 300  # these are said at the beginning
_SAID = (
    ("cascade", re.compile(r"sibling tool call errored|cancelled: parallel tool call", re.IGNORECASE)),
    (
        "rejected",
        re.compile(
            r"user (?:doesn't|does not) want to|(?:rejected|denied|declined) by (?:the )?user|user"
            r" (?:has )?(?:rejected|denied|declined)|permission to use .{1,80} (?:has been )?denied"
            r"|tool use was rejected",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    (
        "aborted",
        re.compile(
            r"^\W*(?:command|operation|request|tool(?: call| execution)?|execution)?\s*(?:was |has been )?"
            r"(?:aborted|interrupted|cancell?ed)(?: by (?:the )?user| for tool use)?\W*$|interrupted by (?:the )?user"
            r"|aborted by (?:the )?user",
            re.IGNORECASE | re.MULTILINE,
        ),
    ),
)
_NOTHING = re.compile(
    r"^\W*(?:no (?:files?|match(?:es)?|results?|entries|lines)(?: \w+)* ?(?:found|matched)?|0 (?:results|matches|files)"
    r"|nothing found|found 0 \w+|not found)\b",
    re.IGNORECASE,
)
_STATUS = re.compile(
    r"\bexit(?:ed with)?(?: code| status)?:?\s*(\d+)|\bcode (\d+)\s*$|\"exit_code\":\s*(\d+)", re.IGNORECASE
)


def noise_reason(call: CompletedCall, text: str) -> str | None:
    """Return why a failed call teaches nothing, or None where it is an error; `text` is its result's."""
    if call.reason in ("rejected", "aborted", "cascade"):
        return call.reason
    start = text[:_HEAD]
    for reason, pattern in _SAID:
        if pattern.search(start):
            return reason
    name = call.tool.rsplit("__", 1)[-1].lower()
    if tool_kinds.POLLING_TOOLS.fullmatch(name) and (
        call.reason == "timeout" or re.search(r"time(?:d )?out", start, re.IGNORECASE)
    ):
        return "polling"
    return "found nothing" if _found_nothing(call, name, text) else None


def _found_nothing(call: CompletedCall, name: str, text: str) -> bool:
    line = shell_command(call.tool, call.arguments)
    said = naming.headline(text)
    if line is None:
        return tool_kinds.SEARCHING_TOOLS.fullmatch(name) is not None and (
            not said or _NOTHING.search(said) is not None
        )
    if call.reason == "timeout" or not _searches(line):
        return False
    status = _STATUS.search(text[-_HEAD:]) or _STATUS.search(text[:_HEAD])
    code = next((group for group in status.groups() if group), "1") if status else "1"
    return code == "1" and not naming.contains_error_line(text)


def _searches(line: str) -> bool:
    """Whether a search's status is what the line ends with: the last of a pipeline, or the one that reports."""
    commands = shell.parse_commands(line)
    main = shell.reported_command(commands)
    return any(
        command.program in tool_kinds.SEARCHING_PROGRAMS
        or (command.subcommand or "").split(" ")[0] in tool_kinds.SEARCHING_SUBCOMMANDS.get(command.program, ())
        for command in (commands[-1:] + ([main] if main else []))
    )
