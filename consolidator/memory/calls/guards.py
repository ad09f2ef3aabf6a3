"""Tell whether an error states a guard, and whether a call gets round one: that is no fix to recommend.

Pure. A guard asks for something to be done first, or forbids: "Read it first", a hook, a protected branch, a person.
"""

from __future__ import annotations

import re
from typing import Any

from consolidator.memory.calls.check_bypass import bypasses, leaves_check_off
from consolidator.memory.calls.symbols import shell_command

_REFUSED = r"(?:block|den[iy]|disallow|reject|declin|refus|restrict|prevent|prohibit|forb[ia]d|stopp)\w*"
_GUARD = re.compile(
    r"\bnot been read\b|\bread it (?:again|first)\b|\bmodified since\b|\bbefore (?:attempting|writing|editing|you)\b"
    r"|\b(?:must|need to|have to|should|please)\b[^.]{0,60}\b(?:first|before)\b"
    r"|\bnot (?:allowed|permitted)\b|\bforbidden\b|\bprotected\b|\bprohibited\b|\bpolicy\b|\bpermission to\b"
    r"|\brefus(?:e|es|ed|ing) to\b|\bread-?only\b"
    # a hook that failed, or refused by one
    rf"|\b(?:(?:pre|post)-\w+|commit-msg|update|receive|git|commit|push)[- ](?:hooks?"
    rf"|checks?)\b.{{0,40}}\b(?:fail\w*|exit\w*|return\w*|{_REFUSED})"
    rf"|\bhooks?\b[^.]{{0,30}}\b(?:failed|{_REFUSED})|\b{_REFUSED}[^.]{{0,40}}\bhooks?\b"
    rf"|\bfailed\b[^.]{{0,20}}\bhooks?\b"
    # what a person has to allow, or did not
    r"|\b(?:requir\w+|needs?|await\w*|pending|without|missing|lacks?)\b[^.]{0,40}\b(?:approv\w+|confirmation"
    r"|consent|sign-?off"
    r"|authorization|review\b)|\b(?:approval|confirmation|consent) (?:is |was )?(?:required|needed|denied|rejected)"
    r"|\bnot (?:been )?(?:approved|authorized to)\b"
    r"|\b(?:user|person|human|operator|reviewer)\b[^.]{0,30}\b(?:(?:doesn'?t|does not|didn'?t|did not"
    r"|don'?t) (?:want|allow|approve|wish)"
    r"|(?:has |have )?(?:rejected|declined|denied|refused|cancell?ed|disapproved))\b"
    r"|\b(?:rejected|declined|denied|refused|cancell?ed|disapproved|interrupted) by (?:the |a )?(?:user|person"
    r"|human|operator|reviewer)\b"
    # what surrounds the program
    rf"|\b{_REFUSED} by\b[^.]{{0,40}}\b(?:sandbox|rules?|admin\w*|firewall|protection|security|settings"
    rf"|organi[sz]ation|safety|guard\w*"
    r"|permissions?|allow-?list|deny-?list|classifier)"
    rf"|\bsandbox\w*\b[^.]{{0,40}}\b{_REFUSED}|\b{_REFUSED}[^.]{{0,40}}\bsandbox|\boutside (?:of )?the (?:sandbox"
    rf"|allowed|permitted)",
    re.IGNORECASE,
)


def states_guard(text: str) -> bool:
    """Whether an error asks for something to be done first, or says that something or somebody forbids the call."""
    return _GUARD.search(text) is not None


def adds_bypass(tool: str, failing: Any, later: Any) -> bool:
    """Whether a later shell call skips a check that the failing one did not skip; both as arguments of the tool."""
    line = shell_command(tool, later)
    if line is None:
        return False
    added = bypasses(line)
    return bool(added) and not added <= bypasses(shell_command(tool, failing) or str(failing))


def switches_off_check(tool: str, arguments: Any) -> bool:
    """Whether a shell call switches a check off for the calls after it."""
    line = shell_command(tool, arguments)
    return line is not None and leaves_check_off(line)
