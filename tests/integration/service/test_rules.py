"""What people repeat in three sessions is proposed as a rule, believed once accepted, and never proposed again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import Forbidden, NotFound, UsageError
from consolidator.models.viewer import Viewer
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.remember import forget
from consolidator.service.memory.rules import accept_rule, dismiss_rule, list_accepted_rules, list_rules
from consolidator.settings import Settings
from tests.support import assert_invariants, log_events, read_memory, run_job, user_message

DAY = timedelta(days=1)
SHOP = {"agent": "coder", "project": "/src/shop"}
READ = ("read src/a.ts in full", "ok, read @docs/b.md in full please", "Read it in full, then go")


async def say(database: Database, name: str, text: str, **columns: str) -> None:
    await log_events(database, name, [user_message(text)], **{**SHOP, **columns})


async def night(database: Database, clock: FrozenClock, settings: Settings) -> None:
    clock.advance(DAY)
    await run_job(database, settings)
    await assert_invariants(database)


async def repeat(database: Database, clock: FrozenClock, settings: Settings) -> None:
    for number, text in enumerate(READ):
        await say(database, f"s{number}", text)
    await night(database, clock, settings)


async def test_what_three_requests_want_is_one_proposal_and_a_part_of_an_order_is_none(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    wishes = ("plan it and write it with Haiku 4", "delegate the docs to haiku 4", "continue but use haiku 4")
    for number, text in enumerate(wishes):
        await say(database, f"s{number}", text)
        await say(database, f"t{number}", "use property-based tests for the parser", project="/src/other")
    await night(database, clock, settings)
    proposals = await list_rules(database)
    assert {(row.rule, row.sessions) for row in proposals} == {
        ("Use haiku 4.", 3),
        ("Use property-based tests for parser.", 3),
    }
    for proposal in proposals:
        await accept_rule(database, proposal.id)
    assert await list_rules(database) == []


async def test_what_is_wished_in_another_language_is_believed_or_proposed_as_it_was_said(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number, text in enumerate(("額度快到80%的時候請提醒我", "額度接近80%時請提醒我", "額度到了80%請提醒我, 謝謝")):
        await say(database, f"s{number}", text)
    await say(database, "s0", "以後提交訊息一律用英文寫. 請用繁體中文回答我")
    await night(database, clock, settings)
    assert {fact.sentence for fact in await list_facts(database)} == {"以後提交訊息一律用英文寫", "請用繁體中文回答我"}
    (proposal,) = await list_rules(database)
    assert (proposal.rule, proposal.sessions) == ("額度快到80%的時候請提醒我", 3)
    assert (await accept_rule(database, proposal.id)).sentence == proposal.rule
    assert await list_rules(database) == []


async def test_three_sessions_make_a_proposal_and_a_person_a_rule(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number, text in enumerate(READ[:2]):
        await say(database, f"s{number}", text)
    await say(database, "fork", READ[2], root_id="s0", parent_id="s0", kind="fork", origin="elsewhere")
    await night(database, clock, settings)
    assert await list_rules(database) == []  # a fork is no session of its own
    await say(database, "other", READ[2], project="/src/other")
    await say(database, "bob", READ[2], agent="bob", peer="bob")
    await night(database, clock, settings)
    assert await list_rules(database) == []
    await say(database, "s2", READ[2])
    await night(database, clock, settings)
    (proposal,) = await list_rules(database)
    assert (proposal.rule, proposal.sessions, proposal.believed) == ("Read files in full.", 3, False)
    assert {quote.quote.rstrip(".") for quote in proposal.quotes} >= set(READ)
    assert {quote.session_id for quote in proposal.quotes} >= {"s0", "s1", "s2"}
    assert await list_facts(database) == []
    fact = await accept_rule(database, proposal.id[:8], words="Read a file in full before you change it")
    assert fact.sentence == "Read a file in full before you change it."
    assert "ok, read @docs/b.md in full please" in str(await explain(database, fact.id))
    assert await list_rules(database) == []
    before = await read_memory(database)
    await say(database, "s3", READ[0])
    await night(database, clock, settings)
    after = await read_memory(database)
    assert [row[0:2] for row in after["fact"]] == [row[0:2] for row in before["fact"]]
    assert [row.id for row in await list_accepted_rules(database, project="/src/shop")] == [fact.id]
    await forget(database, fact.id)
    assert await list_accepted_rules(database, project="/src/shop") == []
    assert await list_rules(database) == []


async def test_an_order_of_two_words_is_proposed_once_five_sessions_gave_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(4):
        await say(database, f"s{number}", "bump the version")
    await night(database, clock, settings)
    assert await list_rules(database) == []
    await say(database, "s4", "please bump version")
    await night(database, clock, settings)
    assert [(row.rule, row.sessions) for row in await list_rules(database)] == [("Bump version.", 5)]


async def test_what_the_imported_logs_of_one_other_person_repeat_is_no_rule_for_the_project(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number, text in enumerate(READ):
        await say(database, f"s{number}", text, peer="ada", origin=f"elsewhere:{number}")
    await night(database, clock, settings)
    assert [rule for rule in await list_rules(database) if rule.peer != "ada"] == []
    await say(database, "s3", READ[0], peer="bob")
    await night(database, clock, settings)
    assert [rule.sessions for rule in await list_rules(database) if rule.peer is None] == [4]


async def test_what_is_dismissed_is_not_proposed_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await repeat(database, clock, settings)
    (proposal,) = await list_rules(database)
    assert (await dismiss_rule(database, proposal.id)).rule == proposal.rule
    await say(database, "s9", READ[0])
    await night(database, clock, settings)
    assert await list_rules(database) == []
    with pytest.raises(NotFound):
        await accept_rule(database, proposal.id)


async def test_a_rule_accepted_for_every_project_takes_the_place_of_its_projects(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await repeat(database, clock, settings)
    for number, text in enumerate(READ):
        await say(database, f"o{number}", text, project="/src/other")
        await say(database, f"n{number}", "Never commit generated files.")
    await night(database, clock, settings)
    of_shop = {proposal.rule: proposal for proposal in await list_rules(database, project="/src/shop")}
    assert len(await list_rules(database)) == 3
    narrowed = Viewer(name="app", scopes=frozenset({"read", "write"}), project="/src/shop")
    wide = []
    for rule in ("Read files in full.", "Never commit generated files."):
        with pytest.raises(UsageError, match="for one project"):
            await accept_rule(database, of_shop[rule].id, everywhere=True, viewer=narrowed)
        wide.append(await accept_rule(database, of_shop[rule].id, everywhere=True))
    assert [(fact.level, fact.project, fact.sentence) for fact in wide] == [
        ("agent", None, "Read files in full."), ("agent", None, "Never commit generated files.")
    ]  # fmt: skip
    await say(database, "later", READ[0])
    await night(database, clock, settings)
    assert await list_rules(database) == []  # nor for the other project
    assert {fact.id for fact in await list_facts(database)} == {fact.id for fact in wide}


async def test_a_believed_rule_of_three_sessions_is_proposed_too(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for number in range(3):
        await say(database, f"s{number}", "Never commit generated files.")
    await night(database, clock, settings)
    (proposal,) = await list_rules(database, project="shop")
    assert proposal.believed
    assert len(proposal.quotes) == 3
    fact = await accept_rule(database, proposal.id)
    assert (fact.id, proposal.rule) == (proposal.id, "Never commit generated files.")
    assert [row.rule for row in await list_accepted_rules(database, project="/src/shop")] == [proposal.rule]
    assert await list_rules(database) == []
    await night(database, clock, settings)
    assert len(await list_facts(database)) == 1


async def test_an_erasure_takes_a_proposal_away(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await repeat(database, clock, settings)
    (proposal,) = await list_rules(database)
    await accept_rule(database, proposal.id)
    (fact,) = await list_facts(database)
    for name in ("s0", "s1", "s2"):
        await erase_sessions(database, settings, await plan_erasure(database, session=name), reason="asked")
    (left,) = await list_facts(database)
    assert (left.id, left.sessions) == (fact.id, 1)  # the person's own word is left, and no quote
    assert "docs/b.md" not in str(await explain(database, fact.id))


async def test_a_credential_sees_and_decides_its_own(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await repeat(database, clock, settings)
    own = Viewer(name="app", scopes=frozenset({"read", "write"}), project="/src/shop")
    others = Viewer(name="app2", scopes=frozenset({"read", "write"}), project="/src/other")
    person = Viewer(name="app3", scopes=frozenset({"read", "write"}), peer="ada")
    recorder = Viewer(name="app4", scopes=frozenset({"read", "record"}))
    (proposal,) = await list_rules(database, viewer=own)
    assert await list_rules(database, viewer=others) == await list_rules(database, viewer=person) == []
    with pytest.raises(NotFound):
        await accept_rule(database, proposal.id, viewer=others)
    for decide in (accept_rule, dismiss_rule):
        with pytest.raises(Forbidden):
            await decide(database, proposal.id, viewer=recorder)
    assert (await accept_rule(database, proposal.id, viewer=own)).id == proposal.id
