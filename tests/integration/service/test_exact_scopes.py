"""Scopes are exact: a project, agent or peer that is named is meant alone, by every command that filters by it."""

from __future__ import annotations

import json

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.models.memory_filter import FactFilter, MemoryFilter, MemoryScope, ProcedureFilter, SolutionFilter
from consolidator.models.session import SessionFilter
from consolidator.service.encoding import encode_json
from consolidator.service.memory.facts import list_facts, list_rejected
from consolidator.service.memory.learned import load_learned
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.recall import recall
from consolidator.service.memory.solutions import find_solutions, list_solutions
from consolidator.service.sessions.listing import list_sessions
from consolidator.settings import Settings
from tests.nights import log_workdays, run_next_night

PROJECTS = ("/srv/op1", "/srv/shop1", "/srv/shop10", "/srv/shop_1", "/old/api", "/new/api")
OTHERS = {name: f"agent{n}" for n, name in enumerate(PROJECTS)}


async def ask_everything(database: Database, project: str) -> str:
    answers = [
        (await list_sessions(database, SessionFilter(project=project))).sessions,
        await list_facts(database, FactFilter(project=project)),
        await list_rejected(database, MemoryFilter(project=project)),
        await list_procedures(database, ProcedureFilter(project=project, include_unworthy=True)),
        await list_solutions(database, SolutionFilter(project=project, include_unsolved=True)),
        await find_solutions(database, "bash: pytets: command not found", SolutionFilter(project=project), tool="Bash"),
        (await recall(database, "tabs booking tests pytest", MemoryScope(project=project))).as_json(),
        await load_learned(database, scope=MemoryScope(project=project)),
    ]
    return json.dumps(answers, default=encode_json)


@pytest.mark.usefixtures("agents_apart")
async def test_a_project_is_meant_alone(database: Database, settings: Settings, clock: FrozenClock) -> None:
    for project, agent in OTHERS.items():
        await log_workdays(database, 3, agent=agent, project=project)
    await run_next_night(database, clock, settings)
    for name in ("op1", "shop1", "shop10", "shop_1", "/srv/shop1/"):
        project = "/srv/" + name.rstrip("/").rpartition("/")[2]
        text = await ask_everything(database, name)
        assert OTHERS[project] in text
        assert not [agent for agent in OTHERS.values() if agent != OTHERS[project] and agent in text]
    for name in ("shop", "SHOP1", "srv", "op", "%", "shop_", "_hop1", "/srv", "/srv/shop", "nowhere"):
        text = await ask_everything(database, name)
        assert not [agent for agent in OTHERS.values() if agent in text], name
    with pytest.raises(UsageError, match="several projects"):
        await ask_everything(database, "api")
    assert OTHERS["/old/api"] in await ask_everything(database, "/old/api")
    of_one_agent = SessionFilter(project="api", agent=OTHERS["/new/api"])  # of one agent it is one
    assert (await list_sessions(database, of_one_agent)).sessions


@pytest.mark.parametrize("name", ["agent", "Agent0", "agent_", "agent%", "agent0 ", ""])
async def test_an_agent_is_meant_alone(database: Database, settings: Settings, clock: FrozenClock, name: str) -> None:
    await log_workdays(database, 3, agent="agent0", peer="ada", project=None)
    await run_next_night(database, clock, settings)
    if name:
        assert not (await recall(database, "tabs booking pytest", MemoryScope(agent=name))).items
        assert not await list_procedures(database, ProcedureFilter(agent=name, include_unworthy=True))
    for peer in ("ad", "ADA", "ada ", "%", "a_a", name):
        assert not (await recall(database, "tabs booking pytest", MemoryScope(agent="agent0", peer=peer))).items
        assert not await list_solutions(database, SolutionFilter(agent="agent0", peer=peer, include_unsolved=True))
    assert (await recall(database, "tabs booking pytest", MemoryScope(agent="agent0", peer="ada"))).items
