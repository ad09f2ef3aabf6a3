"""Episodes: what users and assistants said in a session, and what people decided, as recall searches it.

They are redacted and bounded. Words that a harness, a compaction or recall itself put into the context are left out:
memory must not learn from itself. The caption of a picture is searched and shown with its turn, marked as what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from consolidator.memory.calls.tool_values import describe_decision
from consolidator.memory.facts.candidates import speaker_name
from consolidator.memory.recall.block import RECORD_OF
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.markers import strip_recalled
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, role_of

MAX_EPISODE_CHARS = 4000  # of a turn that are kept
_MESSAGES = (EventType.USER_MESSAGE, EventType.ASSISTANT_RESPONSE)
MAX_REDACTED_CHARS = 128_000  # of a turn that are redacted


@dataclass(frozen=True, slots=True)
class Episode:
    """One turn."""

    seq: int
    role: str  # user | assistant
    speaker: str | None
    text: str
    occurred_at: datetime
    announces: bool = False  # an agent's words before its next call


def extract_episode(event: Event, redact: Callable[[str], str]) -> Episode | None:
    """Return the turn of an event; None where it is no turn."""
    role = _role_of(event)
    if role is None:
        return None
    words = event.data.get("text") if event.type in _MESSAGES else describe_decision(event)
    text = strip_recalled(strip_invisible(str(words or ""))).strip()
    caption = event.data.get("caption")
    if isinstance(caption, str) and (shown := strip_invisible(caption).strip()):
        text = f"{text} [picture: {shown}]".lstrip()
    if not text:
        return None
    if len(text) > MAX_REDACTED_CHARS:
        # Without the word that is cut: redaction does not recognise half of a credential.
        text = text[:MAX_REDACTED_CHARS].rsplit(None, 1)[0]
    text = redact(text)[:MAX_EPISODE_CHARS]
    speaker = speaker_name(event, redact)
    if event.principal is not None and role_of(event.principal) is not Role.USER:
        # Nobody is said to have said what a client only recorded, or an agent wrote.
        speaker = f"{RECORD_OF} {speaker or 'a user'}" if role == "user" else None
    return Episode(event.seq, role, speaker, text, event.occurred_at)


def _role_of(event: Event) -> str | None:
    """Return who speaks in an event; None where nobody does."""
    match event.type:
        case EventType.USER_MESSAGE:
            return "user" if event.data.get("origin", "user") == "user" else None
        case EventType.ASSISTANT_RESPONSE:
            return "assistant"
        case EventType.APPROVAL_GRANTED | EventType.APPROVAL_DENIED:
            return "user" if event.is_persons_word else None
        case _:
            return None
