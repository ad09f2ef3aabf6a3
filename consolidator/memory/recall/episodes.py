"""Episodes: what users and assistants said in a session, redacted and bounded, as recall searches it.

What a harness, a compaction or recall itself put into the context is none: memory must not learn from its own echo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from consolidator.memory.text.recall_markers import strip_recalled
from consolidator.models.event import Event
from consolidator.models.payload import EventType

LONGEST = 4000  # characters of a turn that are kept
MOST = 128_000  # characters of a turn that are redacted


@dataclass(frozen=True, slots=True)
class Episode:
    """One turn."""

    seq: int
    role: str  # user | assistant
    speaker: str | None
    text: str
    occurred_at: datetime


def searched(speaker: str | None, text: str) -> str:
    """Return what of a turn is searched: who said it belongs to it, where there are several."""
    return f"{speaker}: {text}" if speaker else text


def episode(event: Event, redact: Callable[[str], str]) -> Episode | None:
    """Return the turn that an event is, if it is one."""
    if event.type is EventType.USER_MESSAGE and event.data.get("origin", "user") == "user":
        role = "user"
    elif event.type is EventType.ASSISTANT_RESPONSE:
        role = "assistant"
    else:
        return None
    said = strip_recalled(str(event.data.get("text") or "")).strip()
    if not said:
        return None
    if len(said) > MOST:
        said = said[:MOST].rsplit(None, 1)[0]  # without the word that is cut: half of a credential is not known for one
    text = redact(said)[:LONGEST]
    speaker = event.data.get("speaker")
    who = redact(speaker)[:80] if isinstance(speaker, str) and speaker.strip() else None
    return Episode(event.seq, role, who, text, event.occurred_at)
