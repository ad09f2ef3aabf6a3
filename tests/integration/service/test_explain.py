"""What is asked of a session is answered from all of it, however long it is."""

from __future__ import annotations

import pytest

from consolidator.database import Database
from consolidator.service import explain
from tests.support import called, logged


async def test_a_summary_tells_of_all_that_came_since_the_last_night(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "TAIL", 2)
    await logged(database, "s", [called(f"c{n}", "Bash", {"command": "ls"}) for n in range(5)])
    assert (await explain.summary_of(database, "s"))["state"]["tools"] == {"Bash": 5}
