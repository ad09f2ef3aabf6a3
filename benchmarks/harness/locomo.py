"""Read long dialogues of two people in the LoCoMo format; each of their sessions becomes a session.

Both speakers are people, so all messages are user messages with the speaker's name; the agent only listens. What a
picture shows is the message's caption, and no part of what the speaker says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem
from consolidator.formats.common.fields import derive_origin
from consolidator.formats.common.json_members import read_json
from consolidator.formats.common.jsonl import guard_line
from consolidator.formats.common.log_files import find_files
from consolidator.models.payload import EventType

NAME = "locomo"
MAX_FILE_BYTES = 64 * 1024 * 1024
_SESSION_NAME = re.compile(r"session_(\d+)")
_SESSION_TIME = re.compile(r"(\d{1,2}):(\d{2})\s*([ap])\.?m\.? on (\d{1,2}) ([a-z]+),? (\d{4})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def files(path: Path) -> Iterator[Path]:
    """Yield the files at or below `path`."""
    yield from find_files(path, ".json")


def recognises(path: Path, head: bytes) -> bool:
    """Check for the keys of speakers and turns."""
    return path.suffix == ".json" and (b'"dia_id"' in head or b'"speaker_a"' in head)


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a file: one dialogue, or a list of them."""
    value = read_json(path, MAX_FILE_BYTES)
    if isinstance(value, Problem):
        yield value
        return
    stem = derive_origin(path, root)
    for number, record in enumerate(value if isinstance(value, list) else [value]):
        origin = f"{stem}#{number}" if isinstance(value, list) else stem
        if isinstance(record, dict):
            yield from guard_line(_read_dialogue(origin, record), None)
        else:
            yield Problem(f"dialogue {number} is not an object but {type(record).__name__}")


def parse_sessions(record: dict[str, Any]) -> list[tuple[int, list[Any], datetime | None]]:
    """Return number, turns and time of each session of a dialogue, in order."""
    conversation = _get_conversation(record)
    sessions = []
    for name, turns in conversation.items():
        match = _SESSION_NAME.fullmatch(name)
        if match and isinstance(turns, list):
            sessions.append((int(match[1]), turns, parse_time(conversation.get(f"{name}_date_time"))))
    return sorted(sessions, key=lambda session: session[0])


def _get_conversation(record: dict[str, Any]) -> dict[str, Any]:
    """Return the object that holds speakers and sessions: the record's conversation, or the record itself."""
    conversation = record.get("conversation")
    return conversation if isinstance(conversation, dict) else record


def parse_time(value: Any) -> datetime | None:
    """Parse a time such as "1:56 pm on 8 May, 2023" as UTC; None if it has another form."""
    match = _SESSION_TIME.search(value) if isinstance(value, str) else None
    if match is None or match[5][:3].lower() not in _MONTHS:
        return None
    hour = int(match[1]) % 12 + (12 if match[3].lower() == "p" else 0)
    try:
        return datetime(
            int(match[6]), _MONTHS.index(match[5][:3].lower()) + 1, int(match[4]), hour, int(match[2]), tzinfo=UTC
        )
    except ValueError:
        return None


def _read_dialogue(origin: str, record: dict[str, Any]) -> Iterator[Item]:
    sessions = parse_sessions(record)
    if not sessions:
        yield Problem(f"{origin} has no session")
    conversation = _get_conversation(record)
    speakers = [conversation[name] for name in ("speaker_a", "speaker_b") if isinstance(conversation.get(name), str)]
    for number, turns, started_at in sessions:
        name = f"{origin}/session_{number}"
        yield ForeignSession(name, NAME, channel="chat", peer=" and ".join(speakers) or origin, ended=True)
        keys = ItemKeys(f"{NAME}/{name}")
        for index, turn in enumerate(turns):
            text = turn.get("text") if isinstance(turn, dict) else None
            if not isinstance(text, str):
                yield Problem(f"turn {index + 1} of {name} has no text")
                continue
            data = {"text": text, "speaker": turn.get("speaker"), "dia_id": turn.get("dia_id")}
            data["occurred_at"] = (started_at + timedelta(seconds=index)).isoformat() if started_at else None
            data = {field: value for field, value in data.items() if isinstance(value, str)}
            key = keys.next_key(index, data)
            if caption := _describe_picture(turn):
                data["caption"] = caption
            yield ForeignEvent(key, EventType.USER_MESSAGE, data)


def _describe_picture(turn: dict[str, Any]) -> str:
    """Return what the picture of a turn shows, and what it was searched by; "" where there is no picture."""
    described = (turn.get(field) for field in ("blip_caption", "query"))
    return "; ".join(text.strip() for text in described if isinstance(text, str) and text.strip())
