"""What a program asks for of a session is taken whole, or refused by its name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from consolidator.errors import UsageError
from consolidator.runtime.session.creation import session_request


@pytest.mark.parametrize(
    "unknown",
    [{"session_ttl_seconds": 60}, {"checkpoint_ttl_seconds": 60}, {"conversation_id": "c"}, {"colour": "red"}],
)
def test_an_argument_that_there_is_not_is_refused_and_what_there_is_named(unknown: dict[str, Any]) -> None:
    (name,) = unknown
    with pytest.raises(UsageError, match=rf"no {name}: .*\bttl, checkpoint_ttl\b.*conversation"):
        session_request(None, None, unknown)  # type: ignore[arg-type]


def test_spans_are_stored_in_seconds() -> None:
    request = session_request(None, None, {"ttl": timedelta(hours=1), "checkpoint_ttl": timedelta(minutes=1)})
    assert (request.session_ttl_seconds, request.checkpoint_ttl_seconds) == (3600, 60)
