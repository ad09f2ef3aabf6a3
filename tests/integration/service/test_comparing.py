"""Two sessions side by side, as far as a page reads them."""

from __future__ import annotations

import pytest

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.service.sessions.reruns import compare_pair
from tests.support import log_events, user_message


def turn(number: int, calls: int) -> list[NewEvent]:
    """A message, calls with their results, and an answer."""
    events = [user_message(f"message {number}")]
    for call in range(calls):
        call_id = f"{number}-{call}"
        events += [
            NewEvent(EventType.TOOL_CALL, {"call_id": call_id, "tool": "Bash", "arguments": {"command": call_id}}),
            NewEvent(EventType.TOOL_RESULT, {"call_id": call_id, "status": "ok", "content": "done"}),
        ]
    return [*events, NewEvent(EventType.ASSISTANT_RESPONSE, {"text": f"answer {number}"})]


async def test_a_comparison_reads_no_more_than_its_bound(database: Database) -> None:
    await log_events(database, "left", [event for number in range(12) for event in turn(number, number % 4)])
    await log_events(database, "right", [event for number in range(9) for event in turn(number, number % 3)])
    whole = await compare_pair(database, "left", "right")
    assert (whole.is_whole, whole.comparison.left.calls, whole.comparison.right.calls) == (True, 18, 9)
    pairs = [(turn.left and turn.left.message, turn.right and turn.right.message) for turn in whole.comparison.turns]
    names = [f"message {number}" for number in range(12)]
    assert pairs == list(zip(names, [*names[:9], None, None, None], strict=True))
    assert [turn.status for turn in whole.comparison.turns].count("same") == 3
    part = await compare_pair(database, "left", "right", limit=7)
    assert (part.is_whole, part.comparison.left.calls, part.comparison.right.calls) == (False, 1, 1)


async def test_a_session_is_compared_with_another_one_alone(database: Database) -> None:
    await log_events(database, "left", turn(0, 1))
    with pytest.raises(UsageError, match="came of no other"):
        await compare_pair(database, "left", "")
    with pytest.raises(UsageError, match="twice"):
        await compare_pair(database, "left", "left")
