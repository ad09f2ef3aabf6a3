"""Long sessions are compared part by part: each reads a bounded stretch, and all of them together are the whole."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.runtime.rerun.recording import read_turns
from consolidator.service.sessions import reruns
from consolidator.service.sessions.reruns import ComparedPair, compare_pair
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


async def compare_all(database: Database, limit: int) -> list[ComparedPair]:
    """Compare two sessions part by part, and look that each part reads no more than its bound."""
    parts: list[ComparedPair] = []
    positions = None

    async def read_bounded(*arguments: object, after: int, upto: int) -> object:
        assert upto - after <= limit
        return await read_turns(*arguments, after=after, upto=upto)  # type: ignore[arg-type]

    with patch.object(reruns, "read_turns", read_bounded):
        while True:
            parts.append(await compare_pair(database, "left", "right", positions=positions, limit=limit))
            assert len(parts) < 100
            if parts[-1].next is None:
                return parts
            assert positions is None or sum(parts[-1].next) > sum(positions)
            positions = parts[-1].next


@pytest.mark.parametrize("limit", [1, 7, 20, 1000])
async def test_the_parts_of_a_comparison_are_the_whole(database: Database, limit: int) -> None:
    await log_events(database, "left", [event for number in range(12) for event in turn(number, number % 4)])
    await log_events(database, "right", [event for number in range(9) for event in turn(number, number % 3)])
    parts = await compare_all(database, limit)
    assert (len(parts) == 1) == (limit == 1000)
    turns = [turn for part in parts for turn in part.comparison.turns]
    assert sum(part.comparison.left.calls for part in parts) == 18
    assert sum(part.comparison.right.calls for part in parts) == 9
    if limit >= 9:  # no turn is longer than a part
        pairs = [(turn.left and turn.left.message, turn.right and turn.right.message) for turn in turns]
        names = [f"message {number}" for number in range(12)]
        assert pairs == list(zip(names, [*names[:9], None, None, None], strict=True))
        assert [turn.status for turn in turns].count("same") == 3


async def test_a_session_is_compared_with_another_one_alone(database: Database) -> None:
    await log_events(database, "left", turn(0, 1))
    with pytest.raises(UsageError, match="came of no other"):
        await compare_pair(database, "left", "")
    with pytest.raises(UsageError, match="twice"):
        await compare_pair(database, "left", "left")
