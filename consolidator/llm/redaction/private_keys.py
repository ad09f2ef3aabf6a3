"""Finds private keys: PEM blocks, complete or truncated, PuTTY's files, JSON web keys, and base64 of any of these."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from itertools import pairwise

from consolidator.llm.redaction.credential_formats import CredentialSpan

_KEY_LIMIT = 65_536  # characters of a private key block
_KEY_MARKER = re.compile(r"-----(BEGIN|END)[A-Z0-9 _-]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{24,}")
# Between two lines of a key there may be escapes (\n, \\n), a viewer's line numbers (12→), headers of old formats.
_KEY_GAP = 24  # characters
_PUTTY_KEY = re.compile(r"Private-Lines:\s{0,4}\d{1,3}")
_PUTTY_LIMIT = 8192  # characters of its private part
_PUTTY_MAC = re.compile(r"Private-(?:MAC|Hash):\s{0,4}([0-9a-fA-F]{32,128})")
_WEB_KEY = re.compile(r"[\"']kty\\{0,4}[\"']\s{0,4}:\s{0,4}\\{0,4}[\"'](?:RSA|EC|OKP|oct)\\{0,4}[\"']")
_WEB_KEY_MEMBER = re.compile(
    r"[\"'](?:d|p|q|dp|dq|qi|k)\\{0,4}[\"']\s{0,4}:\s{0,4}\\{0,4}[\"']([A-Za-z0-9_=-]{16,2048}+)"
)
_WEB_KEY_REACH = 4096  # characters of a key object on each side of its type
# base64 of "-----BEGIN" at each of its three offsets, and of what OpenSSH's keys begin with.
_ENCODED_MARKER = re.compile(r"(?<![A-Za-z0-9+/])(?:LS0tLS1CRUdJTi|b3BlbnNzaC1rZXktdjE)[A-Za-z0-9+/\s\\]{20,}+={0,2}")
_ENCODED_LINE = re.compile(r"[A-Za-z0-9+/]{4,}")
_DECODED_CHARS = 120  # characters of base64 that hold the first line of a key


def find_private_keys(text: str) -> Iterator[CredentialSpan]:
    """Yield private keys in any of their notations."""
    if "PRIVATE KEY" in text:
        yield from _find_pem_blocks(text)
    if "Private-Lines" in text:
        yield from _find_putty_keys(text)
    if "kty" in text:
        yield from _find_web_keys(text)
    if "LS0tLS1CRUdJTi" in text or "b3BlbnNzaC1rZXktdjE" in text:
        yield from _find_encoded_keys(text)


def _find_pem_blocks(text: str) -> Iterator[CredentialSpan]:
    """Yield private key blocks: complete, with escaped line ends, or truncated at either end."""
    markers = list(_KEY_MARKER.finditer(text))
    consumed = 0
    for number, marker in enumerate(markers):
        if marker.group(1) == "END":
            if marker.start() >= consumed:  # its beginning was truncated
                lines = _find_key_lines(text, max(consumed, marker.start() - _KEY_LIMIT // 8), marker.start())
                if lines and marker.start() - lines[-1].end() <= _KEY_GAP:
                    yield _take_adjacent(list(reversed(lines)))[-1].start(), marker.end(), "private-key"
            consumed = marker.end()
            continue
        following = markers[number + 1] if number + 1 < len(markers) else None
        stop = min(following.start() if following else len(text), marker.end() + _KEY_LIMIT)
        lines = _find_key_lines(text, marker.end(), stop)
        if lines and lines[0].start() - marker.end() <= 16 * _KEY_GAP:
            last = _take_adjacent(lines)[-1].end()
            is_complete = following is not None and following.group(1) == "END" and stop - last <= 4 * _KEY_GAP
            consumed = following.end() if is_complete and following else last
            yield marker.start(), consumed, "private-key"


def _find_putty_keys(text: str) -> Iterator[CredentialSpan]:
    for marker in _PUTTY_KEY.finditer(text):
        if _KEY_LINE.search(text, marker.end(), marker.end() + 3 * _KEY_GAP):
            lines = _find_key_lines(text, marker.end(), min(len(text), marker.end() + _PUTTY_LIMIT))
            yield lines[0].start(), _take_adjacent(lines)[-1].end(), "private-key"
    for check in _PUTTY_MAC.finditer(text):
        yield check.start(1), check.end(1), "private-key"


def _find_web_keys(text: str) -> Iterator[CredentialSpan]:
    reach = 0
    for kind in _WEB_KEY.finditer(text):
        start = max(reach, text.rfind("{", max(0, kind.start() - _WEB_KEY_REACH), kind.start()))
        end = text.find("}", kind.end(), kind.end() + _WEB_KEY_REACH)
        reach = kind.end() + _WEB_KEY_REACH if end < 0 else end
        for member in _WEB_KEY_MEMBER.finditer(text, start, reach):
            yield member.start(1), member.end(1), "private-key"


def _find_encoded_keys(text: str) -> Iterator[CredentialSpan]:
    """Yield base64 of private keys, also if it is wrapped; not that of certificates, which begins alike."""
    for match in _ENCODED_MARKER.finditer(text):
        words = list(_ENCODED_LINE.finditer(text, match.start(), match.end()))
        adjacent = _take_adjacent([word for word in words if len(word.group()) >= 12] or words[:1])
        head = re.sub(r"[^A-Za-z0-9+/]", "", text[match.start() : match.start() + _DECODED_CHARS])
        try:
            decoded = base64.b64decode(head[: len(head) // 4 * 4])
        except binascii.Error:
            continue
        if b"PRIVATE KEY" in decoded or decoded.startswith(b"openssh-key-v1"):
            end = adjacent[-1].end()
            yield match.start(), end + len(re.match("={0,2}", text[end : end + 2]).group()), "private-key"  # type: ignore[union-attr]


def _find_key_lines(text: str, start: int, end: int) -> list[re.Match[str]]:
    return list(_KEY_LINE.finditer(text, start, end))


def _take_adjacent(lines: list[re.Match[str]]) -> list[re.Match[str]]:
    """Return the first lines that are close to one another, in text order or reversed."""
    for index, (line, other) in enumerate(pairwise(lines)):
        if max(other.start() - line.end(), line.start() - other.end()) > _KEY_GAP:
            return lines[: index + 1]
    return lines
