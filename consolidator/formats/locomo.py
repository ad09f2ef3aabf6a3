"""Reads long dialogues of two people in the LoCoMo format, each of their sessions as one.

Both are people, so both are users with their names; the agent is whoever listens and remembers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from consolidator.formats.base import ForeignEvent, ForeignSession, Item, ItemKeys, Problem
from consolidator.formats.common.jsonl import files_below, parse_json
from consolidator.formats.common.origin import origin_of
from consolidator.models.payload import EventType

NAME = "locomo"
MAX_FILE = 64 * 1024 * 1024
_SESSION = re.compile(r"session_(\d+)")
_MOMENT = re.compile(r"(\d{1,2}):(\d{2})\s*([ap])\.?m\.? on (\d{1,2}) ([a-z]+),? (\d{4})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def default_paths(home: Path) -> list[Path]:
    """Return nothing: dialogues lie where a person put them."""
    return []


def files(path: Path) -> Iterator[Path]:
    """Yield the files at or below `path`."""
    yield from files_below(path, ".json")


def recognises(path: Path, head: bytes) -> bool:
    """Tell by the speakers and the names of turns."""
    return path.suffix == ".json" and (b'"dia_id"' in head or b'"speaker_a"' in head)


def read(path: Path, root: Path) -> Iterator[Item]:
    """Read a file: one dialogue, or a list of them."""
    if path.stat().st_size > MAX_FILE:
        yield Problem(f"larger than {MAX_FILE} bytes")
        return
    try:
        value = parse_json(path.read_bytes())
    except ValueError as error:
        yield Problem(str(error))
        return
    stem = origin_of(path, root)
    for number, record in enumerate(value if isinstance(value, list) else [value]):
        origin = f"{stem}#{number}" if isinstance(value, list) else stem
        if isinstance(record, dict):
            yield from _dialogue(origin, record)
        else:
            yield Problem(f"dialogue {number} is no object but {type(record).__name__}")


def sessions_of(record: dict[str, Any]) -> list[tuple[int, list[Any], datetime | None]]:
    """Return number, turns and time of each session of a dialogue, in order."""
    held = record.get("conversation")
    told = held if isinstance(held, dict) else record
    found = []
    for name, turns in told.items():
        numbered = _SESSION.fullmatch(name)
        if numbered and isinstance(turns, list):
            found.append((int(numbered[1]), turns, moment(told.get(f"{name}_date_time"))))
    return sorted(found, key=lambda one: one[0])


def moment(told: Any) -> datetime | None:
    """Return what "1:56 pm on 8 May, 2023" says, taken as UTC."""
    found = _MOMENT.search(told) if isinstance(told, str) else None
    if found is None or found[5][:3].lower() not in _MONTHS:
        return None
    hour = int(found[1]) % 12 + (12 if found[3].lower() == "p" else 0)
    try:
        return datetime(
            int(found[6]), _MONTHS.index(found[5][:3].lower()) + 1, int(found[4]), hour, int(found[2]), tzinfo=UTC
        )
    except ValueError:
        return None


def _dialogue(origin: str, record: dict[str, Any]) -> Iterator[Item]:
    sessions = sessions_of(record)
    if not sessions:
        yield Problem(f"{origin} has no session")
    held = record.get("conversation")
    told = held if isinstance(held, dict) else record
    speakers = [told[name] for name in ("speaker_a", "speaker_b") if isinstance(told.get(name), str)]
    for number, turns, at in sessions:
        name = f"{origin}/session_{number}"
        yield ForeignSession(name, NAME, channel="chat", peer=" and ".join(speakers) or origin, ended=True)
        keys = ItemKeys(f"{NAME}/{name}")
        for place, turn in enumerate(turns):
            text = turn.get("text") if isinstance(turn, dict) else None
            if not isinstance(text, str):
                yield Problem(f"turn {place + 1} of {name} has no text")
                continue
            data = {"text": text, "speaker": turn.get("speaker"), "dia_id": turn.get("dia_id")}
            data["occurred_at"] = (at + timedelta(seconds=place)).isoformat() if at else None
            data = {one: value for one, value in data.items() if isinstance(value, str)}
            key = keys.key(place, data)
            yield ForeignEvent(key, EventType.USER_MESSAGE, data)
