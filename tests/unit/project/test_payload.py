"""Payloads: each type takes what fits it, and keeps what it does not know."""

from __future__ import annotations

import pytest

from consolidator.errors import InvalidEvent
from consolidator.models.payload import EventType, check_payload


def test_unknown_keys_are_kept_and_the_version_is_said() -> None:
    assert check_payload(EventType.USER_MESSAGE, {"text": "hi", "more": 1}) == {"v": 1, "text": "hi", "more": 1}


def test_what_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(InvalidEvent, match="UserMessage does not fit: text"):
        check_payload(EventType.USER_MESSAGE, {"text": 5})


def test_half_an_emoji_is_no_reason_to_refuse_an_event() -> None:
    data = {"text": "cut \ud83d", "\udc00": ["\ud800"]}
    assert check_payload(EventType.USER_MESSAGE, data) == {"v": 1, **data}
    with pytest.raises(InvalidEvent, match="mode"):
        check_payload(EventType.USER_MESSAGE, {**data, "mode": "shouted"})
