"""Look at the members of a large JSON object, or an array's first one, without parsing it: how each of them begins.

Bounded in memory and in bytes read. Independent of any log format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from consolidator.formats.common.log_files import open_log

MAX_SCANNED = 64 * 1024 * 1024  # bytes; members that begin later are not seen
MAX_MEMBER_START = 4096  # bytes of a member that are yielded
MAX_ARRAYS = 2  # around the first object
_CHUNK = 1024 * 1024
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*"|["{}\[\]]', re.DOTALL)  # a string, or one that is not complete yet
_COLON = re.compile(rb"\s*:")


def read_member_starts(path: Path) -> Iterator[bytes]:
    """Yield the beginning of each member of a file's first object as if it were the first: `[{"key": [{"id": ...`.

    The object is the file itself, its first line or an array's first element. Each beginning is cut after some KiB.
    Yields nothing if the file begins with anything else, and stops where the text is damaged.
    """
    with open_log(path) as file:
        window = file.read(_CHUNK)
        scanned = len(window)
        if window.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
            return
        opening = b""  # brackets up to the first object's
        position = depth = 0
        ended = False
        while True:
            in_object = depth > 0 and depth == len(opening) and opening.endswith(b"{")  # and not in one of its values
            token = _TOKEN.search(window, position)
            is_cut = token is None or token[0] == b'"' or (in_object and len(window) - token.end() < MAX_MEMBER_START)
            if is_cut and not ended:
                rest = window[token.start() :] if token else b""
                # Doubling the window, so that a long string is scanned only a few times.
                more = file.read(min(max(_CHUNK, len(rest)), MAX_SCANNED - scanned))
                ended, scanned = not more, scanned + len(more)
                window, position = rest + more, 0
                continue
            if token is None or token[0] == b'"':
                return
            position = token.end()
            if not opening.endswith(b"{"):
                opening += token[0]
                if token[0] not in (b"{", b"[") or len(opening) > MAX_ARRAYS + 1:
                    return
            if token[0] in (b"{", b"["):
                depth += 1
            elif token[0] in (b"}", b"]"):
                depth -= 1
                if depth < len(opening):
                    return
            elif in_object and _COLON.match(window, position):
                yield opening + window[token.start() : token.start() + MAX_MEMBER_START]
