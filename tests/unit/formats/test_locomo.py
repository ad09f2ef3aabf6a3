"""Reading LoCoMo dialogues."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from consolidator.formats import locomo, recognise
from consolidator.models.payload import EventType
from tests.unit.formats.format_logs import events_of, problems_of, read_text, sessions_of


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
    assert [one.origin for one in sessions_of(items)] == ["talk/session_1", "talk/session_2"]
    assert {one.peer for one in sessions_of(items)} == {"Ada and Ben"}
    assert {one.type for one in events_of(items)} == {EventType.USER_MESSAGE}
    assert [one.data["speaker"] for one in events_of(items)] == ["Ada", "Ben", "Ben"]
    assert [one.data["dia_id"] for one in events_of(items)] == ["D1:1", "D1:2", "D2:1"]
    assert [one.data["occurred_at"][:19] for one in events_of(items)] == [
        "2023-05-08T13:56:00", "2023-05-08T13:56:01", "2023-06-09T00:05:00",
    ]  # fmt: skip


def test_a_dialogue_may_lie_one_level_deeper_or_in_a_list(tmp_path: Path) -> None:
    items = read_text(locomo, tmp_path, json.dumps([{"conversation": dialogue()}, dialogue()]), "talks.json")
    assert [one.origin for one in sessions_of(items)] == [
        "talks#0/session_1", "talks#0/session_2", "talks#1/session_1", "talks#1/session_2",
    ]  # fmt: skip


def test_what_is_no_turn_is_told(tmp_path: Path) -> None:
    items = read_text(locomo, tmp_path, json.dumps(dialogue(session_2=[{"speaker": "Ben"}, "?"])), "talk.json")
    assert len(problems_of(items)) == 2
    assert len(events_of(items)) == 2
    assert problems_of(read_text(locomo, tmp_path, "{", "broken.json"))
    assert problems_of(read_text(locomo, tmp_path, "{}", "empty.json"))


def test_a_dialogue_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(dialogue()))
    assert recognise(path) is not None
    assert getattr(recognise(path), "NAME", "") == "locomo"


def test_times_that_say_nothing_are_none() -> None:
    assert locomo.moment("1:56 pm on 8 May, 2023") == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert locomo.moment("12:00 pm on 31 April, 2023") is None
    assert locomo.moment("yesterday") is None
    assert locomo.moment(None) is None
