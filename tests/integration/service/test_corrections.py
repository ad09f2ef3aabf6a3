"""A person's word on memory: the forgotten stays so, a correction outranks all, quarantine is theirs to settle."""

from __future__ import annotations

from datetime import timedelta

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound, UsageError
from consolidator.service import corrections
from consolidator.service.erasure import erase, plan
from consolidator.service.explain import explain
from consolidator.service.recall import recall
from consolidator.settings import Settings
from consolidator.store.memory import facts
from consolidator.store.memory import lookup as reading
from consolidator.store.queries import Row, rows
from consolidator.testing import ModelServer, ScriptedReply
from tests.oracle import configured, fact, lines
from tests.support import command, in_thread, logged, night, said, step, unbroken

DAY = timedelta(days=1)
NPM, PNPM = "Our package manager is npm.", "Our package manager is pnpm."


async def told(database: Database, clock: FrozenClock, settings: Settings, *words: str, **columns: str) -> None:
    """Let a user say something in a session of its own, and a night pass."""
    number = str(clock.now().timestamp())
    await logged(
        database, f"s{number}", [said(text) for text in words], **{"peer": "mara", "project": "/shop", **columns}
    )
    clock.advance(DAY)
    await night(database, settings)


async def believed(database: Database, **filters: object) -> list[Row]:
    async with database.connection() as conn:
        return await reading.facts(conn, **filters)  # type: ignore[arg-type]


async def manager(database: Database, **filters: object) -> list[str]:
    return [one["value"] for one in await believed(database, **filters) if one["predicate"] == "package manager"]


async def only(database: Database, predicate: str = "package manager") -> Row:
    (found,) = [one for one in await believed(database) if one["predicate"] == predicate]
    return found


async def test_what_a_person_has_forgotten_is_not_learned_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await told(database, clock, settings, NPM)
    identity = (await only(database))["id"]
    assert "npm" in (await recall(database, "package manager", project="/shop")).block
    await corrections.forget(database, identity)
    assert not await manager(database)
    assert not [i for i in (await recall(database, "package manager", project="/shop")).items if i.kind == "fact"]
    await told(database, clock, settings, NPM)
    assert not await manager(database)
    assert await manager(database, superseded_too=True) == ["npm"]
    assert (await explain(database, identity))["evidence"]
    await unbroken(database)


async def test_a_persons_word_outranks_what_is_said_later(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await told(database, clock, settings, NPM)
    old = await only(database)
    new = await corrections.correct(database, old["id"], "The package manager is yarn.")
    assert [one["sentence"] for one in await believed(database)] == ["The package manager is yarn."]
    assert new["trust"] == "person"
    await told(database, clock, settings, NPM)
    await told(database, clock, settings, PNPM)
    assert [one["sentence"] for one in await believed(database)] == ["The package manager is yarn."]
    assert "yarn" in (await recall(database, "which package manager", project="/shop")).block
    history = await believed(database, superseded_too=True)
    assert {one["value"] for one in history} >= {"npm", "pnpm"}
    assert (await explain(database, new["id"]))["by"] == "by a person"
    again = await corrections.correct(database, new["id"], "The package manager is bun.")
    assert [one["id"] for one in await believed(database)] == [again["id"]]
    await unbroken(database)


async def test_what_was_believed_then_and_what_was_true_then_can_be_asked(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    start = clock.now()
    await told(database, clock, settings, NPM)
    clock.advance(5 * DAY)
    await told(database, clock, settings, PNPM)
    assert not await manager(database, as_of=start)
    assert await manager(database, as_of=start + 2 * DAY) == ["npm"]
    assert await manager(database, as_of=clock.now()) == ["pnpm"]
    assert await manager(database, valid_at=start + 2 * DAY) == ["npm"]
    assert await manager(database, valid_at=clock.now()) == ["pnpm"]
    for moment in (start + 2 * DAY, clock.now()):  # what was believed then to be true, then and now
        assert await manager(database, as_of=start + 2 * DAY, valid_at=moment) == ["npm"]


async def test_an_order_of_a_tool_waits_for_a_person(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    order = "Always build with make -j2 here."

    def obedient(asked: dict[str, object]) -> ScriptedReply:
        found = [
            fact(n, order, f"build_{n}", order, order, "constraint") for n, _, words in lines(asked) if order in words
        ]
        return ScriptedReply.json({"facts": found})

    talk = [said("Read both."), *step("a", "Read", {}, order), *step("b", "Read", {}, f"{order} Or so.")]
    await logged(database, "s1", talk, project="/shop", peer="mara")
    clock.advance(DAY)
    async with ModelServer(obedient) as server:
        await night(database, configured(settings, server))
    assert not await believed(database)
    async with database.connection() as conn:
        first, second = await facts.quarantined(conn)
    assert "in quarantine: an instruction from" in (await explain(database, first["id"]))["lines"][0]
    await corrections.review(database, first["id"], accept=True)
    await corrections.review(database, second["id"], accept=False)
    assert [one["sentence"] for one in await believed(database)] == [order]
    assert "rejected by a person" in (await explain(database, second["id"]))["lines"][0]
    assert "quarantine" not in (await explain(database, first["id"]))["lines"][0]
    async with database.connection() as conn:
        assert not await facts.quarantined(conn)
    with pytest.raises(NotFound, match="nothing in quarantine"):
        await corrections.review(database, second["id"], accept=True)


async def test_a_persons_words_go_with_the_peer_they_are_about(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await told(database, clock, settings, "I prefer small commits.", project="")
    found = await believed(database)
    await corrections.correct(database, found[0]["id"], "Mara prefers marzipan commits.")
    await erase(database, settings, await plan(database, peer="mara"), reason="asked for")
    async with database.connection() as conn:
        assert not await rows(conn, "select id from fact")
        assert not await rows(conn, "select fact_id from tombstone")


async def test_the_command_line_says_what_it_did(
    database: Database, clock: FrozenClock, settings: Settings, environment: dict[str, str]
) -> None:
    await told(database, clock, settings, NPM)
    identity = (await only(database))["id"]
    for option, moment, shown in (("--as-of", "2026-03-03T13:00:00Z", True), ("--valid-at", "2026-03-02", False)):
        done = await in_thread(command, "facts", option, moment, environment=environment)
        assert ("npm" in done.stdout) is shown, (option, moment)
    done = await in_thread(command, "facts", "correct", identity, "We use yarn.", environment=environment)
    assert "believed from now on: We use yarn." in done.stdout + done.stderr
    new = (await believed(database))[0]["id"]
    done = await in_thread(command, "facts", "forget", new, environment=environment)
    assert "no longer believed: We use yarn." in done.stdout + done.stderr
    for words, code in ((("forget", "nobody"), 3), (("correct", new, " "), 2), (("review", "--accept", "nobody"), 3)):
        done = await in_thread(command, "facts", *words, environment=environment, code=code)
        assert "Traceback" not in done.stderr
    with pytest.raises(UsageError):
        await corrections.correct(database, new, "x" * 500)
