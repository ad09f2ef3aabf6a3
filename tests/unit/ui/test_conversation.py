"""A session's events as what people read."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.ui.conversation import show_arguments


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
