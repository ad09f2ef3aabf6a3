"""A list of sessions tells each by its first words, read from the session's first events alone."""

from __future__ import annotations

from consolidator.database import Database
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.payload import EventType
from consolidator.models.session import SessionFilter
from consolidator.models.viewer import Viewer
from consolidator.service.memory.remember import remember
from consolidator.service.sessions.listing import list_sessions, show_session
from consolidator.settings import Settings
from consolidator.store.sessions.sessions import list_first_messages
from tests.support import assistant_response, log_events, user_message


async def test_a_list_shows_the_first_words_that_a_person_said(database: Database, settings: Settings) -> None:
    notice = NewEvent(EventType.USER_MESSAGE, {"text": "A job has ended.", "origin": "harness"})
    await log_events(database, "s1", [notice, user_message("Why is it slow?"), user_message("Thanks.")], peer="mara")
    await log_events(database, "s2", [notice], peer="bob")
    await log_events(database, "s3", [assistant_response("Hello.")], peer="bob")
    assert (await list_sessions(database)).titles == {"s1": "Why is it slow?", "s2": "A job has ended."}
    assert (await list_sessions(database, viewer=Viewer(peer="mara"))).titles == {"s1": "Why is it slow?"}
    assert (await list_sessions(database, SessionFilter(peer="bob"))).titles == {"s2": "A job has ended."}
    assert (await show_session(database, settings, "s1", with_context=False)).title == "Why is it slow?"


async def test_a_long_log_is_not_read_for_its_title(database: Database) -> None:
    talk = [assistant_response("…")] * 60
    await log_events(database, "s1", [*talk, user_message("Late words.")])
    await log_events(database, "s2", [user_message("word " * 9999), *talk])
    async with database.connection() as conn:
        (message,) = await list_first_messages(conn, ["s1", "s2"])
    assert message.session_id == "s2"
    assert message.first_words == ("word " * 200)


async def test_what_memory_was_told_is_the_title_of_its_session(database: Database) -> None:
    told = await remember(database, "we use tabs", MemoryScope(agent="coder"))
    await remember(database, "we deploy on Mondays", MemoryScope(agent="coder"))
    page = await list_sessions(database)
    assert page.titles == {told.session: "said: we use tabs"}
