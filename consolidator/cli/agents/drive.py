"""consolidator call and cost, session say, stop, task, notes and wake: what people do in a session that is driven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from decimal import Decimal
from typing import Annotated, Any, Literal

import click
import typer

from consolidator.cli.agents.options import ToolOptions
from consolidator.cli.common import TERMINAL, SessionName, parse_moment, read_text, run, run_configured, run_in
from consolidator.cli.output import Table, emit, format_usd, print_line, shorten, table
from consolidator.errors import ModelError, UsageError
from consolidator.models.run import Cost
from consolidator.models.session import SessionRow
from consolidator.runtime.live.driver import DUE_OUTCOMES
from consolidator.runtime.session.access import find_session_id, load_session
from consolidator.runtime.session.scratchpad import Scratchpad, ScratchpadEdit, change_scratchpad, read_scratchpad
from consolidator.runtime.session.tasks import OUTCOMES, TaskRow, finish_task, list_tasks, start_task
from consolidator.runtime.turn.sessions import decide_approval, resolve_call, send_message, stop_turn
from consolidator.runtime.turn.wake import WakeResult, find_row
from consolidator.service.database import Database
from consolidator.service.sessions.costs import COST_GROUPINGS, load_costs
from consolidator.settings import Settings


def say_command(
    session: SessionName,
    text: Annotated[str | None, typer.Argument(help="What to say.")] = None,
    later: Annotated[bool, typer.Option("--later", help="Answer it when the current turn has ended.")] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Say nothing: what was written stays, and what is unanswered stays so.")
    ] = False,
) -> None:
    """Say something to a session now: what it is doing is cancelled, kept as far as it was seen, and this is answered.

    Whoever drives the session answers, or stops within a second, such as `consolidator serve` or a chat; `consolidator
    session wake` answers at once. The session stays open.
    """
    if (text is None) != stop:
        raise UsageError("say what is to be said, or --stop")

    async def send(database: Database, session_id: str) -> tuple[str, int | None]:
        if text is None:
            return session_id, await stop_turn(database, session_id)
        return session_id, await send_message(database, session_id, text, mode="follow_up" if later else "steer")

    session_id, seq = run_in(session, send)
    sent = f"said, as event {seq}; whoever drives the session answers (`consolidator session wake {session_id}`)"
    stopped = "nothing is under way in it" if seq is None else f"stopped, as event {seq}; the session stays open"
    emit({"session": session_id, "seq": seq}, stopped if stop else sent)


def call_command(
    verdict: Annotated[
        Literal["approve", "deny", "resolve"],
        typer.Argument(help="resolve: settle a call that nobody knows the outcome of, as its process died."),
    ],
    call: Annotated[str, typer.Argument(metavar="CALL", help="A call, by its id.")],
    outcome: Annotated[
        Literal["ok", "failed"] | None, typer.Argument(metavar="[ok|failed]", help="With resolve: how the call went.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="With deny: the reason, which the model reads.")] = None,
) -> None:
    """Decide about a call that waits for a person; the session continues at its next wake."""
    if (verdict == "resolve") != (outcome is not None):
        raise UsageError("`call resolve` takes how the call went: ok or failed; `approve` and `deny` take no outcome")
    if outcome is not None:
        session_id = run(resolve_call, call, outcome, viewer=TERMINAL)
        line = f"noted in session {session_id}: the model reads it at its next turn"
    else:
        is_allowed = verdict == "approve"
        session_id = run(decide_approval, call, allow=is_allowed, reason=reason, viewer=TERMINAL)
        word = "allowed" if is_allowed else "denied"
        line = f"{word}; `consolidator session wake {session_id}` continues it"
    emit({"session": session_id}, line)


TASKS = table(
    "tasks",
    "task=id, title, outcome, >steers, started=started_at, ended=ended_at",
    title=lambda row: shorten(row.title, 60),
    outcome=lambda row: row.outcome or "open",
)


def task_command(
    session: SessionName,
    title: Annotated[
        str | None, typer.Argument(metavar="TITLE|OUTCOME", help="What the session is to work at.")
    ] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help=f"End the open task, with its outcome: {', '.join(OUTCOMES)}.")
    ] = False,
    note: Annotated[str | None, typer.Option(help="With --finish: why, in a sentence.")] = None,
) -> None:
    """List a session's tasks, the latest first; start one with a title, or end the open one with its outcome.

    What the session does from the start on belongs to the task, one at a time; the nights learn from what succeeded.
    """
    if finish:
        if title not in OUTCOMES:
            raise UsageError(f"{title!r} is no outcome of a task: {', '.join(OUTCOMES)}")
        row = run_in(session, finish_task, title, note=note, viewer=TERMINAL)
        emit(row, _describe_task)
    elif note is not None:
        raise UsageError("--note is why a task ended: it goes with --finish")
    elif title is not None:
        task = run_in(session, start_task, title, viewer=TERMINAL)
        emit(task, _describe_task)
    else:
        emit(run_in(session, list_tasks), TASKS)


def _describe_task(row: TaskRow) -> str:
    return f"task {row.id} {'is open' if row.outcome is None else 'has ended: ' + row.outcome}: {row.title}"


def notes_command(
    session: SessionName,
    replace: Annotated[
        str | None, typer.Option("--set", metavar="FILE", help="Replace them by a file; - is standard input.")
    ] = None,
    append: Annotated[str | None, typer.Option(help="Add a paragraph.")] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Change them in your editor ($EDITOR).")] = False,
) -> None:
    """Show a session's scratchpad, the notes at the end of each of its contexts. Or change it."""
    if sum((replace is not None, append is not None, edit)) > 1:
        raise UsageError("say one of --set, --append and --edit")
    change = None if append is None else ScratchpadEdit("append", append)
    if replace is not None:
        change = ScratchpadEdit("replace", read_text(replace))

    async def read_or_change(database: Database, session_id: str) -> Scratchpad:
        current = await read_scratchpad(database, session_id)
        new, seq = change, None
        if edit:
            text = click.edit(current.text, extension=".md")  # no connection is held meanwhile
            new = None if text is None else ScratchpadEdit("replace", text)
            seq = current.seq
        if new is None:
            return current
        return await change_scratchpad(database, session_id, new, expected_seq=seq, viewer=TERMINAL)

    def show(scratchpad: Scratchpad) -> None:
        if change is not None or edit:
            print_line(f"the scratchpad has {len(scratchpad.text):,} of {scratchpad.limit:,} characters")
        else:
            print_line(scratchpad.text or "the scratchpad is empty", None if scratchpad.text else "dim")

    emit(run_in(session, read_or_change), show)


_WOKEN = table(
    "woken",
    "session=session_id, recovery, outcome, >calls run",
    recovery=lambda woken: woken.recovery and f"{woken.recovery.state}: {woken.recovery.action}",
    outcome=lambda woken: _outcome(woken),
    calls_run=lambda woken: woken.result.executed_tool_count if woken.result else 0,
)


def wake_command(
    session: Annotated[str | None, typer.Argument(help="A session's id, or its beginning.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every session with an open call, answer or message.")
    ] = False,
    *,
    driver: ToolOptions,
) -> None:
    """Finish what a crash left open: calls, answers, messages; say what the log ended in, and what is done about it.

    A session that another process drives is left to it; so is one with tools that are not given here.
    """
    if (session is None) == (not everything):
        raise UsageError("name a session, or say --all")

    async def wake(database: Database, settings: Settings) -> list[WakeResult]:
        async with driver.open_agent(database, settings) as agent:
            if session is None:
                return await agent.wake_all()
            session_id = await find_session_id(database, session)
            recovery = await find_row(agent.harness, session_id)
            return [WakeResult(session_id, await agent.wake(session_id), recovery=recovery)]

    results = run_configured(wake)
    emit(results, _WOKEN, encode=lambda results: [_describe(woken) for woken in results])
    failed = [woken.session_id for woken in results if woken.result and woken.result.finish_reason == "error"]
    if failed:
        raise ModelError(
            f"the model did not answer in {', '.join(failed)}; `consolidator session events SESSION` shows why"
        )


def _describe(woken: WakeResult) -> dict[str, Any]:
    json: dict[str, Any] = {"session": woken.session_id, "left": woken.skip_reason}
    if woken.result is not None:
        json |= {"to_seq": woken.result.to_seq, "finish_reason": woken.result.finish_reason}
        json |= {"executed_tool_count": woken.result.executed_tool_count}
    if woken.recovery is not None:
        json |= asdict(woken.recovery)
    return json


def _outcome(woken: WakeResult) -> str:
    if woken.result is None:
        return f"left alone: {woken.skip_reason}"
    return DUE_OUTCOMES.get(woken.result.finish_reason, woken.result.finish_reason)


_COLUMNS: dict[str, str | Callable[[Cost], Any]] = {
    "calls": "calls",
    "input": "input_tokens",
    "cached": "cached_tokens",
    "output": "output_tokens",
    "USD": lambda cost: _known_cost(cost),
    "set aside": lambda cost: _amount(cost.set_aside) if cost.set_aside else "",
    "cheap": lambda cost: "" if cost.cheap_share is None else f"{cost.cheap_share:.0%}",
}


def cost_command(
    by: Annotated[str, typer.Option("--by", help=f"{', '.join(COST_GROUPINGS)}.")] = "session",
    session: Annotated[
        str | None, typer.Option(help="Only this session (id or its beginning), its branches and sub-agents.")
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    since: Annotated[str | None, typer.Option(help="A date, a time, or a span ago such as 7d.")] = None,
) -> None:
    """Show what models cost: tokens, the cached ones apart, US dollars, and how much went to a cheaper model."""

    async def load(database: Database) -> tuple[list[Cost], Cost, SessionRow | None]:
        row = await load_session(database, await find_session_id(database, session)) if session else None
        begin, session_id = parse_moment(since, database.clock.now()), row.id if row else None
        costs, total = await load_costs(database, by, session_id=session_id, agent=agent, since=begin)
        return costs, total, row

    costs, total, row = run(load)

    def show(costs: list[Cost]) -> None:
        Table("what models cost", {by: "name", **_COLUMNS}, right=tuple(_COLUMNS)).print([*costs, total])
        if total.unpriced:
            print_line(
                f"{total.unpriced} calls went to models with an unknown price: their cost is not included.", "dim"
            )
        if row is not None and (cap := row.max_cost) is not None:
            left = cap - row.cost - row.reserved
            amounts = f"{_amount(row.cost)} spent, {_amount(row.reserved)} set aside, {_amount(left)} left"
            print_line(f"cap {_amount(cap)}: {amounts}")

    emit(costs, show, encode=lambda costs: {"by": by, "costs": costs, "total": total})


def _known_cost(cost: Cost) -> str:
    if not cost.unpriced:
        return _amount(cost.cost)
    return f"{_amount(cost.cost)} + ?" if cost.cost else "?"


def _amount(amount: Decimal) -> str:
    return format_usd(amount).removeprefix("$")
