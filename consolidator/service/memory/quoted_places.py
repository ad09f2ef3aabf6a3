"""Where the words stand that something learned rests on: the title of their session, and what is said around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.service.sessions.listing import read_titles
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.log import events
from consolidator.store.log.events import Span
from consolidator.store.sessions import sessions

AROUND = 240  # characters on each side
MAX_TEXT = 100_000  # characters of an event's text in which a quote is looked for
_TEXTS = ("text", "content", "message", "arguments")  # of an event's payload


@dataclass(frozen=True, slots=True)
class QuotedPlace:
    """What stands around a quote in its event; "" where the quote is all that is said, or the log has it no more."""

    title: str | None  # of the session, where the log has its first words
    before: str
    after: str


async def find_places(
    database: Database, evidence: Sequence[Mapping[str, Any]], *, read: int = 5, viewer: Viewer = OWNER
) -> list[QuotedPlace]:
    """Return the place of each quote of an explanation's evidence; of the first `read` ones with what is around them.

    Raises Forbidden for a viewer who does not reach everything: others are told no more than the quotes.
    """
    viewer.check_may("read")
    viewer.check_unnarrowed()
    there = [proof for proof in evidence if proof["log"] == "there"]
    wanted = [(str(proof["session_id"]), int(proof["seq"])) for proof in there[:read] if proof["quote"]]
    async with database.connection() as conn:
        titles = await read_titles(conn, sorted({str(proof["session_id"]) for proof in there}))
        rows = await sessions.get_each(conn, sorted({session for session, _ in wanted}))
        bounds = {row.id: row.ingest_bounds for row in rows}
        spans = [Span(session, seq - 1, seq, bounds[session]) for session, seq in wanted]
        read_events = await events.read_each(conn, spans, limit=1)
    texts = {place: _text_of(found[0].data) for place, found in zip(wanted, read_events, strict=True) if found}
    return [
        QuotedPlace(
            titles.get(str(proof["session_id"])),
            *_cut_around(texts.get((str(proof["session_id"]), int(proof["seq"])), ""), str(proof["quote"] or "")),
        )
        for proof in evidence
    ]


def _text_of(data: Mapping[str, Any]) -> str:
    """Return an event's text as memory reads it: without secrets."""
    for name in _TEXTS:
        if isinstance(text := data.get(name), str) and text:
            return redact(text[:MAX_TEXT])
    return ""


def _cut_around(text: str, quote: str) -> tuple[str, str]:
    """Return what stands before and after a quote in a text, cut at words; nothing where the text lacks it."""
    begin, found, end = text.partition(quote)
    if not quote or not found:
        return "", ""
    before, after = begin[-AROUND:], end[:AROUND]
    if len(begin) > AROUND:
        before = "…" + before.partition(" ")[2]
    if len(end) > AROUND:
        after = after.rpartition(" ")[0] + "…"
    return before, after
