"""Branches: what is tried beside a session changes nothing in it, reaches nobody, and teaches nobody anything."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from consolidator import Outcome, tool
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import NotFound, SessionClosed, UsageError
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.runtime.lineage.children import BranchKind
from consolidator.runtime.rerun.branches import (
    DRIVERS_WAIT,
    MAX_COMPARED,
    BranchRequest,
    branch_status,
    commit_steer,
    compare_branch,
    create_branch,
    discard_branch,
    run_branch,
)
from consolidator.runtime.session.agent_defaults import Overrides
from consolidator.runtime.session.lease import hold_session
from consolidator.runtime.turn.wake import wake_all
from consolidator.service.sessions.listing import list_branches
from consolidator.settings import Settings
from consolidator.store.sessions import lineage, sessions
from consolidator.store.turns import lease
from consolidator.testing import ModelServer, ScriptedReply
from consolidator.testing.kill_points import interrupt_at, record_boundaries
from tests import nights
from tests.runtime import KEY, RecordingChannel, Replies, describe_log, open_agent, read_log, send_and_collect
from tests.support import SimulatedKill, assert_invariants, read_memory, run_job

RAN: list[str] = []
KINDS: list[BranchKind] = ["sim", "pre_steer", "dream"]


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    """Forget what the tools did."""
    RAN.clear()


@tool
async def send_mail(to: str) -> Outcome:
    """Send a mail."""
    RAN.append(f"mail {to}")
    return Outcome(f"sent to {to}", patch={"mailed": to})


@tool(needs_approval=True)
async def deploy(where: str) -> str:
    """Deploy."""
    RAN.append(f"deploy {where}")
    return f"deployed to {where}"


@tool(side_effect=False)
async def look(what: str) -> str:
    """Look at something."""
    RAN.append(f"look {what}")
    return f"a view of {what}"


TOOLS = [send_mail, deploy, look]
ACTS = ScriptedReply.calling(("send_mail", {"to": "ines"}), ("deploy", {"where": "prod"}), ("look", {"what": "it"}))


async def get(database: Database, session_id: str) -> Any:
    """Return a session's row."""
    async with database.connection() as conn:
        return await sessions.get(conn, session_id)


@pytest.mark.parametrize("kind", KINDS)
async def test_tools_with_side_effects_are_dry_runs_in_every_kind_of_branch(
    database: Database, kind: BranchKind
) -> None:
    channel = RecordingChannel()
    replies: Replies = ["One.", ACTS, "All done."]
    async with (
        ModelServer(answers=replies) as server,
        open_agent(database, server, TOOLS, channel=channel, builtin=["scratchpad"]) as agent,
    ):
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        before, told = await session.info(), channel.text
        compared = await run_branch(agent.harness, session.id, BranchRequest(kind=kind, message="act now"))
        after = await session.info()
    assert RAN == ["look it"], "nothing waits for an approval of what does not run"
    assert channel.text == told, "a branch reaches nobody"
    branch = compared.branch
    results = [event.data for event in await read_log(database, branch.id) if event.type is EventType.TOOL_RESULT]
    assert [str(result["content"]).startswith("Dry run") for result in results] == [True, True, False]
    assert (branch.kind, branch.simulated, branch.base_seq, branch.parent_id) == ("branch", True, 4, session.id)
    assert branch_status(branch) == "ready"
    [turn] = compared.comparison.differences()
    assert (turn.status, turn.right and turn.right.answers) == ("added", ["All done."])
    assert [call.right and call.right.tool for call in turn.calls] == ["send_mail", "deploy", "look"]
    assert (after.head, after.settled_to, after.lease_epoch) == (before.head, before.settled_to, before.lease_epoch)
    assert after.cost == before.cost + branch.cost, "the session pays"
    assert branch.cost == compared.comparison.right.cost
    assert branch.cost > Decimal(0)
    await assert_invariants(database)


async def test_tools_run_where_that_is_asked_for(database: Database) -> None:
    replies: Replies = ["One.", ACTS, "All done."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, TOOLS) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        request = BranchRequest(message="act now", live_tools=True)
        compared = await run_branch(agent.harness, session.id, request)
        assert branch_status(compared.branch) == "waiting", "a deployment that happens is approved"
    assert RAN == ["mail ines"]
    assert compared.branch.state == {"mailed": "ines"}
    assert (await get(database, session.id)).state == {}
    start = (await read_log(database, compared.branch.id))[0]
    assert (start.data["branch_kind"], start.data["live_tools"]) == ("sim", True)


async def test_a_branch_is_capped_by_its_sessions_cap_and_has_no_branches(database: Database) -> None:
    """B30."""
    async with ModelServer(answers=["One.", "Two."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY, max_cost_usd="0.00001")
        child = await session.fork()
        branch = await create_branch(database, agent.harness.settings, child.id, BranchRequest())
        with pytest.raises(UsageError, match="which has no children"):
            await create_branch(database, agent.harness.settings, branch.id, BranchRequest())
        compared = await run_branch(agent.harness, child.id, BranchRequest(message="hello?"))
        assert (
            "the cap of the parent session"
            in str(
                [event.data for event in await read_log(database, compared.branch.id) if event.type is EventType.ERROR]
            )
            or (await get(database, compared.branch.id)).error
        )
        assert not server.requests
    with pytest.raises(UsageError, match="is no kind of branch"):
        BranchRequest(kind="other")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give its message"):
        BranchRequest(kind="pre_steer")
    with pytest.raises(UsageError, match="takes no `at`"):
        BranchRequest(kind="pre_steer", message="x", at=1)


async def test_a_dream_goes_without_the_state_and_a_sim_with_it(database: Database) -> None:
    replies: Replies = [ScriptedReply.calling(("send_mail", {"to": "ines"})), "Sent."]
    async with ModelServer(answers=replies) as server, open_agent(database, server, TOOLS) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "mail ines")
        made = [
            await create_branch(database, agent.harness.settings, session.id, BranchRequest(kind=kind))
            for kind in ("sim", "dream")
        ]
        assert [branch.state for branch in made] == [{"mailed": "ines"}, {}]
        tried = await session.branch("dream", overrides=Overrides(system="You dream."))
        assert await send_and_collect(tried, "and now?") == "Sent."
        assert server.requests[-1]["messages"][0]["content"] == "You dream."
        assert [each.answers_differ for each in (await session.compare(tried.id)).comparison.turns] == [True]
        await session.discard_branch(tried.id)
        steer = await session.propose_steer("rather not")
        assert await session.commit_steer(steer.branch.id) == (await session.info()).head
    assert (await get(database, session.id)).state == {"mailed": "ines"}


async def test_a_hook_before_a_branch_gives_a_dream_a_state_which_is_in_its_log(database: Database) -> None:
    """B29."""
    kinds: list[tuple[str, str]] = []

    async def before_branch(session: SessionRow, kind: str) -> dict[str, Any]:
        kinds.append((session.id, kind))
        return {"mood": "curious", "was": session.state}

    async with ModelServer(answers=["Fine."]) as server, open_agent(database, server) as agent:
        agent.harness.before_branch = before_branch
        session = await agent.open(KEY)
        branches = [await session.branch(kind) for kind in ("sim", "dream")]
        assert kinds == [(session.id, "sim"), (session.id, "dream")]
        states = [(await branch.info()).state for branch in branches]
        start = (await read_log(database, branches[1].id))[0]
    assert states == [{}, {"mood": "curious", "was": {}}]
    assert start.data["state"] == states[1]
    with pytest.raises(UsageError, match="only a dream"):
        BranchRequest(kind="sim", state={})


async def test_a_steer_is_tried_beside_a_session_at_work_and_then_sent_once(database: Database) -> None:
    """The session is in the middle of an answer, held by its harness, all the time. B28."""
    stalled, go_on = asyncio.Event(), asyncio.Event()

    def answer(request: dict[str, Any]) -> ScriptedReply:
        last = str(request["messages"][-1]["content"])
        if "steer" not in last and not go_on.is_set():
            stalled.set()
            return ScriptedReply(text="This is the long way round, " * 50, pace=0.02)
        return ScriptedReply(text="Short.")

    async with ModelServer(answers=answer) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        working = asyncio.create_task(send_and_collect(session, "begin"))
        await stalled.wait()
        compared = await run_branch(agent.harness, session.id, BranchRequest(kind="pre_steer", message="steer left"))
        row = await session.info()
        assert row.lease_owner is not None, "the session is at work yet"
        assert [event.data["text"] for event in await read_log(database, session.id) if "mode" in event.data] == [
            "begin"
        ]
        turns = {turn.right.message: turn.right.answers for turn in compared.comparison.differences() if turn.right}
        assert turns == {"steer left": ["Short."]} | ({"begin": []} if "begin" in turns else {})
        go_on.set()
        _, seq = await commit_steer(database, compared.branch.id)
        assert (await commit_steer(database, compared.branch.id))[1] == seq
        await working
    log = await read_log(database, session.id)
    steers = [event for event in log if event.data.get("mode") == "steer"]
    assert [(event.seq, event.data["text"], event.data["previewed_in"]) for event in steers] == [
        (seq, "steer left", compared.branch.id)
    ]
    assert describe_log(log)[-1] == "model: Short."
    branch = await get(database, compared.branch.id)
    assert (branch_status(branch), branch.status) == ("committed", "ended")
    assert (await compare_branch(database, branch.id)).comparison.is_empty is False
    await assert_invariants(database)


async def test_a_steer_that_was_discarded_or_is_none_is_not_sent(database: Database) -> None:
    async with ModelServer(answers=["One.", "Two.", "Three."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        dropped = (
            await run_branch(agent.harness, session.id, BranchRequest(kind="pre_steer", message="not so"))
        ).branch
        assert branch_status(await discard_branch(database, dropped.id)) == "ended"
        assert branch_status(await discard_branch(database, dropped.id)) == "ended"
        with pytest.raises(UsageError, match="has ended, and its steer was not sent"):
            await commit_steer(database, dropped.id)
        sim = (await run_branch(agent.harness, session.id, BranchRequest(message="else"))).branch
        with pytest.raises(UsageError, match="is a sim: only the steer"):
            await commit_steer(database, sim.id)
        with pytest.raises(UsageError, match="is no branch, but a root"):
            await commit_steer(database, session.id)
        with pytest.raises(UsageError, match="is no branch, but a root"):
            await discard_branch(database, session.id)
        late = (await run_branch(agent.harness, session.id, BranchRequest(kind="pre_steer", message="too late"))).branch
        await session.end()
        with pytest.raises(SessionClosed):
            await commit_steer(database, late.id)
        assert branch_status(await get(database, late.id)) == "ready", "all or nothing"
        with pytest.raises(SessionClosed):
            await run_branch(agent.harness, session.id, BranchRequest(kind="pre_steer", message="later"))
        with pytest.raises(NotFound):
            await run_branch(agent.harness, "nothing", BranchRequest(kind="pre_steer", message="x"))


async def test_a_preview_that_was_cut_off_is_gone_on_with_by_the_same_call(
    database: Database, clock: FrozenClock
) -> None:
    stall, stalled = True, asyncio.Event()

    def answer(request: dict[str, Any]) -> ScriptedReply:
        cut = stall and "steer" in str(request["messages"][-1]["content"])
        if cut:
            stalled.set()
        return ScriptedReply(text="An answer.", stall_after=1 if cut else None)

    async with ModelServer(answers=answer) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        variants: list[dict[str, Any]] = [{}, {"name": "a"}]
        for options in variants:
            stall = True
            stalled.clear()
            cut_off = asyncio.create_task(
                run_branch(agent.harness, session.id, BranchRequest(kind="pre_steer", message="steer left", **options))
            )
            await stalled.wait()
            assert await list_due(database, agent.harness.settings) == [], "who asked for it drives it"
            [unfinished] = await list_unfinished(database, session.id)
            cut_off.cancel()
            await asyncio.gather(cut_off, return_exceptions=True)
            assert branch_status(await get(database, unfinished)) == "running"
            stall = False
            again = await run_branch(
                agent.harness, session.id, BranchRequest(kind="pre_steer", message="steer left", **options)
            )
            assert again.branch.id == unfinished
            assert branch_status(again.branch) == "ready"
            if options:
                once_more = await run_branch(
                    agent.harness, session.id, BranchRequest(kind="pre_steer", message="steer left", **options)
                )
                assert once_more.branch.id == unfinished, "a name has one branch"
        stall = True
        stalled.clear()
        cut_off = asyncio.create_task(
            run_branch(agent.harness, session.id, BranchRequest(kind="pre_steer", message="steer right"))
        )
        await stalled.wait()
        cut_off.cancel()
        await asyncio.gather(cut_off, return_exceptions=True)
        stall = False
        [left] = await list_unfinished(database, session.id)
        assert await list_due(database, agent.harness.settings) == []
        clock.advance(DRIVERS_WAIT + timedelta(seconds=1))
        assert await list_due(database, agent.harness.settings) == [left], "nobody came back for it"
        [woken] = await wake_all(agent.harness)
        assert (woken.session_id, branch_status(await get(database, left))) == (left, "ready")


async def test_wherever_the_process_dies_the_same_calls_end_in_one_branch_and_one_steer(database: Database) -> None:
    """At each boundary of a proposal and its commit, once."""
    async with ModelServer(answers=lambda _: "Fine.") as server, open_agent(database, server) as agent:

        async def propose_and_commit(session_id: str, name: str | None) -> str:
            compared = await run_branch(
                agent.harness, session_id, BranchRequest(kind="pre_steer", message="steer left", name=name)
            )
            await commit_steer(database, compared.branch.id)
            return compared.branch.id

        async def open_with_answer(peer: str) -> str:
            session = await agent.open(f"main:test:{peer}")
            await send_and_collect(session, "first")
            return session.id

        session_id = await open_with_answer("whole")
        with record_boundaries() as passed:
            await propose_and_commit(session_id, None)
        assert len(passed) > 10
        for number in range(1, len(passed) + 1):
            name = f"try {number}" if number % 2 else None
            session_id = await open_with_answer(str(number))
            with interrupt_at(number, die), pytest.raises((SimulatedKill, BaseExceptionGroup)):
                await propose_and_commit(session_id, name)
            await release_all(database)
            branches = await list_branches(database, session_id)
            if name is not None or not branches or branch_status(branches[0]) == "running":
                await propose_and_commit(session_id, name)
            elif branch_status(branches[0]) == "ready":  # it was seen to end: a new call tries it anew
                await commit_steer(database, branches[0].id)
            [branch] = await list_branches(database, session_id)
            assert branch_status(branch) == "committed", passed[number - 1]
            modes = [event.data.get("mode") for event in await read_log(database, session_id)]
            assert modes.count("steer") == 1, passed[number - 1]
    await assert_invariants(database)


def die(boundary: str) -> None:
    """End the process, as far as a test can."""
    raise SimulatedKill(boundary)


async def release_all(database: Database) -> None:
    """Have all leases run out."""
    async with database.transaction() as conn:
        await conn.execute("update session set lease_owner = null, lease_until = null where lease_owner is not null")


async def list_due(database: Database, settings: Settings) -> list[str]:
    """Return the sessions that a driver of another machine would take."""
    async with database.connection() as conn:
        due = await lease.list_due(
            conn, now=database.clock.now(), machine="elsewhere", tools=[], has_model=settings.model is not None,
            excluded=[], limit=10,
        )  # fmt: skip
    return [each.id for each in due]


async def list_unfinished(database: Database, session_id: str) -> list[str]:
    """Return the unfinished previews of a session."""
    async with database.connection() as conn:
        return await lineage.list_unfinished_steers(conn, session_id)


async def test_a_branch_begins_at_a_message_that_both_answer(database: Database) -> None:
    async with ModelServer(answers=["One.", "Two.", "Otherwise two."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        await send_and_collect(session, "second")
        compared = await run_branch(agent.harness, session.id, BranchRequest(at=5))
    [turn] = compared.comparison.differences()
    assert turn.left is not None
    assert turn.right is not None
    assert (turn.status, turn.left.message, turn.left.answers, turn.right.answers) == (
        "changed", "second", ["Two."], ["Otherwise two."],
    )  # fmt: skip
    document = compared.as_json()
    assert (document["main"], document["after"], document["is_whole"]) == (session.id, 5, True)
    assert MAX_COMPARED > 5


async def test_nothing_is_run_where_no_model_or_a_tool_is_missing(database: Database) -> None:
    async with ModelServer(answers=["One."]) as server:
        async with open_agent(database, server, TOOLS) as agent:
            session = await agent.open(KEY)
            await send_and_collect(session, "first")
        async with open_agent(database, server) as agent:
            with pytest.raises(UsageError, match="missing here: send_mail"):
                await run_branch(agent.harness, session.id, BranchRequest(kind="pre_steer", message="x"))
            other = await agent.open("main:test:other")
            agent.harness.settings = agent.harness.settings.model_copy(update={"model": None})
            with pytest.raises(UsageError, match="no model is configured"):
                await run_branch(agent.harness, other.id, BranchRequest(kind="pre_steer", message="x"))
        assert len(server.requests) == 1
    assert await nights.query_number(database, "select count(*) from session where kind = 'branch'") == 0


@pytest.mark.parametrize("has_main_said_it", [False, True])
async def test_a_night_learns_nothing_of_branches(
    database: Database, settings: Settings, clock: FrozenClock, has_main_said_it: bool
) -> None:
    """The same words in the main session are learned from, so that it is not the words."""
    said = "I prefer tabs, always."
    async with ModelServer(answers=lambda _: "Fine.") as server, open_agent(database, server) as agent:
        session = await agent.open("main:cli:mara")
        await send_and_collect(session, "hello")
        for kind in KINDS:
            await run_branch(agent.harness, session.id, BranchRequest(kind=kind, message=said))
        if has_main_said_it:
            await send_and_collect(session, said)
    clock.advance(timedelta(hours=1))
    await run_job(database, settings)
    learned = str(await read_memory(database))
    assert ("tabs" in learned) == has_main_said_it
    await assert_invariants(database)


async def test_a_held_session_can_be_branched(database: Database) -> None:
    async with ModelServer(answers=["One.", "Two."]) as server, open_agent(database, server) as agent:
        session = await agent.open(KEY)
        await send_and_collect(session, "first")
        async with hold_session(database, session.id, seconds=30) as lease:
            compared = await run_branch(agent.harness, session.id, BranchRequest(kind="pre_steer", message="and now?"))
            lease.check_valid()
            assert (await get(database, session.id)).lease_epoch == lease.epoch
    assert branch_status(compared.branch) == "ready"
