"""Reading LoCoMo dialogues."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import locomo
from consolidator.errors import UsageError
from consolidator.formats.registry import get_format, recognise_format
from consolidator.models.payload import EventType
from tests.unit.formats.format_logs import read_text, select_events, select_problems, select_sessions


def dialogue(**more: Any) -> dict[str, Any]:
    return {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "Back again."}],
        "session_2_date_time": "12:05 am on 9 June, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "I adopted a beagle."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "What is it called?"},
        ],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1_observation": {"Ada": [["Ada adopted a beagle.", "D1:1"]]},
        **more,
    }


def test_both_speakers_are_users_with_their_names_and_sessions_are_in_order(tmp_path: Path) -> None:
    items = read_text(locomo, tmp_path, json.dumps(dialogue()), "talk.json")
    assert [session.origin for session in select_sessions(items)] == ["talk/session_1", "talk/session_2"]
    assert {session.peer for session in select_sessions(items)} == {"Ada and Ben"}
    assert {event.type for event in select_events(items)} == {EventType.USER_MESSAGE}
    assert [event.data["speaker"] for event in select_events(items)] == ["Ada", "Ben", "Ben"]
    assert [event.data["dia_id"] for event in select_events(items)] == ["D1:1", "D1:2", "D2:1"]
    assert [event.data["occurred_at"][:19] for event in select_events(items)] == [
        "2023-05-08T13:56:00", "2023-05-08T13:56:01", "2023-06-09T00:05:00",
    ]  # fmt: skip


def test_a_dialogue_may_lie_one_level_deeper_or_in_a_list(tmp_path: Path) -> None:
    items = read_text(locomo, tmp_path, json.dumps([{"conversation": dialogue()}, dialogue()]), "talks.json")
    assert [session.origin for session in select_sessions(items)] == [
        "talks#0/session_1", "talks#0/session_2", "talks#1/session_1", "talks#1/session_2",
    ]  # fmt: skip


def test_what_a_picture_shows_is_no_part_of_what_was_said(tmp_path: Path) -> None:
    turn = {
        "speaker": "Ben",
        "dia_id": "D2:1",
        "text": "Look!",
        "blip_caption": "a photo of a dog",
        "query": "my beagle",
    }
    items = read_text(locomo, tmp_path, json.dumps(dialogue(session_2=[turn])), "talk.json")
    (event,) = [event for event in select_events(items) if event.data["dia_id"] == "D2:1"]
    assert event.data["text"] == "Look!"
    assert event.data["caption"] == "a photo of a dog; my beagle"


def test_what_is_no_turn_is_told(tmp_path: Path) -> None:
    items = read_text(locomo, tmp_path, json.dumps(dialogue(session_2=[{"speaker": "Ben"}, "?"])), "talk.json")
    assert len(select_problems(items)) == 2
    assert len(select_events(items)) == 2
    assert select_problems(read_text(locomo, tmp_path, "{", "broken.json"))
    assert select_problems(read_text(locomo, tmp_path, "{}", "empty.json"))


def test_a_dialogue_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(dialogue()))
    assert locomo.recognises(path, path.read_bytes())
    assert recognise_format(path) is None
    with pytest.raises(UsageError, match="only the benchmarks read"):
        get_format("locomo")


def test_times_that_say_nothing_are_none() -> None:
    assert locomo.parse_time("1:56 pm on 8 May, 2023") == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert locomo.parse_time("12:00 pm on 31 April, 2023") is None
    assert locomo.parse_time("yesterday") is None
    assert locomo.parse_time(None) is None
