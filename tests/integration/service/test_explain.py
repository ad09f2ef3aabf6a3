"""What is asked of a session is answered from all of it, however long it is."""

from __future__ import annotations

import pytest

from consolidator.database import Database
from consolidator.runtime.session import access
from consolidator.service.sessions import listing
from tests.support import log_events, tool_call


async def test_a_summary_tells_of_all_that_came_since_the_last_night(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_PAGE", 2)
    await log_events(database, "s", [tool_call(f"c{n}", "Bash", {"command": "ls"}) for n in range(5)])
    assert (await listing.summarize_session(database, "s"))["state"]["tools"] == {"Bash": 5}
