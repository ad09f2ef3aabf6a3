"""Tell whether an error states a guard, and whether a call gets round one: that is no fix to recommend.

Pure. A guard asks for something to be done first, or forbids: "Read it first", a hook, a protected branch.
"""

from __future__ import annotations

import re
from typing import Any

from consolidator.memory.calls.symbols import shell_command

_GUARD = re.compile(
    r"\bnot been read\b|\bread it (?:again|first)\b|\bmodified since\b|\bbefore (?:attempting|writing|editing|you)\b"
    r"|\b(?:must|need to|have to|should|please)\b[^.]{0,60}\b(?:first|before)\b"
    r"|\bnot (?:allowed|permitted)\b|\bforbidden\b|\bprotected\b|\bprohibited\b|\bpolicy\b|\bpermission to\b"
    r"|\brefus(?:e|es|ed|ing) to\b|\bread-?only\b",
    re.IGNORECASE,
)
_BYPASS = re.compile(  # options, settings and modes whose purpose is to skip a check
    r"(?<!\S)(?:--no-(?:verify|check|checks|verify-ssl|check-certificate|gpg-sign|gpg-check|strict\S*|lint|hooks?)"
    r"|--force(?!-with-lease|-recreate|-reinstall)|--skip-\S*(?:check|verif|test|valid|hook|lint|audit)\S*"
    r"|--(?:insecure|unsafe\S*|dangerous\S*|trust\S*|no-sandbox|break-system-packages|allow-(?:unsafe|unrelated|root)\S*"
    r"|disable-\S*(?:check|verif|valid|secur|hook)\S*|ignore-(?:checks?|errors?|certificate\S*|scripts|requires\S*)))(?=[\s=]|$)"
    r"|\bHUSKY=0\b|\bSKIP=\S|\bGIT_SSL_NO_VERIFY=|\bNODE_TLS_REJECT_UNAUTHORIZED=0|\bcore\.hooksPath\b"
    r"|\bchmod (?:-R )?(?:0?777|a\+rwx)\b|\bgit (?:push|add|checkout|clean|commit)\b[^|;&]*\s-f\b|\bcurl\b[^|;&]*\s-k\b"
    r"|\bsslverify[= ]false\b",
    re.IGNORECASE,
)

_SWITCHED_OFF = re.compile(  # what a call leaves behind, so that later calls are not checked
    r"\bchmod (?:-R )?(?:0?777|a\+rwx)\b|\bcore\.hooksPath\b|\b(?:sslverify|strict-ssl|commit\.gpgsign)[= ]false\b"
    r"|\bexport (?:HUSKY=0|SKIP=\S|GIT_SSL_NO_VERIFY=|NODE_TLS_REJECT_UNAUTHORIZED=0)|\bsetenforce 0\b|\bufw disable\b"
    r"|\brm (?:-\w+ )*\S*\.git/hooks/",
    re.IGNORECASE,
)


def states_guard(text: str) -> bool:
    """Whether an error asks for something to be done first, or says that something is forbidden."""
    return _GUARD.search(text) is not None


def adds_bypass(tool: str, failing: Any, later: Any) -> bool:
    """Whether a later shell call skips a check that the failing one did not skip; both as arguments of the tool."""
    line = shell_command(tool, later)
    if line is None:
        return False
    before = {match[0].split("=")[0] for match in _BYPASS.finditer(shell_command(tool, failing) or str(failing))}
    return any(match[0].split("=")[0] not in before for match in _BYPASS.finditer(line))


def switches_off_check(tool: str, arguments: Any) -> bool:
    """Whether a shell call switches a check off for the calls after it."""
    line = shell_command(tool, arguments)
    return line is not None and _SWITCHED_OFF.search(line) is not None
