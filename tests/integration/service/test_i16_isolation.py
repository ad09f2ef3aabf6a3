"""I16: nothing derived from one person's words or results is shown to another, in any kind of memory.

Every person plants words of their own, canaries, in every place that an event has; all that memory answers is searched
for those of others. What enough people share is told to everybody, without them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound
from consolidator.memory.solutions.fix_suggestion import FailedCall
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import FactFilter, MemoryScope, ProcedureFilter, SolutionFilter
from consolidator.models.payload import EventType
from consolidator.models.viewer import Viewer
from consolidator.service.encoding import encode_json
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.recall import recall, recall_for_message
from consolidator.service.memory.skills import export_skills
from consolidator.service.memory.solutions import find_solutions, list_solutions
from consolidator.service.memory.suggestions import suggest_next_calls
from consolidator.settings import Settings
from consolidator.store.facts.visibility import find_reached_facts
from consolidator.store.sessions import sessions
from tests.integration.conftest import OpenDatabase
from tests.nights import query_rows, run_next_night
from tests.support import assistant_response, call_and_result, log_events, read_memory, tool_call, user_message

AGENT = "helpdesk"
STRANGER = "zed"  # of whom no session is known
_CANARY = re.compile(r"q[a-z]+zq\w*", re.I)
_ULID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")  # whose letters may read like one


def canary(person: str, place: str, form: str = "word") -> str:
    """Return a word that only one person says in one place."""
    word = f"q{person}zq{place}"
    return {"word": word, "name": word.capitalize(), "id": f"{word}_4711", "mail": f"{word}@example.org"}[form]


def planted_events(person: str, number: int, form: str = "word") -> list[NewEvent]:
    """A session in which one person's canaries stand in every place of every type of event."""

    def c(place: str) -> str:
        return canary(person, place, form)

    user, order = f"{person}_{number}", f"ORD{person}{number:04d}"
    task = f"task {number}"
    declined = f"Error: card of {c('errorname')} was declined: {c('errorcode')}"
    bad = {"order": order, "reason": c("badreason"), c("badkey"): "x"}
    good = {"order": order, "reason": c("goodreason"), "code": c("code")}
    return [
        NewEvent(EventType.SESSION_START, {"source": c("start"), "note": c("note")}),
        NewEvent(EventType.TASK_START, {"task_id": task, "goal": f"refund {c('goal')} for {user}"}, task_id=task),
        user_message(f"I live in {c('street')}, owe {c('debt')} and have {c('illness')}. Refund it, I am {user}."),
        user_message(f"My name is {c('name')}. Remember that my dog is called {c('dog')}."),
        user_message(f"We use {c('tool')} for packaging. From now on, always greet me with {c('greeting')}."),
        NewEvent(EventType.THINKING_START, {"text": c("thought")}),
        NewEvent(EventType.POLICY_DECISION, {"decision": "model_routed", "reason": c("policy"), "model": c("model")}),
        *call_and_result("a", "get_user", {"user_id": user, "desk": c("desk"), "locale": "en"},
                         {"user_id": user, "orders": [order], "street": c("resultstreet"), c("resultkey"): 1}),
        *call_and_result("b", "get_order", {"order_id": order}, {"order_id": order, c("orderkey"): c("ordervalue")}),
        *call_and_result("c", "refund", bad, declined, "error"),
        *call_and_result("d", "unlock", {"card": c("card"), "note": c("unlocknote")}, c("unlocked")),
        *call_and_result("e", "refund", good, {"ok": c("refunded")}),
        *call_and_result("f", f"tool_{c('toolname')}", {"a": c("toolarg")}, c("toolresult")),
        *call_and_result("g", "Bash", {"command": f"{c('program')} --to {c('operand')}"}, c("output")),
        *call_and_result("h", "Bash", {"command": f"deplyo {c('arg')}"}, "bash: deplyo: command not found", "error"),
        *call_and_result("i", "Bash", {"command": f"deploy {c('arg')}"}, c("deployed")),
        *call_and_result("j", "Bash", {"command": f"git push --to {c('branch')}"},
                         f"fatal: The current branch {c('branch')} has no upstream branch.", "error"),
        *call_and_result("k", "Bash", {"command": f"ls {c('between')}"}, c("betweenresult")),
        *call_and_result("l", "Bash", {"command": f"git push -u {c('branch')}"}, "pushed"),
        *call_and_result("n", "unlock", {"card": c("lockedcard")}, f"Error: card '{c('quoted')}' is locked", "error"),
        *call_and_result("o", "unlock", {"card": c("lockedcard"), "force": c("force")}, c("forced")),
        *call_and_result("m", "Bash", {"command": "notify all"}, f"{c('unsolved')} refused the connection", "error"),
        assistant_response(f"Your refund to {c('answer')} is on its way."),
        NewEvent(EventType.APPROVAL_REQUESTED, {"call_id": "p", "tool": "Bash", "arguments": {"command": c("asked")}}),
        NewEvent(EventType.APPROVAL_GRANTED, {"call_id": "p", "tool": "Bash", "arguments": {"command": c("granted")}}),
        NewEvent(EventType.APPROVAL_DENIED, {"call_id": "q", "tool": "Bash", "reason": c("denied")}),
        NewEvent(EventType.ERROR, {"message": c("errorevent")}),
        NewEvent(EventType.SUBAGENT_SPAWN, {"child": f"{user}-kid", "call_id": "s", "goal": c("childgoal")}),
        NewEvent(EventType.SUBAGENT_COMPLETE, {"child": f"{user}-kid", "call_id": "s", "result": c("childresult")}),
        NewEvent(EventType.TASK_END, {"task_id": task, "outcome": "success", "summary": c("taskend")}, task_id=task),
        tool_call("z", "get_user", {"user_id": user, "desk": c("desk"), "locale": "en"}),
        NewEvent(EventType.SESSION_END, {"summary": c("end")}),
    ]  # fmt: skip


def session_name(person: str, number: int) -> str:
    return f"{person or 'owner'}-{number}"


async def log_person(
    database: Database, person: str, count: int = 3, *, form: str = "word", project: str | None = None
) -> None:
    """Log sessions of a person ("": no peer), with a sub-agent of each that has no peer of its own."""
    name = person or "owner"
    for number in range(count):
        session = session_name(person, number)
        columns: dict[str, Any] = {"agent": AGENT, "peer": person or None, "project": project}
        await log_events(database, session, planted_events(name, number, form), **columns)
        child = {"parent_id": session, "root_id": session, "kind": "sub-agent", "peer": None}
        events = planted_events(name, number + 50, form)[2:9]
        await log_events(database, f"{session}-kid", events, **{**columns, **child})


QUERIES = (
    "where does she live, what does she owe, which illness",
    "refund an order",
    "get_user get_order refund unlock",
    "card was declined",
    "Error: card of somebody was declined: 12",
    "bash: deplyo: command not found",
    "fatal: The current branch main has no upstream branch.",
    "Error: card 'x' is locked",
    "deploy git push notify all",
    "what is the name of the dog",
    "greet me with, packaging",
    "approve",
)


async def ask_everything(database: Database, tmp_path: Path, peer: str, names: Iterable[str]) -> str:
    """Return all that memory answers to a person, in one text."""
    answers: list[Any] = []
    queries = [*QUERIES, *(f"q{name}zqstreet q{name}zqdebt q{name}zqgoal refund" for name in names)]
    for agent in (AGENT, None):
        for query in queries:
            answers.append((await recall(database, query, MemoryScope(agent=agent, peer=peer))).as_json())
            answers.append(
                await find_solutions(
                    database, query, SolutionFilter(agent=agent, peer=peer, include_unsolved=True, limit=50)
                )
            )
            answers.append(
                await list_procedures(
                    database, ProcedureFilter(query=query, agent=agent, peer=peer, include_unworthy=True)
                )
            )
            answers.append(
                await list_solutions(
                    database, SolutionFilter(query=query, agent=agent, peer=peer, include_unsolved=True)
                )
            )
        answers.append(
            await list_procedures(database, ProcedureFilter(agent=agent, peer=peer, include_unworthy=True, limit=1000))
        )
        answers.append(
            await list_solutions(database, SolutionFilter(agent=agent, peer=peer, include_unsolved=True, limit=1000))
        )
        answers.append(
            await list_facts(database, FactFilter(agent=agent, peer=peer, include_superseded=True, limit=1000))
        )
    call = FailedCall("Bash", {"command": "git push --to trunk"})
    answers.append(
        await find_solutions(
            database,
            "fatal: The current branch trunk has no upstream branch.",
            SolutionFilter(agent=AGENT, peer=peer),
            call=call,
        )
    )
    for table in ("fact", "candidate", "procedure", "solution"):
        for row in await query_rows(database, f"select id from {table}"):
            try:
                answers.append(await explain(database, row["id"], peer=peer))
            except NotFound as error:
                answers.append(str(error))
    for row in await query_rows(database, "select id from session"):
        try:
            answers.append(await suggest_next_calls(database, row["id"], peer=peer, limit=50))
        except NotFound:
            continue
    folder = tmp_path / f"skills-{peer}"
    export = await export_skills(database, folder, ProcedureFilter(None, None, peer, include_unworthy=True, limit=1000))
    answers += [file.parent.name + file.read_text() for file in export.files]
    return json.dumps(answers, default=encode_json, ensure_ascii=False)


def persons_in(text: str) -> set[str]:
    """Return whose canaries a text holds."""
    return {match[0].lower().partition("zq")[0][1:] for match in _CANARY.finditer(_ULID.sub("", text))}


@pytest.mark.parametrize("form", ["word", "name", "id", "mail"])
@pytest.mark.parametrize("project", [None, "/srv/shop"])
async def test_nobody_is_shown_what_comes_from_another(
    database: Database, settings: Settings, clock: FrozenClock, tmp_path: Path, form: str, project: str | None
) -> None:
    people = ("ada", "bob", "eve", "")
    for person in people:
        await log_person(database, person, form=form, project=project)
    await run_next_night(database, clock, settings)
    names = [person or "owner" for person in people]
    for asker in ("ada", "bob", "eve", STRANGER):
        text = await ask_everything(database, tmp_path, asker, names)
        assert persons_in(text) == ({asker} if asker != STRANGER else set()), asker
        assert "get_order" in text  # the steps that enough people share
        assert "git push -u" in text  # and the fix


async def test_two_people_share_nothing_and_the_owner_sees_all(
    database: Database, settings: Settings, clock: FrozenClock, tmp_path: Path
) -> None:
    for person in ("ada", "bob"):
        await log_person(database, person)
    await run_next_night(database, clock, settings)
    for asker, own in (("ada", {"ada"}), ("bob", {"bob"}), (STRANGER, set())):
        text = await ask_everything(database, tmp_path, asker, ["ada", "bob"])
        assert persons_in(text) == own
        assert ("get_order" in text) is bool(own)  # not even the tools' names are known to a stranger
    listed = await list_procedures(database, ProcedureFilter(agent=AGENT, include_unworthy=True))
    (common, *_) = [procedure for procedure in listed if procedure.body["people"] == 2]
    assert "of 2 people" in str((await explain(database, common.id))["lines"])
    block = (await recall(database, "whose dog lives where", MemoryScope(agent=AGENT))).block
    assert persons_in(block) == {"ada", "bob"}


async def test_support_of_one_person_is_no_support_of_several(
    database: Database, settings: Settings, clock: FrozenClock, tmp_path: Path
) -> None:
    """Many sessions of one person, and a few of others: what one alone does is nobody else's."""
    await log_person(database, "ada", 6)
    for person in ("bob", "eve"):
        await log_events(database, f"{person}-chat", [user_message("hello")], agent=AGENT, peer=person)
    await run_next_night(database, clock, settings)
    for asker in ("bob", "eve", STRANGER):
        assert persons_in(await ask_everything(database, tmp_path, asker, ["ada"])) == set()


async def test_a_constant_is_shared_when_enough_people_give_it(
    database: Database, settings: Settings, clock: FrozenClock, tmp_path: Path
) -> None:
    for person in ("ada", "bob", "eve"):
        await log_person(database, person)
    await run_next_night(database, clock, settings)
    listed = await list_procedures(database, ProcedureFilter(agent=AGENT, peer=STRANGER, include_unworthy=True))
    shared = next(row for row in listed if any(step["tool"] == "get_user" for step in row.body["steps"]))
    arguments = {a["path"]: a for step in shared.body["steps"] for a in step["arguments"] if step["tool"] == "get_user"}
    assert arguments["locale"]["value"] == "en"
    assert "desk" not in arguments or arguments["desk"]["kind"] == "free"
    assert shared.body["evidence"] == []
    assert "3 people" in str((await explain(database, shared.id, peer=STRANGER))["lines"])


async def test_a_fix_is_bound_from_the_one_who_asks(database: Database, settings: Settings, clock: FrozenClock) -> None:
    for person in ("ada", "bob", "eve"):
        await log_person(database, person)
    await run_next_night(database, clock, settings)
    call = FailedCall("Bash", {"command": "git push --to trunk"})
    error = "fatal: The current branch trunk has no upstream branch."
    (answer, *_) = await find_solutions(database, error, SolutionFilter(agent=AGENT, peer=STRANGER), call=call)
    assert answer.body["suggestion"]["arguments"] == {"command": "git push -u trunk"}
    assert persons_in(json.dumps(answer.body)) == set()


async def test_another_persons_session_is_as_if_it_were_not_there(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    for person in ("ada", "bob"):
        await log_person(database, person)
    await run_next_night(database, clock, settings)
    assert await suggest_next_calls(database, "ada-0", peer="ada")
    assert await suggest_next_calls(database, "ada-0-kid", peer="ada")  # a sub-agent is its root's person's
    for name in ("ada-0", "ada-0-kid", "ada", "a", "nothing"):
        with pytest.raises(NotFound, match=f"{name!r}") as refused:
            await suggest_next_calls(database, name, peer="bob")
        assert "ada-1" not in str(refused.value)


async def test_a_message_of_a_sub_agent_recalls_for_the_person_of_its_root(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    for person in ("ada", "bob", ""):
        await log_person(database, person)
    await run_next_night(database, clock, settings)
    async with database.connection() as conn:
        child = await sessions.get(conn, "ada-0-kid")
    block = await recall_for_message(database, settings, child, "whose dog lives where, qbobzqdog")
    assert persons_in(block or "") == {"ada"}


@pytest.mark.parametrize("order", range(3))
async def test_the_order_in_which_people_come_changes_nothing(
    database: Database, settings: Settings, clock: FrozenClock, fresh: OpenDatabase, order: int
) -> None:
    """A person, then more: what was one's alone becomes one's part, and what is shared comes when enough do."""
    people = ["ada", "bob", "eve", ""]
    async with fresh() as batch, fresh() as nightly:
        for person in people:
            await log_person(batch, person, project="/srv/shop")
        await run_next_night(batch, clock, settings)
        shuffled = random.Random(order).sample(people, len(people))
        for person in shuffled:
            await log_person(nightly, person, project="/srv/shop")
            await run_next_night(nightly, clock, settings)
        assert await read_memory(nightly) == await read_memory(batch)


async def test_erasing_a_person_takes_the_derived_shares_along(
    database: Database, settings: Settings, clock: FrozenClock, tmp_path: Path
) -> None:
    for person in ("ada", "bob", "eve"):
        await log_person(database, person)
    await run_next_night(database, clock, settings)
    assert await list_procedures(database, ProcedureFilter(agent=AGENT, peer=STRANGER, include_unworthy=True))
    await erase_sessions(database, settings, await plan_erasure(database, peer="ada"), reason="asked")
    for table in ("procedure", "solution", "tool_profile", "fact", "candidate", "episode", "error_record"):
        rows = await query_rows(database, f"select t::text as row from {table} t")
        assert "ada" not in persons_in(str(rows)), table
        assert "shared" not in {row.get("audience") for row in await query_rows(database, f"select * from {table}")}
    for asker in ("bob", STRANGER):
        text = await ask_everything(database, tmp_path, asker, ["ada"])
        assert persons_in(text) <= {asker}


async def test_a_fact_that_enough_people_state_is_told_without_their_words(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    for person in ("ada", "bob", "eve"):
        words = [user_message("We use pnpm."), user_message(f"We use {canary(person, 'brand')} for boxes.")]
        await log_events(database, f"{person}-1", words, agent=AGENT, peer=person, project="/srv/shop")
    await run_next_night(database, clock, settings)
    items = (await recall(database, "do we use pnpm?", MemoryScope(agent=AGENT, peer=STRANGER))).as_json()
    assert persons_in(json.dumps(items)) == set()
    (fact,) = [item for item in items["items"] if item["kind"] == "fact"]
    assert "pnpm" in fact["text"]
    explanation = await explain(database, fact["id"], peer=STRANGER)
    assert explanation["evidence"] == []


async def test_a_fact_whose_first_quote_is_gone_is_listed_and_recalled_alike(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    for number in (1, 2):
        words = [user_message("Remember that my dog is called Rex.")]
        await log_events(database, f"ada-{number}", words, agent=AGENT, peer="ada")
    await run_next_night(database, clock, settings)
    mine = FactFilter(agent=AGENT, peer="ada")
    (fact,) = await list_facts(database, mine)
    ada = Viewer("ada", frozenset({"read"}), peer="ada")
    for deleted in fact.evidence:
        await query_rows(database, "delete from candidate where id = %s returning id", deleted)
        listed = {row.id for row in await list_facts(database, mine, viewer=ada)}
        async with database.connection() as conn:
            assert listed == await find_reached_facts(conn, {fact.id}, peer="ada")
            assert not await find_reached_facts(conn, {fact.id}, peer=STRANGER)
        assert listed == ({fact.id} if deleted == fact.evidence[0] else set())
