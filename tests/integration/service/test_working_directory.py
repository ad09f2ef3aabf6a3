"""Which project a directory is in is the same for whoever asks: recall, what is remembered, and hooks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.hooks.payload import answer_hook, parse_hook
from consolidator.service.memory.remember import remember
from consolidator.service.scope import find_named_project, find_project
from tests.support import log_events, user_message


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A directory with another one below it."""
    (tmp_path / "shop" / "src").mkdir(parents=True)
    return tmp_path / "shop"


async def test_a_directory_belongs_to_the_nearest_one_that_sessions_worked_in(database: Database, shop: Path) -> None:
    assert await find_project(database, shop / "src") == str(shop / "src")
    await log_events(database, "s", [user_message("hello")], project=str(shop))
    assert await find_project(database, shop / "src") == str(shop)
    assert await find_project(database, shop.parent) == str(shop.parent)
    assert await find_project(database, Path.home()) is None


async def test_a_repository_is_a_project_and_nothing_above_it(database: Database, shop: Path) -> None:
    await log_events(database, "s", [user_message("hello")], project=str(shop.parent))
    assert await find_project(database, shop / "src") == str(shop.parent)
    (shop / ".git").mkdir()
    assert await find_project(database, shop / "src") == str(shop)
    await log_events(database, "t", [user_message("hello")], project=str(shop / "src"))
    assert await find_project(database, shop / "src") == str(shop / "src")


async def test_a_session_that_starts_in_a_subfolder_is_told_what_holds_in_its_project(
    database: Database, shop: Path
) -> None:
    project = await find_project(database, shop)
    await log_events(database, "s", [user_message("hello")], agent="codex", project=str(shop))
    await remember(database, "we indent with tabs", MemoryScope(project=project, agent="codex"))
    payload = {"hook_event_name": "SessionStart", "session_id": "x1", "cwd": str(shop / "src"), "source": "startup"}
    call = parse_hook("codex", "SessionStart", json.dumps(payload).encode(), "")
    assert call is not None
    answer = await answer_hook(database, call)
    assert answer is not None
    assert "indent with tabs" in answer.block.text


async def test_a_client_without_a_history_is_told_what_was_remembered_for_it(database: Database, shop: Path) -> None:
    await remember(database, "we indent with tabs", MemoryScope(project=str(shop), agent="cursor"))
    await remember(database, "we indent with spaces", MemoryScope(project=str(shop), agent="codex"))
    payload = {"hook_event_name": "sessionStart", "conversation_id": "x1", "session_id": "x1"}
    call = parse_hook("cursor", "sessionStart", json.dumps({**payload, "workspace_roots": [str(shop)]}).encode(), "")
    assert call is not None
    answer = await answer_hook(database, call)
    assert answer is not None
    assert "with tabs" in answer.block.text
    assert "with spaces" not in answer.block.text


async def test_a_path_names_its_directory_and_a_name_a_project_that_there_is(database: Database, shop: Path) -> None:
    with pytest.raises(UsageError, match="there is none yet: give a path"):
        await find_named_project(database, "shop", shop)
    await log_events(database, "s", [user_message("hello")], project=str(shop))
    await log_events(database, "t", [user_message("hello")], project="django/django")
    for name in (".", "./", "../shop", "src/..", str(shop), "shop", "shop/"):
        assert await find_named_project(database, name, shop) == str(shop), name
    assert await find_named_project(database, "../blog", shop) == str(shop.parent / "blog")
    assert await find_named_project(database, "~/blog", shop) == str(Path.home() / "blog")
    assert await find_named_project(database, "C:\\work\\blog", shop) == "C:/work/blog"
    assert await find_named_project(database, "django/django", shop) == "django/django"
    with pytest.raises(UsageError, match=r"no project is called 'shpo': .*/shop.*give a path"):
        await find_named_project(database, "shpo", shop)
