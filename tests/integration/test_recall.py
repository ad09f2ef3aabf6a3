"""Recall: what was told in one night is found the next day, cited, within a budget, and only by whom it concerns."""

from __future__ import annotations

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.recalling import recall
from consolidator.memory.recall import BEGIN, END
from consolidator.settings import Settings
from tests.nights import ask, tonight
from tests.support import answered, logged, said


async def test_what_was_said_is_found_with_the_place_where_it_was_said(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await logged(database, "one", [said("My sister Milena plays the cello in Porto."), answered("How lovely!")])
    await logged(database, "two", [said("The parser drops the last column of every table.")])
    await tonight(database, clock, settings)
    found = await recall(database, "who plays cello?", agent="coder")
    assert found.items[0].citation == "[one:1]"
    assert "Milena plays the cello" in found.block
    assert found.block.startswith(BEGIN)
    assert found.block.endswith(END)
    assert "[two:1]" not in found.block


async def test_a_fact_stands_for_the_turn_that_proves_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await logged(database, "one", [said("From now on, always use tabs for indentation.")], project="shop")
    await tonight(database, clock, settings)
    (item,) = (await recall(database, "tabs or spaces for indentation", agent="coder")).items
    (fact,) = await ask(database, "select id, recalled, last_recalled_at from fact")
    assert item.citation == f"[fact:{fact['id']}]"
    assert item.places == (("one", 1),)
    assert fact["recalled"] == 1
    assert fact["last_recalled_at"] == clock.now()
