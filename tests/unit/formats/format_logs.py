"""Helpers for the tests of formats: read a text as a file, convert items to stored events."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from consolidator.formats.base import ForeignEvent, ForeignSession, Format, Item, Problem, Skipped
from consolidator.models.event import Event
from consolidator.models.payload import EventType, check_payload
from tests.support import count_examples

# No deadline: a busy machine must not fail a test.
NO_DEADLINE = settings(deadline=None, max_examples=count_examples(60), suppress_health_check=[HealthCheck.too_slow])
NOW = datetime(2026, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


def read_text(reader: Format, tmp_path: Path, text: str, name: str = "log.jsonl") -> list[Item]:
    """Read a text as a file of that name; every event must fit its type."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    items = list(reader.read(path, tmp_path))
    for event in select_events(items):
        check_payload(event.type, event.data)
    return items


def jsonl(*lines: object) -> str:
    """Write objects as JSON lines."""
    return "".join(json.dumps(line) + "\n" for line in lines)


def select_events(items: Iterable[Item]) -> list[ForeignEvent]:
    """Return the events alone."""
    return [item for item in items if isinstance(item, ForeignEvent)]


def select_sessions(items: Iterable[Item]) -> list[ForeignSession]:
    """Return the sessions alone."""
    return [item for item in items if isinstance(item, ForeignSession)]


def select_type(items: Iterable[Item], event_type: EventType) -> list[ForeignEvent]:
    """Return the events of one type."""
    return [event for event in select_events(items) if event.type is event_type]


def select_problems(items: Iterable[Item]) -> list[Problem]:
    """Return the problems alone."""
    return [item for item in items if isinstance(item, Problem)]


def skipped_kinds(items: Iterable[Item]) -> list[str]:
    """Return the kinds of the skipped lines."""
    return [item.kind for item in items if isinstance(item, Skipped)]


def to_log_events(items: Iterable[Item], first_seq: int = 1, session_id: str = "s") -> list[Event]:
    """Return foreign events as stored events."""
    return [
        Event(
            session_id=session_id,
            seq=seq,
            type=event.type,
            data=event.data,
            created_at=NOW,
            task_id=event.task_id,
            tool_name=event.tool_name,
        )
        for seq, event in enumerate(select_events(items), start=first_seq)
    ]


def data_directory(name: str) -> Path:
    """Return a folder of real logs, or skip the test if there is none."""
    configured = os.environ.get("CONSOLIDATOR_TEST_DATA")
    directory = (Path(configured) if configured else Path(__file__).parents[3].parent / "shared" / "data") / name
    if not directory.is_dir():
        pytest.skip(f"no logs of {name} here")
    return directory


def types_and_data(items: Iterable[Item]) -> list[tuple[EventType, dict[str, Any]]]:
    """Return type and data of each event, to compare by."""
    return [(event.type, dict(event.data)) for event in select_events(items)]
