"""Recognises addresses of other hosts, and what something is fetched from or sent to.

Who names another one in a mail or a page may be the one who runs it: a registry that serves other packages, a proxy
that reads along, a webhook that is told everything.
"""

from __future__ import annotations

import re

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
_ROLE = re.compile(
    r"registr(?:y|ies)|mirrors?|remotes?|origins?|upstreams?|prox(?:y|ies)|endpoints?|webhooks?|callbacks?|feeds?|cdn|"
    r"gateways?|tunnels?|resolvers?|brokers?|buckets?|certificate authorit(?:y|ies)|key fingerprints?|"
    r"(?:mail|smtp|imap|dns|ntp|ldap|name|time|key|licen[cs]e|auth|login|file|storage|container|docker) ?"
    r"(?:servers?|hosts?|images?)|"
    r"(?:package|extra|pip|npm|wheel|module|crate|gem|simple|python) ?ind(?:ex|ices)|artifactory|nexus|relays?|"
    r"(?:package|download|update|release|install|binary|image|container|git|code|plugin|apt|helm|upload|push|clone|"
    r"base|api|backup|log|metrics?|telemetry)s? ?"
    r"(?:sources?|sites?|servers?|hosts?|channels?|repositor(?:y|ies)|repos?|urls?|targets?|destinations?|"
    r"sinks?|collectors?|address(?:es)?|origins?|buckets?)",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"(?<=[a-z])(?=[A-Z])|[_\W]+")
_PLAIN = re.compile(  # nine digits and more may be an address
    r"(?!\d{9})(?:v?[\d.,:%\s/-]+|true|false|yes|no|on|off|up|down|healthy|none|null|/[\w./{}:-]*|[\d.,]+ ?\D{0,24})"
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


def names_exchange(names: str, value: str) -> bool:
    """Tell whether names (of a subject, a predicate) mean a place to fetch from or send to, and a value says which.

    A number, a version, a state and a path on an unnamed host name none.
    """
    return _ROLE.search(_SEPARATORS.sub(" ", names)) is not None and _PLAIN.fullmatch(value.strip().lower()) is None
