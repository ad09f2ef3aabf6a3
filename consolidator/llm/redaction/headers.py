"""Finds the credentials of HTTP requests: authorization headers, cookies."""

from __future__ import annotations

import re
from collections.abc import Iterator

from consolidator.llm.redaction.assignments import is_word_or_reference
from consolidator.llm.redaction.credential_formats import CredentialSpan
from consolidator.llm.redaction.value_shapes import is_placeholder, is_tangled, is_uuid, looks_random, mixes_kinds

_HEADER = re.compile(r"(?i)\b(bearer|basic|token|digest|apikey|bot)\s{1,2}([A-Za-z0-9._~+/=-]{8,8192}+)")
# After the header's name any scheme may follow, or none.
_AUTHORIZATION = re.compile(
    r"(?i)authorization\\{0,4}[\"']?\]?\s{0,2}[:=,]\s{0,2}\\{0,4}[\"']?"
    r"(?:[A-Za-z][A-Za-z0-9-]{1,24}\s{1,2}|(?![A-Za-z][A-Za-z0-9-]{1,24}\s))(?P<value>[A-Za-z0-9._~+/=:-]{8,8192}+)"
)
_SESSION_NAME = re.compile(r"(?i)sid\b|sess|auth|token|jwt|csrf|xsrf|remember|login")
_COOKIE = re.compile(r"(?i)\b(set-cookie2?|cookie)\\{0,4}[\"']?\s{0,2}[:=,]\s{0,2}\\{0,4}[\"']?([^\r\n\"'\\]{8,8192}+)")
_COOKIE_OPTION = re.compile(
    r"\s(?:-b|--cookie)[\s=]\s{0,3}\\{0,4}(?:[\"'](?P<quoted>[^\r\n\"'\\]{8,8192}+)|(?P<bare>[^\s\"'\\]{8,8192}+))"
)
# Cookies that web frameworks give their sessions, as one sees them outside of headers.
_SESSION_COOKIE = re.compile(
    r"(?:JSESSIONID|PHPSESSID|ASPSESSIONID[A-Z]{0,8}|ASP\.NET_SessionId|connect\.sid|sessionid|csrftoken|_session|remember_token)"
    r"\\{0,4}[\"']?\s{0,2}[=:]\s{0,2}\\{0,4}[\"']?(?P<value>[A-Za-z0-9._~%+/=:-]{16,4096}+)"
)
_SESSION_PARTS = ("sessionid", "sessid", "_session=", "connect.sid", "csrftoken", "remember_token")


def find_headers(text: str, lowered: str) -> Iterator[CredentialSpan]:
    """Yield the credentials of authorization headers and cookies."""
    has_authorization = "authorization" in lowered
    if has_authorization or "bearer" in lowered or "apikey" in lowered:
        for match in _HEADER.finditer(text):
            scheme, value = match.group(1).lower(), match.group(2)
            if scheme != "bearer" and "authorization" not in lowered[max(0, match.start() - 32) : match.start()]:
                continue
            if not is_placeholder(value) and not is_word_or_reference(value):
                yield match.start(2), match.end(2), "basic-auth" if scheme == "basic" else "bearer-auth"
    if has_authorization:
        for match in _AUTHORIZATION.finditer(text):
            value = match["value"]
            if _is_raw_credential(value) and not is_word_or_reference(value):
                yield match.start("value"), match.end("value"), "authorization"
    if "cookie" in lowered:
        for match in _COOKIE.finditer(text):
            if _has_session_cookie(match.group(2)):
                yield match.start(2), match.end(2), "cookie"
    if " -b" in text or " --cookie" in text:
        for match in _COOKIE_OPTION.finditer(text):
            group = match.lastgroup or "bare"
            if _has_session_cookie(match[group]):
                yield match.start(group), match.end(group), "cookie"
    if any([part in lowered for part in _SESSION_PARTS]):  # noqa: C419 - twice as fast
        for match in _SESSION_COOKIE.finditer(text):
            if _is_raw_credential(match["value"]):
                yield match.start("value"), match.end("value"), "cookie"


def _is_raw_credential(value: str) -> bool:
    return looks_random(value) or _is_hexadecimal(value) or is_tangled(value) or mixes_kinds(value)


def _has_session_cookie(cookies: str) -> bool:
    for pair in cookies.split(";"):
        name, equals, value = pair.partition("=")
        if equals and _is_session_cookie(name.strip(), value.strip()):
            return True
    return False


def _is_session_cookie(name: str, value: str) -> bool:
    """Tell whether a cookie authenticates a session: by its value alone, or by its name and a value that is no word."""
    if looks_random(value) or _is_hexadecimal(value):
        return True
    if _SESSION_NAME.search(name) is None or is_placeholder(value):
        return False
    return is_tangled(value) or mixes_kinds(value) or is_uuid(value)


def _is_hexadecimal(value: str) -> bool:
    return len(value) >= 32 and all(char in "0123456789abcdefABCDEF-" for char in value)
