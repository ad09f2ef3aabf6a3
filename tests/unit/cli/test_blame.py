"""`blame --forget` drops a line that was told before the call, and nothing else that its words may name."""

from __future__ import annotations

import pytest

from consolidator.cli.memory.explain import _choose_line
from consolidator.errors import UsageError

BLAMED = {"lines": [{"id": "l_0cc5dc2d0b"}, {"id": "l_0cd1"}, {"id": "f_17"}]}


def test_a_line_is_named_by_how_its_id_begins() -> None:
    assert _choose_line(BLAMED, "l_0cc5dc") == "l_0cc5dc2d0b"


@pytest.mark.parametrize("beginning", ["Tuesdays", "l_0c"])
def test_what_names_no_line_or_several_is_refused(beginning: str) -> None:
    with pytest.raises(UsageError, match="begin with"):
        _choose_line(BLAMED, beginning)
