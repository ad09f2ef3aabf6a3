"""A project's memory is the person's: what one of their agents learned there is told to all of them, to nobody else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound
from consolidator.models.memory_filter import ALL_AGENTS, FactFilter, MemoryScope, SolutionFilter
from consolidator.models.viewer import Viewer
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.recall import recall
from consolidator.service.memory.remember import remember
from consolidator.service.memory.solutions import list_solutions
from consolidator.settings import Settings
from consolidator.store.facts.visibility import find_reached_facts
from tests.integration.service.test_hook_answers import ask_prompt, start
from tests.support import call_and_result, log_events, run_job, user_message

SHOP, BANK = "/work/shop", "/work/bank"
UNBOUND = (
    "Exit code 128\nfatal: The current branch {0} has no upstream branch.\n\n    git push --set-upstream origin {0}\n"
)


async def night(database: Database, settings: Settings) -> None:
    """Learn from all that was logged."""
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(timedelta(days=1))
    await run_job(database, settings)


async def say(database: Database, name: str, text: str, *, agent: str, **columns: Any) -> None:
    """Log what a person said to an agent, a day later than what is logged already."""
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(timedelta(days=1))
    await log_events(database, name, [user_message(text)], agent=agent, **{"project": SHOP, **columns})


async def push(database: Database, name: str, *, agent: str, **columns: Any) -> None:
    """Log a push that fails, and the call that then works."""
    events = [
        *call_and_result("a", "Bash", {"command": "git push"}, UNBOUND.format(name), "error"),
        *call_and_result("b", "Bash", {"command": f"git push --set-upstream origin {name}"}, "set up"),
    ]
    await log_events(database, name, events, agent=agent, **{"project": SHOP, **columns})


async def believed(database: Database, viewer: Viewer | None = None, **scope: Any) -> set[str]:
    """The sentences that an agent is told."""
    facts = await list_facts(database, FactFilter(**scope), viewer=viewer or Viewer())
    return {fact.sentence for fact in facts}


async def test_what_one_agent_was_told_of_a_project_all_are_told(database: Database, settings: Settings) -> None:
    await say(database, "c1", "From now on always use pnpm, never npm.", agent="codex")
    await say(database, "c2", "We use tabs for indentation.", agent="codex")
    await night(database, settings)
    assert "pnpm" in await start(database)
    assert "tabs" in await ask_prompt(database, "should the indentation be tabs here?")
    assert await believed(database, agent="claude-code", project=SHOP) == await believed(database, project=SHOP)
    assert (await recall(database, "indentation", MemoryScope("claude-code", SHOP))).items
    assert await start(database, project=BANK) == ""  # but of other projects only what holds everywhere


async def test_a_correction_said_to_one_agent_ends_what_another_was_told(
    database: Database, settings: Settings
) -> None:
    await say(database, "c1", "Our package manager is npm.", agent="codex")
    await night(database, settings)
    assert any("npm" in sentence for sentence in await believed(database, agent="codex"))
    await say(database, "c2", "Our package manager is pnpm.", agent="claude-code")
    await night(database, settings)
    for agent in ("codex", "claude-code", None):
        assert [sentence for sentence in await believed(database, agent=agent) if "npm" in sentence] == [
            "The package manager is pnpm."
        ]


async def test_an_error_that_two_agents_met_once_is_confirmed_by_both(database: Database, settings: Settings) -> None:
    await push(database, "cart", agent="codex")
    await push(database, "logo", agent="claude-code")
    await night(database, settings)
    (solution,) = await list_solutions(database, SolutionFilter("cursor", SHOP))
    assert (solution.confirmed, solution.sessions) == (True, 2)
    explained = await explain(database, solution.id)
    assert {proof["agent"] for proof in explained["evidence"]} == {"codex", "claude-code"}
    await erase_sessions(database, settings, await plan_erasure(database, session="cart"), reason="asked to")
    (left,) = await list_solutions(database, SolutionFilter("codex", SHOP))
    assert (left.confirmed, left.sessions) == (False, 1)


async def test_agents_of_other_people_teach_and_are_told_nothing_of_it(database: Database, settings: Settings) -> None:
    await say(database, "own", "From now on always use pnpm, never npm.", agent="codex")
    await say(database, "ann", "From now on always use yarn, never npm.", agent="codex", peer="ann")
    await say(database, "nobody", "From now on always use deno, never npm.", agent="helper", project=None)
    await push(database, "cart", agent="helper", peer="ann")
    await push(database, "logo", agent="helper", peer="bob")
    await night(database, settings)
    assert "pnpm" in (brief := await start(database))
    assert not [word for word in ("yarn", "deno", "upstream") if word in brief]
    assert not (await recall(database, "use pnpm or npm", MemoryScope("codex", SHOP, "bob"))).items
    for peer, words in (("ann", "yarn"), ("", "pnpm")):
        block = (await recall(database, "always use what, never npm", MemoryScope("codex", SHOP, peer))).block
        assert [word for word in ("pnpm", "yarn", "deno") if word in block] == [words]


@pytest.mark.usefixtures("agents_apart")
async def test_agents_that_are_kept_apart_are_told_their_own(database: Database, settings: Settings) -> None:
    await say(database, "c1", "From now on always use pnpm, never npm.", agent="codex")
    await push(database, "cart", agent="codex")
    await push(database, "logo", agent="claude-code")
    await night(database, settings)
    assert await start(database) == ""
    assert await believed(database, agent="claude-code") == set()
    assert await believed(database, agent="codex")
    assert [row.confirmed for row in await list_solutions(database)] == [False, False]
    assert (await remember(database, "we use tabs", MemoryScope(project=SHOP))).agent == "claude-code"


async def test_what_is_remembered_is_the_projects_or_the_persons(database: Database, settings: Settings) -> None:
    await say(database, "c1", "Hello.", agent="codex", project=BANK)
    of_project = await remember(database, "The shop is deployed with hugo", MemoryScope(project=SHOP))
    of_person = await remember(database, "I prefer short answers")
    of_agent = await remember(database, "I want plans in German", MemoryScope("codex"))
    assert (of_project.agent, of_project.scope) == (of_person.agent, "project") == (ALL_AGENTS, "project")
    assert of_person.scope == of_agent.scope == "agent"
    assert {"hugo", "short answers"} <= {
        words for words in ("hugo", "short answers", "German") if words in await start(database)
    }
    told = await start(database, project=BANK)
    assert ("hugo" in told, "short answers" in told, "German" in told) == (False, True, False)


async def test_a_credential_of_one_agent_reaches_what_is_shared_where_it_works(
    database: Database, settings: Settings
) -> None:
    await say(database, "c1", "From now on always use pnpm, never npm.", agent="codex")
    await say(database, "c2", "From now on always use podman, never docker.", agent="codex", project=BANK)
    await say(database, "d1", "Hello.", agent="cursor")
    await say(database, "h1", "Hello.", agent="helper", peer="ann")
    await night(database, settings)
    cursor = Viewer("token", agent="cursor")
    facts = await list_facts(database, FactFilter(), viewer=cursor)
    assert {fact.project for fact in facts} == {SHOP}
    assert (await explain(database, facts[0].id, viewer=cursor))["evidence"]
    assert (await recall(database, "pnpm or npm?", viewer=cursor)).items
    assert not (await recall(database, "podman or docker?", viewer=cursor)).items
    assert await believed(database, Viewer("token", agent="cursor", project=SHOP))
    for stranger in (
        Viewer("token", agent="helper"),
        Viewer("token", agent="helper", project=SHOP),
        Viewer("token", agent="cursor", peer="ann"),
    ):
        assert await believed(database, stranger) == set()
        assert not (await recall(database, "pnpm or npm?", viewer=stranger)).items
        with pytest.raises(NotFound):
            await explain(database, facts[0].id, viewer=stranger)


async def test_a_person_is_listed_what_they_said_and_nothing_of_another(database: Database, settings: Settings) -> None:
    said = {"ada": "We always use pnpm here.", "bo": "We always use Postgres 16 here."}
    for peer, text in said.items():
        await say(database, peer, text, agent="coder", peer=peer)
    await night(database, settings)
    everything = await list_facts(database, FactFilter())
    for peer in said:
        listed = await list_facts(database, FactFilter(), viewer=Viewer("token", peer=peer))
        async with database.connection() as conn:
            reached = await find_reached_facts(conn, [fact.id for fact in everything], peer=peer)
        assert {fact.id for fact in listed} == reached
        assert len(listed) == 1
