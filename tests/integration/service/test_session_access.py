"""A session is found only by who may see it; what lies outside a credential's reach is as if it were not there."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.database import Database
from consolidator.errors import Forbidden, NotFound, UsageError
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session.access import find_session, get_session
from tests.support import log_events

MARAS: dict[str, Any] = {"agent": "shop", "project": "/src/shop", "peer": "mara"}


@pytest.fixture
async def logged(database: Database) -> Database:
    await log_events(database, "s1", [], **MARAS)
    await log_events(database, "s2", [], agent="shop", project="/src/shop", peer="bob")
    await log_events(database, "s1-child", [], agent="shop", parent_id="s1", root_id="s1", kind="sub-agent")
    return database


@pytest.mark.parametrize(
    "viewer",
    [
        OWNER,
        Viewer("a", agent="shop"),
        Viewer("b", project="/src/shop"),
        Viewer("c", peer="mara"),
        OWNER.narrow(**MARAS),
    ],
)
async def test_a_session_within_reach_is_found(logged: Database, viewer: Viewer) -> None:
    async with logged.connection() as conn:
        assert (await get_session(conn, viewer, "s1", "read")).id == "s1"
        assert (await find_session(conn, viewer, "s1", "read")).id == "s1"


@pytest.mark.parametrize(
    "viewer", [Viewer("a", agent="main"), Viewer("b", project="/src/shop1"), Viewer("c", peer="bob"), Viewer(peer="")]
)
async def test_what_lies_outside_is_refused_as_what_is_not_there(logged: Database, viewer: Viewer) -> None:
    async with logged.connection() as conn:
        for find in (get_session, find_session):
            messages = set()
            for name in ("s1", "s9"):
                with pytest.raises(NotFound) as refused:
                    await find(conn, viewer, name, "read")
                messages.add(str(refused.value).replace(name, "NAME"))
            assert len(messages) == 1
        with pytest.raises(NotFound):
            await find_session(conn, viewer, "s", "read")  # the beginning of several
    async with logged.connection() as conn:
        with pytest.raises(UsageError, match="s1"):
            await find_session(conn, OWNER, "s", "read")


async def test_a_child_is_its_roots_persons(logged: Database) -> None:
    async with logged.connection() as conn:
        assert (await get_session(conn, Viewer("c", peer="mara"), "s1-child", "read")).peer is None
        with pytest.raises(NotFound):
            await get_session(conn, Viewer("c", peer="bob"), "s1-child", "read")


async def test_a_missing_scope_is_told_before_anything_is_looked_up(logged: Database) -> None:
    reader = Viewer("reader", frozenset({"read"}))
    async with logged.connection() as conn:
        for name in ("s1", "s9"):
            with pytest.raises(Forbidden, match="lacks the scope write"):
                await get_session(conn, reader, name, "write")
