"""What resolved an error for other names answers a new name; nights publish families as one batch would."""

from __future__ import annotations

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import MemoryScope, SolutionFilter
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.recall import recall
from consolidator.service.memory.solutions import find_solutions
from consolidator.settings import Settings
from tests.nights import query_rows, run_next_night
from tests.support import assert_invariants, call_and_result, log_events, user_message

FAMILIES = "select id, project, headline, body from solution where body ->> 'names' <> '0' order by id"
NO_MODULE = "Traceback (most recent call last):\nModuleNotFoundError: No module named '{}'"


def missing_module(name: str, fix: str = "pip install {}") -> list[NewEvent]:
    """A program that lacks a module, the installation, and the program again: seven events."""
    run = {"command": f"python report_{name}.py"}
    return [
        user_message("Run the report"),
        *call_and_result("a", "Bash", run, NO_MODULE.format(name), "error"),
        *call_and_result("b", "Bash", {"command": fix.format(name)}, "installed"),
        *call_and_result("c", "Bash", run, "42"),
    ]


async def ask(database: Database, name: str) -> list[tuple[str, object]]:
    found = await find_solutions(
        database, NO_MODULE.format(name), SolutionFilter(agent="coder"), call=("Bash", {"command": "python x.py"})
    )
    return [(answer.body["suggestion"]["text"], answer.body["suggestion"]["arguments"]) for answer in found]


async def test_a_new_module_is_answered_by_the_others(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "s1", missing_module("requests"), project="shop")
    await run_next_night(database, clock, settings)
    assert await ask(database, "httpx") == []
    await log_events(database, "s2", missing_module("numpy"), project="lab")
    await run_next_night(database, clock, settings)
    (family,) = await query_rows(database, FAMILIES)
    assert family["project"] is None
    described = "for other names, in 2 of 2 cases: first run `pip install ⟨name in the error⟩`"
    assert await ask(database, "httpx") == [(described, None)]  # which no session of the project installed
    block = (await recall(database, NO_MODULE.format("httpx"), MemoryScope(agent="coder"))).block
    assert described in block
    assert "requests" not in block
    first, *_ = await ask(database, "numpy")
    assert first == ("last time: ran `pip install numpy`; then the same call worked", None)
    assert (
        "pip install" not in (await recall(database, "Which modules are installed?", MemoryScope(agent="coder"))).block
    )
    await assert_invariants(database)


async def test_what_a_module_needed_itself_comes_before_its_family(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for name, module in (("s1", "requests"), ("s2", "numpy"), ("s3", "flask")):
        await log_events(database, name, missing_module(module))
    await log_events(database, "s4", missing_module("yaml", "pip install pyyaml"))
    await run_next_night(database, clock, settings)
    assert len(await query_rows(database, FAMILIES)) == 1
    (answer,) = await ask(database, "yaml")
    assert "pyyaml" in answer[0]
    assert answer[0].startswith("last time")


async def test_nights_publish_what_a_batch_does(database: Database, clock: FrozenClock, settings: Settings) -> None:
    modules = ("requests", "numpy", "flask")
    for module in modules:
        await log_events(database, module, missing_module(module))
        await run_next_night(database, clock, settings)
    nightly = await query_rows(database, FAMILIES)
    assert nightly[0]["body"]["names"] == len(modules)
    async with database.transaction() as conn:
        await conn.execute("delete from solution")
        await conn.execute("update error_record set merged = false, fix_shape = null")
    await run_next_night(database, clock, settings)
    assert await query_rows(database, FAMILIES) == nightly


async def test_an_erased_session_leaves_its_family(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_events(database, "s1", missing_module("requests"))
    await log_events(database, "s2", missing_module("numpy"))
    await run_next_night(database, clock, settings)
    assert len(await query_rows(database, FAMILIES)) == 1
    plan = await plan_erasure(database, session="s2")
    await erase_sessions(database, settings, plan, reason="asked to")
    await run_next_night(database, clock, settings)
    assert await query_rows(database, FAMILIES) == []
    await assert_invariants(database)
