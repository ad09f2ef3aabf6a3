"""What stays out of memory by its markers: `<private>…</private>`, and what memory itself put into a prompt.

The log holds private passages as they were said, and so does the conversation; what the nights read does not.
`strip_recalled` is what memory reads messages, reasons, goals and answers of the log through, and results where facts
are read from them; private passages go with it. Calls and results for procedures and solutions are read by
`read_tool_value`, which takes out private passages alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from consolidator.markup import Tag, find_tags

PRIVATE = "private"
# The rest of an opening tag after its name; a tag in a quoted attribute is none.
_REST_OF_TAG = re.compile(
    r"(?:=\s{0,9}(?:\"[^\"]*\"|'[^']*')|(?!&gt;|=\s{0,9}(?:\"[^\"]*\"|'[^']*'))[^<>\uff1e])*(?P<bracket>>|\uff1e|&gt;)",
    re.IGNORECASE,
)


def strip_private(text: str, *, is_excerpt: bool = False) -> str:
    """Return a text without its private passages; one that nothing closes goes to the text's end.

    An excerpt, such as a tool's output, may begin within a passage: a closing tag that nothing opened ends that one.

    Passages may be nested. The tags count in any spelling: capitals, spaces and invisible characters hide nothing. A
    closing tag too many closes what the first opening tag began. A tag between backticks or without content is only
    named, unless a closing tag follows it.
    """
    kept: list[str] = []
    done = 0
    for start, end in _find_passages(text, is_excerpt=is_excerpt):
        kept.append(text[done:start])
        done = end
    return " ".join(kept if done > len(text) else [*kept, text[done:]])


def has_unclosed_passage(text: str) -> bool:
    """Whether a private passage begins in a text and does not end in it."""
    return any(end > len(text) for _, end in _find_passages(text, is_excerpt=True))


def _find_passages(text: str, *, is_excerpt: bool) -> list[tuple[int, int]]:
    """Return start and end of each private passage, in order; one that nothing closes ends behind the text."""
    tags = _drop_tags_in_attributes(find_tags(text, (PRIVATE,)), text)
    named = [_is_named(tag, text) for tag in tags]
    closed = _find_closed(tags, named)
    passages: list[tuple[int, int]] = []
    depth = start = 0
    begins_named = False  # the passage begins with a tag that may be only named
    for tag, is_named, is_closed in zip(tags, named, closed, strict=True):
        if not tag.is_closing:
            if depth == 0 and is_named and not is_closed:
                continue
            if depth == 0:
                start, begins_named = tag.start, is_named
            depth += 1
        elif depth and (begins_named or not is_named):
            depth -= 1
            if depth == 0:
                passages.append((start, tag.end))
        elif (passages or is_excerpt) and not depth and not is_named:
            # It cannot be told which passage it ends.
            passages = [(0 if is_excerpt else passages[0][0], tag.end)]
    return [*passages, (start, len(text) + 1)] if depth else passages


def _find_closed(tags: Sequence[Tag], named: Sequence[bool]) -> list[bool]:
    """Tell for each tag whether a closing one follows it directly, or as the next that is more than named."""
    closed: list[bool] = []
    next_closes = next_unnamed_closes = False
    for tag, is_named in zip(reversed(tags), reversed(named), strict=True):
        closed.append(next_closes or next_unnamed_closes)
        next_closes = tag.is_closing
        if not is_named:
            next_unnamed_closes = tag.is_closing
    return closed[::-1]


def _is_named(tag: Tag, text: str) -> bool:
    """Tell whether a tag may only be named by its writer: it stands between backticks, or has no content."""
    rest = None if tag.is_closing else _REST_OF_TAG.match(text, tag.end)
    return tag.is_mentioned or (rest is not None and text.endswith("/", tag.end, rest.start("bracket")))


def _drop_tags_in_attributes(tags: Sequence[Tag], text: str) -> list[Tag]:
    kept: list[Tag] = []
    done = 0
    for tag in tags:
        if tag.start < done:
            continue
        kept.append(tag)
        rest = None if tag.is_closing else _REST_OF_TAG.match(text, tag.end)
        done = rest.end() if rest else tag.end
    return kept


RECALL_BEGIN, RECALL_END = "<recalled-memory>", "</recalled-memory>"
# Of a context's other blocks.
SUMMARY_TAG, SCRATCHPAD_TAG, EARLIER_TAG = "session-summary", "working_memory", "earlier-thread"
_TAGS = f"{SUMMARY_TAG}|{SCRATCHPAD_TAG}|{EARLIER_TAG}"
_RECALL_BLOCK = re.compile(rf"{re.escape(RECALL_BEGIN)}.*?(?:{re.escape(RECALL_END)}|\Z)", re.DOTALL | re.IGNORECASE)
_OTHER_BLOCK = re.compile(rf"<({_TAGS})>(?:(?!<(?:{_TAGS})>).)*?</\1>", re.DOTALL | re.IGNORECASE)
_CITATION = re.compile(r"\[(?:[a-z]+:|(?=[a-z]_))((?:[a-z]_)?[0-9a-f]{6,})\]")
_MARKER = re.compile(rf"<(/?)(recalled-memory|{_TAGS})>", re.IGNORECASE)


def strip_recalled(text: str) -> str:
    """Return a text without the blocks that memory put there, and without what its writer marked as private.

    A recall block without an end goes to the text's end.
    """
    text = strip_private(text)
    return _OTHER_BLOCK.sub(" ", _RECALL_BLOCK.sub(" ", text)) if "<" in text else text


def escape_markers(text: str) -> str:
    """Return a text that can neither begin nor end a block."""
    return _MARKER.sub(r"(\1\2)", text)


def wrap_block(text: str, tag: str) -> str:
    """Return a text as a block of a context; nothing in the text can end the block."""
    return f"<{tag}>\n{escape_markers(text)}\n</{tag}>"


def find_citations(text: str | None) -> list[str]:
    """Return the ids of what memory cites in a text, each once."""
    return list(dict.fromkeys(_CITATION.findall(text or "")))
