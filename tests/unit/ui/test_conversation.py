"""A session's events as what people read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.ui.conversation import fold_entries, show_arguments
from tests.conftest import NOON


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"command": "tailscale up"}, "command: tailscale up"),
        ('{"path": "a.md", "lines": 3, "raw": false}', "path: a.md\nlines: 3\nraw: false"),
        ({"rows": [1, 2]}, '{\n "rows": [\n  1,\n  2\n ]\n}'),
        ("{not json", "{not json"),
        ("{" * 50_000, "{" * 50_000),
        ('{"a": ' * 2000 + "1" + "}" * 2000, '{"a": ' * 2000 + "1" + "}" * 2000),
        (None, ""),
        ({}, ""),
    ],
)
def test_arguments_are_lines_where_they_are_plain(arguments: Any, shown: str) -> None:
    assert show_arguments(arguments) == shown


def test_an_imported_session_began_when_it_did() -> None:
    earlier = NOON - timedelta(days=3)
    said = {"text": "Fix the cart.", "occurred_at": earlier.isoformat()}
    events = [
        Event("s", 1, EventType.SESSION_START, {}, NOON),
        Event("s", 2, EventType.USER_MESSAGE, said, NOON),
    ]
    assert [entry.at for entry in fold_entries(events)] == [earlier, earlier]
