"""A credential of one project is shown nothing that rests on another project's sessions, by any tool.

Every project's sessions plant words of their own, canaries, in every place of an event; all are one person's, the
owner's, so that what keeps them apart is the project alone.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import ConsolidatorError
from consolidator.models.memory_filter import ALL_AGENTS, FactFilter, MemoryScope, ProcedureFilter, SolutionFilter
from consolidator.models.viewer import Viewer
from consolidator.service.credentials import create_credential, find_viewer
from consolidator.service.encoding import encode_json, to_visible_json
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import correct_fact, list_facts
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.recall import recall
from consolidator.service.memory.skills import export_skills
from consolidator.service.memory.solutions import find_solutions
from consolidator.service.memory.suggestions import suggest_next_calls
from consolidator.service.sessions.context import preview_context
from consolidator.settings import Settings
from tests.integration.service.test_i16_isolation import AGENT, QUERIES, canary, persons_in, planted_events
from tests.nights import query_rows, run_next_night
from tests.support import log_events, user_message

PROJECTS: dict[str, str | None] = {"ada": "/srv/ada", "bob": "/srv/bob", "eve": "/srv/ada/sub", "none": None}
ERRORS = (
    "Error: card of somebody was declined: 12",
    "bash: deplyo: command not found",
    "fatal: The current branch trunk has no upstream branch.",
    "Error: card 'x' is locked",
    "refused the connection",
)


async def log_projects(
    database: Database, projects: dict[str, str | None] = PROJECTS, *, count: int = 3, form: str = "word"
) -> None:
    """Log sessions of projects, each with words of its own; a session is named by its project's name here."""
    for name, project in projects.items():
        for number in range(count):
            events = planted_events(name, number, form)
            await log_events(database, f"{name}-{number}", events, agent=AGENT, peer=None, project=project)


@dataclass(frozen=True, slots=True)
class Asker:
    """A credential, and what the service answers it, as JSON."""

    database: Database
    settings: Settings
    viewer: Viewer

    async def ask(self, function: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        """Return what a function of the service answers."""
        return to_visible_json(await function(self.database, *args, **options, viewer=self.viewer))

    async def explain(self, memory_id: str) -> Any:
        """Return an explanation; nothing where there is none."""
        try:
            return await self.ask(explain, memory_id)
        except ConsolidatorError:
            return {}


def asker_of(database: Database, settings: Settings, **narrowed: Any) -> Asker:
    """Return a credential that reads."""
    return Asker(database, settings, Viewer("shop", frozenset({"read"}), **narrowed))


async def ask_everything(asker: Asker, names: list[str], **scope: Any) -> str:
    """Return all that the service answers, in one text; errors are answers, too."""
    answers: list[Any] = []

    async def ask(function: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> None:
        try:
            answers.append(await asker.ask(function, *args, **options))
        except ConsolidatorError as error:
            answers.append(str(error))

    planted = [f"q{name}zqstreet q{name}zqdebt q{name}zqgoal q{name}zqdog refund" for name in names]
    procedures = ProcedureFilter(include_unworthy=True, limit=100, **scope)
    for query in [*QUERIES, *planted]:
        await ask(recall, query, MemoryScope(**scope), token_budget=50_000, settings=asker.settings)
        await ask(list_procedures, replace(procedures, query=query))
    solutions = SolutionFilter(limit=100, **scope)
    for error in [*ERRORS, *planted]:
        await ask(find_solutions, error, solutions)
        await ask(find_solutions, error, solutions, tool="Bash", arguments={"command": "git push --to trunk"})
        await ask(find_solutions, error, solutions, tool="unlock")
    await ask(list_procedures, procedures)
    for table in ("fact", "candidate", "procedure", "solution"):
        for row in await query_rows(asker.database, f"select id from {table}"):
            answers.append(await asker.explain(row["id"]))
    for row in await query_rows(asker.database, "select id from session"):
        await ask(suggest_next_calls, row["id"], limit=50)
        await ask(preview_context, asker.settings, row["id"])
    return json.dumps(answers, ensure_ascii=False)


def sessions_in(text: str) -> set[str]:
    """Return of which projects a text names sessions."""
    return {name for name in PROJECTS for number in range(9) if f'"{name}-{number}' in text}


@pytest.mark.parametrize("form", ["word", "name", "id", "mail"])
async def test_a_credential_of_a_project_is_shown_that_project_alone(
    database: Database, settings: Settings, clock: FrozenClock, tmp_path: Path, form: str
) -> None:
    await log_projects(database, form=form)
    await run_next_night(database, clock, settings)
    for name, project in PROJECTS.items():
        if project is None:
            continue
        asker = asker_of(database, settings, agent=AGENT, project=project)
        text = await ask_everything(asker, list(PROJECTS))
        assert persons_in(text) == {name}
        assert sessions_in(text) == {name}
        folder = tmp_path / name
        viewer = asker.viewer
        listed = await list_facts(database, FactFilter(include_superseded=True, limit=1000), viewer=viewer)
        assert persons_in(json.dumps(listed, default=encode_json)) == {name}
        export = await export_skills(
            database, folder, ProcedureFilter(agent=None, project=None, include_unworthy=True, limit=100), viewer=viewer
        )
        assert persons_in("".join(file.read_text() for file in export.files)) <= {name}
    everything = await ask_everything(asker_of(database, settings), list(PROJECTS))
    assert persons_in(everything) == set(PROJECTS)


@pytest.mark.parametrize(
    "narrowed",
    [
        {"project": "/srv/bob"},
        {"agent": AGENT, "project": "/srv/bob"},
        {"agent": AGENT, "project": "/srv/bob", "peer": "mara"},
        {"agent": "other", "project": "/srv/bob"},
        {"agent": AGENT, "project": "/srv"},
        {"agent": AGENT, "project": "/srv/bob/"},
        {"agent": AGENT, "project": "bob"},
        {"agent": AGENT, "project": "/SRV/BOB"},
        {"agent": AGENT, "project": "%"},
        {"agent": AGENT, "project": ""},
        {"agent": "other"},
        {"agent": AGENT[:-1]},
    ],
)
async def test_other_ways_to_narrow(
    database: Database, settings: Settings, clock: FrozenClock, narrowed: dict[str, Any]
) -> None:
    await log_projects(database, count=2)
    await run_next_night(database, clock, settings)
    is_bobs = narrowed.get("project") == "/srv/bob" and narrowed.get("agent") != "other" and "peer" not in narrowed
    text = await ask_everything(asker_of(database, settings, **narrowed), list(PROJECTS))
    seen = {"none"} if narrowed.get("project") == "" else {"bob"} if is_bobs else set()
    assert persons_in(text) <= seen
    assert bool(persons_in(text)) is is_bobs or narrowed.get("project") == ""
    assert sessions_in(text) <= seen


async def test_a_fact_that_several_projects_support_is_none_of_one(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    """Facts of the agent and of a person: told where every quote is of the project."""
    for name, words in {
        "ada": ["My name is Quentin.", "I live in Bergen.", "I have a dog called Rex."],
        "bob": ["My name is Quentin.", "I love peanuts."],
    }.items():
        events = [user_message(text) for text in words]
        for peer in (None, "mara"):
            session = f"{name}-{peer or 'owner'}"
            await log_events(database, session, events, agent=AGENT, peer=peer, project=PROJECTS[name])
    await run_next_night(database, clock, settings)
    facts = await query_rows(database, "select id, sentence, level from fact where superseded_at is null")
    assert {"peer"} <= {fact["level"] for fact in facts}
    told = {}
    for name in ("ada", "bob"):
        asker = asker_of(database, settings, agent=AGENT, project=PROJECTS[name])
        told[name] = {fact["sentence"] for fact in facts if await asker.explain(fact["id"])}
        questions = ("where does Quentin live?", "which dog?", "loves what, peanuts?")
        recalled = json.dumps([await asker.ask(recall, question, settings=settings) for question in questions])
        assert ("peanuts" in recalled) is (name == "bob")
        assert ("Bergen" in recalled) is (name == "ada")
    assert any("Bergen" in sentence for sentence in told["ada"])
    assert any("peanuts" in sentence for sentence in told["bob"])
    assert not told["ada"] & told["bob"]


async def test_what_a_person_put_right_is_told_where_it_belongs_to_the_project(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    events = [user_message("I live in Bergen."), user_message("We use pnpm.")]
    await log_events(database, "ada-1", events, agent=AGENT, peer=None, project="/srv/ada")
    await run_next_night(database, clock, settings)
    for fact in await query_rows(database, "select id, level, sentence from fact where superseded_at is null"):
        corrected = await correct_fact(database, fact["id"], f"{fact['sentence'].rstrip('.')} for good.")
        asker = asker_of(database, settings, agent=AGENT, project="/srv/ada")
        assert bool(await asker.explain(corrected.id)) is (fact["level"] == "project")


async def test_suggestions_and_explanations_are_within_agent_and_project(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    await log_projects(database, {"ada": "/srv/ada", "bob": "/srv/bob"})
    for number in range(3):
        events = planted_events("eve", number)
        await log_events(database, f"eve-{number}", events, agent="other", peer="eve", project="/srv/ada")
    await run_next_night(database, clock, settings)
    rows = {
        table: await query_rows(database, f"select id, agent, project from {table}")
        for table in ("fact", "procedure", "solution", "candidate")
    }
    for narrowed, name in (
        ({"agent": AGENT, "project": "/srv/ada"}, "ada"),
        ({"agent": AGENT, "project": "/srv/bob"}, "bob"),
        ({"agent": "other"}, "eve"),
        ({"agent": "other", "project": "/srv/ada"}, "eve"),
    ):
        asker = asker_of(database, settings, **narrowed)
        refusals: list[str] = []
        for session in ("ada-0", "bob-1", "eve-2", "ada", "b", "eve", ""):
            try:
                answer = await asker.ask(suggest_next_calls, session, limit=50)
            except ConsolidatorError as error:
                refusals.append(str(error).replace(repr(session), ""))
                continue
            assert session.startswith(name)
            assert persons_in(json.dumps(answer)) <= {name}
        assert not any(f"{other}-" in refusal for refusal in refusals for other in PROJECTS)
        for table, learned in rows.items():
            for row in learned:
                explained = await asker.explain(row["id"])
                if explained:
                    assert row["agent"] in (narrowed["agent"], ALL_AGENTS), table
                    assert row["project"] in (narrowed.get("project"), None, "/srv/ada"), table
                    assert persons_in(json.dumps(explained)) <= {name}
        explained_at_all = [await asker.explain(row["id"]) for row in rows["candidate"]]
        assert any(explained_at_all)


async def test_a_project_without_profiles_of_its_own_is_suggested_nothing(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    await log_projects(database, {"ada": "/srv/ada", "bob": "/srv/bob"})
    await run_next_night(database, clock, settings)
    await log_events(database, "new-1", planted_events("new", 1), agent=AGENT, peer=None, project="/srv/new")
    asker = asker_of(database, settings, agent=AGENT, project="/srv/new")
    assert await asker.ask(suggest_next_calls, "new-1") == []
    assert await asker_of(database, settings, agent=AGENT).ask(suggest_next_calls, "new-1")


@pytest.mark.parametrize("project", ["shop", "/srv/shop/", "SHOP", "/srv"])
async def test_a_credentials_project_is_what_it_says_whatever_comes_later(
    database: Database, settings: Settings, clock: FrozenClock, project: str
) -> None:
    shops: dict[str, str | None] = {"ada": "/srv/shop", "bob": "/home/bob/shop"}
    asker = asker_of(database, settings, agent=AGENT, project=project)
    for name, path in shops.items():
        await log_projects(database, {name: path})
        await run_next_night(database, clock, settings)
        text = await ask_everything(asker, list(shops))
        assert persons_in(text) == set()
        assert "/srv/shop" not in text.replace(project, "")
        assert "/home" not in text


async def test_a_credential_is_made_for_the_path_of_a_project(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    await log_projects(database, {"ada": "/srv/shop"})
    viewer = await find_viewer(database, await create_credential(database, "shop-bot", ["read"], project="shop"))
    assert viewer is not None
    assert viewer.project == "/srv/shop"
    await log_projects(database, {"bob": "/home/bob/shop", "eve": "shop"})
    await run_next_night(database, clock, settings)
    asker = Asker(database, settings, viewer)
    assert persons_in(await ask_everything(asker, ["ada", "bob", "eve"])) == {"ada"}


async def test_an_argument_names_only_projects_that_the_credential_reaches(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    """What other agents or people call their projects changes neither the answer nor the error."""
    await log_projects(database, {"ada": "/srv/shop"})
    for name, agent, peer, project in (
        ("b1", "other", None, "shop"),
        ("b2", "other", None, "/x/shop"),
        ("b3", AGENT, "mara", "/home/mara/shop"),
    ):
        await log_events(database, name, planted_events("bob", 1), agent=agent, peer=peer, project=project)
    await run_next_night(database, clock, settings)
    asker = asker_of(database, settings, agent=AGENT, peer="")
    text = await ask_everything(asker, ["ada", "bob"], project="shop")
    assert "ada" in persons_in(text)
    assert "/home/mara" not in text
    assert "/x/shop" not in text
    with pytest.raises(ConsolidatorError, match="several projects") as refused:
        await asker_of(database, settings, agent=AGENT).ask(recall, "refund", MemoryScope(project="shop"))
    assert "/x/shop" not in str(refused.value)
    assert canary("ada", "street") in text
