"""Agents: defaults of sessions with a history of versions, templates rendered strictly, and who may change them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from consolidator.database import Database
from consolidator.errors import Forbidden, NotFound, UsageError
from consolidator.models.session import SessionRow
from consolidator.models.viewer import Viewer
from consolidator.runtime.lineage.checkpoints import create_checkpoint
from consolidator.runtime.session.creation import SessionRequest, create_session, open_session
from consolidator.service.sessions.agents import (
    change_agent,
    delete_agent,
    get_agent,
    list_agent_versions,
    list_agents,
)
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.reuse import dsn, emptied
from tests.runtime import describe_log, open_agent, read_log, send_and_collect

__all__ = ["dsn", "emptied"]  # fixtures
SETTINGS = Settings(home=Path("/nonexistent"), model="gpt-4o-mini")
TEMPLATE = "You are $name, for ${tier} customers. A coffee is $$3."


async def create(database: Database, agent: str = "desk", **wanted: Any) -> SessionRow:
    """Create a session of an agent."""
    return await create_session(database, SETTINGS, SessionRequest(**wanted), agent=agent)


async def test_a_session_takes_what_is_not_named_from_its_agent(database: Database) -> None:
    """B4."""
    await change_agent(
        database, "desk", {
            "model": "gpt-4o", "system_prompt": "Be kind.", "max_cost": Decimal(2), "budget": 9000, "tools": ("look",),
            "session_ttl_seconds": 3600, "checkpoint_ttl_seconds": 60, "compaction_threshold": 0.5,
        },
    )  # fmt: skip
    session = await create(database, budget=5000)
    assert (session.model, session.max_cost, session.context_window) == ("gpt-4o", Decimal(2), 128_000)
    assert session.config == {
        "system": "Be kind.", "budget": 5000, "tools": ["look"], "allowed_tools": ["look"], "agent_version": 1,
        "session_ttl_seconds": 3600, "checkpoint_ttl_seconds": 60, "compaction_threshold": 0.5,
    }  # fmt: skip
    assert session.expires_at is not None
    assert (session.expires_at - session.created_at).total_seconds() == 3600


async def test_an_agent_has_its_tiers_defaults_where_it_has_none_of_its_own(database: Database) -> None:
    """B10, B11, B38."""
    await change_agent(
        database, "gold", {"checkpoint_ttl_seconds": 7200, "max_cost": Decimal(5), "system_prompt": "Not this."}
    )
    await change_agent(database, "lounge", {"tier": "gold", "max_cost": Decimal(2), "system_prompt": "Be kind."})
    session = await create(database, "lounge")
    assert (session.max_cost, session.config["system"]) == (Decimal(2), "Be kind.")
    checkpoint = await create_checkpoint(database, session.id, label="now")
    assert checkpoint.expires_at is not None
    assert (checkpoint.expires_at - checkpoint.created_at).total_seconds() == 7200
    assert (await get_agent(database, "lounge")).checkpoint_ttl_seconds is None  # it is the tier's
    checkpoint = await create_checkpoint(database, (await create(database, "other")).id)
    assert checkpoint.expires_at is not None
    assert (checkpoint.expires_at - checkpoint.created_at).total_seconds() == 24 * 3600


async def test_the_log_says_which_version_of_agent_and_template_ran(database: Database) -> None:
    await change_agent(database, "host", {"template": TEMPLATE, "parameters": {"tier": "gold"}})
    first = await create(database, "host", parameters={"name": "Ada"})
    await change_agent(database, "host", {"max_steps": 7})
    await change_agent(database, "host", {"template": "I am $name, $tier."})
    second = await create(database, "host", parameters={"name": "Ada", "tier": "tin"})
    starts = [(await read_log(database, session.id))[0].data for session in (first, second)]
    assert [start["system_prompt"] for start in starts] == [
        "You are Ada, for gold customers. A coffee is $3.",
        "I am Ada, tin.",
    ]
    assert [(start["agent_version"], start["template_version"]) for start in starts] == [(1, 1), (3, 2)]
    assert starts[1]["parameters"] == {"name": "Ada", "tier": "tin"}
    versions = await list_agent_versions(database, "host")
    assert [version.version for version in versions] == [3, 2, 1]
    assert versions[-1].definition["template"] == TEMPLATE
    assert (await get_agent(database, "host")).parameters == {"tier": "gold"}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "needs name, tier"),
        ({"name": "Ada", "tier": 1, "mood": "good"}, "no parameter mood"),
    ],
)
async def test_a_parameter_that_is_missing_or_unknown_is_one_clear_error(
    database: Database, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await create(database, "other", template=TEMPLATE, parameters=parameters)


async def test_a_value_is_never_read_as_a_template(database: Database) -> None:
    session = await create(database, "other", template="Speak with $name.", parameters={"name": "${tier} $0 $name"})
    assert session.config["system"] == "Speak with ${tier} $0 $name."


async def test_a_malformed_template_is_refused_when_it_is_set(database: Database) -> None:
    with pytest.raises(UsageError, match=r"\$ that begins no name"):
        await change_agent(database, "desk", {"template": "costs $5"})
    with pytest.raises(UsageError, match="no parameter tire"):
        await change_agent(database, "desk", {"template": TEMPLATE, "parameters": {"tire": 1}})
    with pytest.raises(NotFound):
        await get_agent(database, "unset")


@pytest.mark.parametrize(
    "change",
    [{"budget": 0}, {"retention_days": -1}, {"compaction_threshold": 7}, {"strategy": "magic"}, {"model": " "},
     {"max_cost": Decimal(-1)}, {"colour": "red"}, {"system_prompt": "a", "template": "b"}],
)  # fmt: skip
async def test_what_no_session_could_run_with_is_refused(database: Database, change: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        await change_agent(database, "wrong", change)
    assert [agent.name for agent in await list_agents(database) if agent.name == "wrong"] == []


async def test_a_change_that_changes_nothing_is_no_version_and_history_never_changes(database: Database) -> None:
    first = await change_agent(database, "kept", {"max_steps": 5})
    again = await change_agent(database, "kept", {"max_steps": 5})
    assert (first.version, again.version) == (1, 1)
    unset = await change_agent(database, "kept", {"max_steps": None})
    assert (unset.version, unset.max_steps) == (2, None)
    for query in ("update agent_version set version = 9", "delete from agent_version"):
        with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
            async with database.connection() as conn:
                await conn.execute(query)


async def test_an_agent_that_was_deleted_keeps_its_history_and_goes_on_counting(database: Database) -> None:
    await change_agent(database, "gone", {"template": "one"})
    await delete_agent(database, "gone")
    with pytest.raises(NotFound):
        await get_agent(database, "gone")
    again = await change_agent(database, "gone", {"template": "two"})
    assert (again.version, again.template_version) == (3, 2)
    assert [version.definition == {} for version in await list_agent_versions(database, "gone")] == [False, True, False]


async def test_only_an_administrator_changes_agents_and_a_narrowed_credential_sees_its_own(database: Database) -> None:
    await change_agent(database, "a", {"max_steps": 1})
    await change_agent(database, "b", {"max_steps": 2})
    reader = Viewer("laptop", frozenset({"read", "write"}), agent="a")
    assert [agent.name for agent in await list_agents(database, viewer=reader)] == ["a"]
    with pytest.raises(NotFound):
        await get_agent(database, "b", viewer=reader)
    for work in (
        change_agent(database, "a", {"max_steps": 3}, viewer=reader),
        delete_agent(database, "a", viewer=reader),
    ):
        with pytest.raises(Forbidden):
            await work


async def test_opening_a_key_again_keeps_what_the_session_began_with(database: Database) -> None:
    await change_agent(database, "keeper", {"system_prompt": "Old.", "max_steps": 3})
    key = "keeper:cli:ines"
    first = await open_session(database, SETTINGS, key, SessionRequest())
    await change_agent(database, "keeper", {"system_prompt": "New."})
    again = await open_session(database, SETTINGS, key, SessionRequest(max_steps=4))
    assert (again.id, again.config["system"], again.config["max_steps"]) == (first.id, "Old.", 4)
    assert describe_log(await read_log(database, first.id)) == ["SessionStart", "decision: configuration_changed"]


async def test_a_session_uses_no_tools_but_its_agents(database: Database) -> None:
    ran: list[str] = []

    def look(what: str) -> str:
        """Look."""
        ran.append("look")
        return what

    def shout(what: str) -> str:
        """Shout."""
        ran.append("shout")
        return what

    await change_agent(database, "limited", {"tools": ("look",)})
    replies: list[ScriptedReply | str] = [
        ScriptedReply.calling(("shout", {"what": "a"}), ("look", {"what": "b"})),
        "Ok.",
    ]
    async with ModelServer(answers=replies) as server, open_agent(database, server, [look, shout]) as agent:
        session = await agent.open("limited:cli:ines")
        assert await send_and_collect(session, "go") == "Ok."
        tools = [tool["function"]["name"] for tool in server.requests[0]["tools"]]
    assert (tools, ran) == (["look"], ["look"])
    results = [event.data["status"] for event in await read_log(database, session.id) if event.type == "ToolResult"]
    assert results == ["error", "ok"]
