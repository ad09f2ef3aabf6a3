"""Takes out what people mark as private: `<private>…</private>` around words keeps them out of memory.

The log holds them as they were said, and so does the conversation; what the nights read does not.
"""

from __future__ import annotations

from consolidator.markup import find_tags

_NAME = "private"


def strip_private(text: str) -> str:
    """Return a text without its private passages; one that nothing closes goes to the text's end.

    Passages may be nested. The tags count in any spelling: capitals, spaces and invisible characters hide nothing.
    """
    kept: list[str] = []
    depth = done = 0
    for tag in find_tags(text, (_NAME,)):
        if tag.start < done:
            continue
        if not tag.is_closing:
            if depth == 0:
                kept.append(text[done : tag.start])
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                done = tag.end
    if depth == 0:
        kept.append(text[done:])
    return " ".join(kept) if kept else text
