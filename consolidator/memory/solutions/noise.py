"""Recognize failed calls that teach nothing: rejected, aborted, cascades, searches without a match.

Pure: looks at one call and its result.
"""

from __future__ import annotations

import re

from consolidator.memory.calls import shell, tool_kinds
from consolidator.memory.calls.call_pairing import CompletedCall
from consolidator.memory.calls.symbols import shell_command

_EDGE = 300  # characters at the start, or the end, in which a reason or a status stands
_REASONS = (
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
_REPORT = re.compile(r"(?:Exit code \d+\n)?[^\t\n]{1,200}\t(?:pass|fail|pending|skipping)\t")  # of `gh pr checks`
_GONE = re.compile(  # of what runs in the background
    r"(?:unknown|no such|no) (?:process|session|task|shell)\b|(?:process|session|task|shell)\b.{0,40}"
    r"(?:not found|not running|no longer)",
    re.IGNORECASE,
)
_EXIT_STATUS = re.compile(
    r"\bexit(?:ed with)?(?: code| status)?:?\s*(\d+)|\bcode (\d+)\s*$|\"exit_code\":\s*(\d+)", re.IGNORECASE
)


def noise_reason(call: CompletedCall, text: str) -> str | None:
    """Return why a failed call with the result `text` teaches nothing; None where it is an error."""
    if call.reason in ("rejected", "aborted", "cascade"):
        return call.reason
    start = text[:_EDGE]
    for reason, pattern in _REASONS:  # few formats say why a call did not run
        if pattern.search(start):
            return reason
    if _REPORT.match(text):
        return "report"
    if tool_kinds.POLLING_TOOLS.fullmatch(tool_kinds.tool_base_name(call.tool)) and _GONE.search(start):
        return "gone"
    return "found nothing" if _is_empty_search(call, text) else None


def _is_empty_search(call: CompletedCall, text: str) -> bool:
    line = shell_command(call.tool, call.arguments)
    if line is None or call.reason == "timeout" or not _ends_with_search(line):
        return False
    status = _EXIT_STATUS.search(text[-_EDGE:]) or _EXIT_STATUS.search(text[:_EDGE])
    code = next((group for group in status.groups() if group), "1") if status else "1"
    return code == "1"


def _ends_with_search(line: str) -> bool:
    """Whether a search decides a line's exit status: the last command, or the reported one."""
    commands = shell.parse_commands(line)
    reported = shell.reported_command(commands)
    return any(
        command.program in tool_kinds.SEARCHING_PROGRAMS
        or (command.subcommand or "").split(" ")[0] in tool_kinds.SEARCHING_SUBCOMMANDS.get(command.program, ())
        for command in (commands[-1:] + ([reported] if reported else []))
    )
