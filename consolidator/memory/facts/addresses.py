"""Recognises addresses of other hosts, and what a value from elsewhere may say: how much, which version, what state.

Who names a thing in a mail or a page may be the one who made it: a registry that serves other packages, a formatter
that runs other code, a key that signs for somebody else. There is no list of all that can be fetched, sent to, run or
trusted; so a value that names anything is taken for one of them.
"""

from __future__ import annotations

import re

from consolidator.memory.text.phrasing import word_set

_FILE_SUFFIX = (
    "js|ts|py|rb|rs|go|md|sh|cs|cc|hs|kt|pl|ps|so|el|ml|mk|tf|db|gz|xz|bz|in|im|vb|pm|ex|hh|mm|fs|nu|jl|ac|am|la|po|mo"
)
_HOST = re.compile(
    r"\b[a-z][a-z0-9+.-]*://(?P<authority>[^\s/?#'\"<>]*)"
    r"|\b[\w.-]+@(?P<login>[\w.-]+):"
    r"|\b(?P<ip>\d{1,3}(?:\.\d{1,3}){3})(?![\w.])"
    r"|\[(?P<ip6>[0-9a-f:]*:[0-9a-f:]*:[0-9a-f:]*)\]"
    r"|(?<![\w:.])(?P<bare_ip6>(?:[0-9a-f]{1,4}:){1,7}:(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?|(?:[0-9a-f]{1,4}:){7}"
    r"[0-9a-f]{1,4})(?![\w:])"
    r"|(?<![\w/.-])(?P<port>[a-z][\w.-]*):\d{3,5}(?![\w.])"
    r"|(?<![\w/@.-])(?P<name>(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:com|org|net|edu|gov|info|biz|dev|app|cloud|xyz|site"
    r"|online|tech|top|live|museum|email|mobi|onion|shop|store|blog|page|link|click|icu|zone|network|systems|services"
    r"|digital|agency|website|space|host|example|invalid|test|internal|local|intern|corp|lan"
    rf"|(?!(?:{_FILE_SUFFIX})\b)[a-z]{{2}}))(?![\w.-])",
    re.IGNORECASE,
)
_LOOPBACK = re.compile(
    r"(?:[^@]*@)?(?:localhost|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[?::1?\]?|host\.docker\.internal)(?::\d+)?", re.IGNORECASE
)
_NO_HOST = re.compile(r"(?:port|line|column|code|status|id|pid|error|time|size|count|year)s?", re.IGNORECASE)
# What the safety of other things rests on: of these, a state from elsewhere is believed no more than a name.
_SAFEGUARD = re.compile(
    r"\b(?:verif\w*|validat\w*|sign\w*|trust\w*|auth\w*|tls|ssl|certificat\w*|cert|check\w*|review\w*|approv\w*|"
    r"permission\w*|sandbox\w*|firewall\w*|protect\w*|token\w*|password\w*|secret\w*|credential\w*|keys?|scan\w*|"
    r"audit\w*|encrypt\w*|secur\w*|polic\w*|guard\w*|login|access|quarantine|antivirus|fingerprint\w*|checksum\w*|"
    r"hash\w*|digest\w*|lock\w*|pinn\w*|allow\w*|block\w*|isolat\w*|mfa|2fa|hooks?)\b"
)
_ROUTE = re.compile(r"\b(?:endpoints?|routes?)\b")
_ROUTE_PATH = re.compile(
    r"/(?!(?:bin|sbin|usr|opt|tmp|home|root|etc|var|srv|mnt|media|dev|proc|sys|lib\w*)\b)[\w./{}:-]*"
)
_EVERYDAY = word_set("flight flights building buildings vehicle vehicles warehouse warehouses inventory printer")
_EVERYDAY_DETAILS = word_set("route size status board boards catalog catalogue camera robot elevator floor")
_SEPARATORS = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\W]+")
# A number, date or version, perhaps with a unit in plain words; nine digits and more may be an address.
_AMOUNT = re.compile(
    r"(?!.*\d{9})(?:[\^~]|[<>=~]=?)?v?[\d.,:%\s/+-]*\d[\d.,:%\s/+-]*"
    r"(?:[a-z\u00b0\u00b5]{0,3}(?:/[a-z]{1,6})?"
    r"|(?<=[\s%])(?!\w*(?:from|via|at|by|on|to|with|through|using|in|under)\b)[a-z]+"
    r"(?: (?!(?:from|via|at|by|on|to|with|through|using|in|under)\b)[a-z]+){0,2})"
)
_MAX_AMOUNT = 60  # characters
_STATES = word_set(
    """
    true false yes no on off up down healthy unhealthy none null online offline running stopped open closed enabled
    disabled active inactive available unavailable ready pending failed failing passed passing green red delayed
    cancelled canceled boarding landed degraded full empty busy idle deprecated stable ok
    """
)


def has_foreign_address(text: str) -> bool:
    """Tell whether a text has the address of a host that is not the machine itself."""
    for match in _HOST.finditer(text):
        host = next((group for group in match.groups() if group), "")
        if host and not _LOOPBACK.fullmatch(host) and not (match["port"] and _NO_HOST.fullmatch(host)):
            return True
    return False


def without_addresses(text: str) -> str:
    """Return a text without its words that hold an address."""
    return " ".join(word for word in text.split() if not has_foreign_address(word))


def is_measure(names: str, value: str, things: frozenset[str]) -> bool:
    """Tell whether a value only says how much, which version or what state; it names nothing to fetch, run or trust.

    `names` are those of subject and predicate, `things` the words for things among the subject's. What is told of
    everyday things may be named, too: nobody installs a flight's gate.
    """
    words = _SEPARATORS.sub(" ", names).lower()
    folded = value.strip().lower()
    if len(folded) <= _MAX_AMOUNT and _AMOUNT.fullmatch(folded):
        return True
    if folded in _STATES:
        return _SAFEGUARD.search(words) is None
    if _ROUTE.search(words) and _ROUTE_PATH.fullmatch(folded):
        return True
    return bool(things & _EVERYDAY) and things <= _EVERYDAY | _EVERYDAY_DETAILS and _SAFEGUARD.search(words) is None
