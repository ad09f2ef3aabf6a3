"""Finds what an object's own type makes a credential: the values of a Kubernetes Secret, in YAML and in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from consolidator.llm.redaction.credential_formats import CredentialSpan
from consolidator.llm.redaction.value_shapes import is_placeholder

_KIND = re.compile(r"\bkind\\{0,4}[\"']?:\s{0,4}\\{0,4}[\"']?(?:Sealed)?Secret\b(?!\w)")
_DATA = re.compile(r"\b(?:stringData|data)\\{0,4}[\"']?:[ ]{0,4}(?P<brace>\{)?")
# One entry of YAML or JSON, also with escaped line ends; a block's text stands in the lines below its key.
_ENTRY = re.compile(
    r"(?P<indent>(?:^|\n|\\n)[ ]{1,16}|[{,]\s{0,40})\\{0,4}[\"']?[A-Za-z0-9._-]{1,128}\\{0,4}[\"']?:[ ]{0,4}"
    r"(?:[|>][+-]?(?:\n|\\n)\s{1,32})?\\{0,4}[\"']?(?P<value>[^\s\"'{}\[\],\\][^\s\"'{},\\]{2,8192}+)"
)
_REACH = 16_384  # characters of a manifest on each side of its kind
_DIVIDER = re.compile(r"(?:\n|\\n)---|(?:\n|\\n)[a-zA-Z]")


def find_secret_members(value: Mapping[Any, Any]) -> dict[str, str]:
    """Return the members of a JSON object that its type makes credentials, with their kind: of Secrets, of web keys."""
    if value.get("kind") == "Secret":
        return {"data": "secret", "stringData": "secret"}
    if isinstance(value.get("kty"), str):
        return dict.fromkeys(("d", "p", "q", "dp", "dq", "qi", "k"), "private-key")
    return {}


def find_manifest_secrets(text: str) -> Iterator[CredentialSpan]:
    """Yield the values in the data of Secrets."""
    if "Secret" not in text or "kind" not in text:
        return
    reach = 0  # what was read for an earlier kind or data is not read again
    for kind in _KIND.finditer(text):
        if kind.start() < reach:
            continue
        start = max(text.rfind("\n---", reach, kind.start()), kind.start() - _REACH, reach)
        end = text.find("\n---", kind.end(), kind.end() + _REACH)
        reach = min(len(text), kind.end() + _REACH) if end < 0 else end
        yield from _find_data(text, start, reach)


def _find_data(text: str, start: int, end: int) -> Iterator[CredentialSpan]:
    """Yield the values of the data between two positions."""
    stop = start
    for data in _DATA.finditer(text, start, end):
        if data.start() < stop:
            continue
        if data["brace"]:
            close = text.find("}", data.end(), end)
            stop = close if close >= 0 else end
            begin = data.end() - 1
        else:
            divider = _DIVIDER.search(text, data.end(), end)
            stop = divider.start() if divider else end
            begin = data.end()
        for entry in _ENTRY.finditer(text, begin, stop):
            if not is_placeholder(entry["value"]):
                yield entry.start("value"), entry.end("value"), "secret"
