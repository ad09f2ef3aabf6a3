"""consolidator context, compact, replay, cost: a session as its model and its people see it, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from decimal import Decimal
from typing import Annotated, Any

import typer

from consolidator.cli.chat import remembered
from consolidator.cli.common import moment, opened, run
from consolidator.cli.output import AsJson, Limit, emit, emit_line, piece, plain, say, short, table, usd
from consolidator.cli.tool_file import tools_in
from consolidator.context.build import LAST, STRATEGIES, Context, advance, budget_of, build_context
from consolidator.context.compaction import Compaction
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.llm.client import client_of
from consolidator.models.event import Event
from consolidator.runtime import budget as money
from consolidator.runtime.agent import VOID
from consolidator.runtime.compaction import requested
from consolidator.runtime.cost import BY, Cost, costs
from consolidator.runtime.replay import replay
from consolidator.runtime.tools.tool import Toolbox
from consolidator.settings import Settings
from consolidator.store.log import context as contexts
from consolidator.store.log import generation, sessions
from consolidator.store.queries import Row

Named = Annotated[str, typer.Argument(help="A session's id, its foreign name, or the beginning of either.")]
FORMS = ("openai", "anthropic")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("context")(context_command)
    app.command("compact")(compact_command)
    app.command("replay")(replay_command)
    app.command("cost")(cost_command)


def context_command(
    session: Named,
    strategy: Annotated[str | None, typer.Option(help=f"{', '.join(STRATEGIES)}; else the session's own.")] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Tokens; else the session's own.")] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, help="Events of a window.")] = None,
    form: Annotated[str, typer.Option("--format", help="openai or anthropic messages.")] = "openai",
    memory: Annotated[bool, typer.Option(help="With what memory knows of the last message.")] = True,
    tools: Annotated[list[str] | None, typer.Option("--tools", metavar="FILE", help="Its tools; repeat.")] = None,
    full: Annotated[bool, typer.Option(help="Whole texts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the model would see of a session now, with the tokens of each part."""
    if form not in FORMS:
        raise UsageError(f"{form!r} is no message format: {', '.join(FORMS)}")
    box = Toolbox([one for name in tools or () for one in tools_in(name)])

    async def work() -> tuple[Context, Row]:
        async with opened() as (database, settings):
            async with database.connection() as conn:
                row = await sessions.get(conn, await sessions.find(conn, session))
            config = row["config"]
            recalled = await _recalled(database, settings, row) if memory else None
            way = strategy or config.get("strategy") or "budget"
            room = budget_of(way, budget or config.get("budget"), row["model"] or settings.model or "", money.ANSWER)
            async with database.connection() as conn:
                while await advance(conn, row["id"]):  # as every turn does
                    continue
                built = await build_context(
                    conn, row["id"], strategy=way, budget=room, last=last or config.get("last") or LAST,
                    form="anthropic" if form == "anthropic" else "openai", system=config.get("system"),
                    recalled=recalled, tools=box.definitions(),
                )  # fmt: skip
                return built, row

    found, row = run(work())
    if as_json:
        emit({**_context_json(found), "compactions": row["compactions"]})
        return
    for message in found.messages:
        _show(message, full=full)
    parts = [(part.name, part.tokens) for part in found.parts]
    table(f"{found.strategy}, in tokens", ("part", "tokens"), [*parts, ("all", found.tokens)], right=("tokens",))
    if found.cut:
        say(f"What was said before event {found.first_seq} is left out or summed up.", style="dim")
    if row["compactions"]:
        times = "once" if row["compactions"] == 1 else f"{row['compactions']} times"
        say(f"Compacted {times}: `consolidator compact {row['id']} --history` lists them.", style="dim")


async def _recalled(database: Database, settings: Settings, row: Row) -> str | None:
    """Return what memory has to say to a session's last message."""
    async with database.connection() as conn:
        said = await generation.last_said(conn, row["id"], bounds=(row["created_at"], row["last_event_at"]))
    return await remembered(database, settings)(row, said) if said else None


def _context_json(found: Context) -> dict[str, Any]:
    told = {
        "strategy": found.strategy, "tokens": found.tokens, "parts": {part.name: part.tokens for part in found.parts},
        "first_seq": found.first_seq, "upto_seq": found.upto_seq, "cut": found.cut, "messages": found.messages,
    }  # fmt: skip
    told |= {"system": found.system} if found.system else {}
    return told | ({"tools": found.tools} if found.tools else {})


def _show(message: dict[str, Any], *, full: bool) -> None:
    """Print a message for people: who, and what."""
    for role, text in _lines(message):
        say(f"{role}:", style="bold")
        say(plain(text) if full else short(text, 600))


def _lines(message: dict[str, Any]) -> list[tuple[str, str]]:
    content, role = message.get("content"), str(message["role"])
    lines: list[tuple[str, str]] = []
    for block in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
        if block["type"] == "text" and block["text"]:
            lines.append((role, block["text"]))
        elif block["type"] == "tool_use":
            lines.append((f"{role} calls {block['name']}", json.dumps(block["input"], ensure_ascii=False)))
        elif block["type"] == "tool_result":
            lines.append((f"result of {block['tool_use_id']}", block["content"]))
    for call in message.get("tool_calls") or ():
        lines.append((f"{role} calls {call['function']['name']}", call["function"]["arguments"]))
    return lines


def compact_command(
    session: Named,
    budget: Annotated[int | None, typer.Option(min=1, help="Tokens of its contexts; else the session's own.")] = None,
    ask: Annotated[bool, typer.Option("--model/--no-model", help="Have a model write the summary.")] = True,
    history: Annotated[bool, typer.Option("--history", help="List its compactions instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sum up the older part of a session, so that its contexts get shorter. The log keeps all of it."""
    if history:
        _show_compactions(session, as_json=as_json)
        return

    async def work() -> Compaction | None:
        async with opened() as (database, settings), AsyncExitStack() as stack:
            async with database.connection() as conn:
                row = await sessions.get(conn, await sessions.find(conn, session))
            model = settings.extract_model or row["model"] or settings.model
            client = client_of(settings) if ask and model else None
            if client is not None:
                stack.push_async_callback(client.close)
            room = budget_of("compacted", budget or row["config"].get("budget"), row["model"] or "", money.ANSWER)
            seconds = settings.session_lease_seconds
            return await requested(database, row["id"], budget=room, client=client, model=model, seconds=seconds)

    done = run(work())
    if as_json:
        emit({"seq": done.seq, "kept_from": done.kept_from, "by": done.by, "summary": done.summary,
              "tokens_before": done.tokens_before, "tokens_after": done.tokens_after} if done else None)  # fmt: skip
    elif done is None:
        say("nothing to compact: what was said since the last time is not much")
    else:
        say(f"compacted up to event {done.kept_from - 1}: {done.tokens_before} tokens became {done.tokens_after}")
        say(done.summary)


def _show_compactions(session: str, *, as_json: bool) -> None:
    async def work() -> list[Event]:
        async with opened() as (database, _), database.connection() as conn:
            return await contexts.compactions(conn, await sessions.find(conn, session))

    names = ("by", "model", "trigger", "kept_from", "tokens_before", "tokens_after", "summary")
    found = [{"seq": e.seq, "at": e.created_at, **{name: e.data.get(name) for name in names}} for e in run(work())]
    if as_json:
        emit(found)
        return
    columns = ("event", "at", "by", "trigger", "kept from", "before", "after", "summary")
    table(
        "compactions, in tokens",
        columns,
        (
            (one["seq"], one["at"], one["model"] or one["by"], one["trigger"], one["kept_from"], one["tokens_before"],
             one["tokens_after"], short(one["summary"], 60))
            for one in found
        ),
        right=("event", "kept from", "before", "after"),
    )  # fmt: skip


def replay_command(
    session: Named,
    channel: Annotated[str | None, typer.Option(help="What this channel was shown; else the session's own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show again what a session's people saw, from the log; with --json piece by piece, byte for byte."""

    async def work() -> None:
        async with opened() as (database, _), database.connection() as conn:
            name = await sessions.find(conn, session)
            answering, last = False, None
            async for shown in replay(conn, name, channel=channel):
                if as_json:
                    emit_line(shown.as_json())
                elif shown.kind == "user":
                    piece(("\n" if answering else "") + f"> {plain(shown.text)}\n")
                else:
                    between = answering and shown.kind == "piece" and last != shown.message_id
                    piece(VOID if shown.kind == "void" else ("\n" if between else "") + plain(shown.text))
                answering, last = shown.kind != "user", shown.message_id
            if answering and not as_json:
                piece("\n")

    run(work())


def cost_command(
    by: Annotated[str, typer.Option("--by", help=f"{', '.join(BY)}.")] = "session",
    session: Annotated[str | None, typer.Option(help="Only this session (id or its beginning).")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    since: Annotated[str | None, typer.Option(help="A date, a time, or a span ago such as 7d.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Tell what models cost: tokens, the cached ones apart, US dollars, and how much went to a cheaper model."""

    async def work() -> tuple[list[Cost], Cost, Row | None]:
        async with opened() as (database, _), database.connection() as conn:
            began = moment(since, database.clock.now())
            name = await sessions.find(conn, session) if session else None
            found, total = await costs(
                conn, by, session=name, agent=agent, since=began.date() if began else None, limit=limit
            )
            return found, total, await sessions.get(conn, name) if name else None

    found, total, row = run(work())
    if as_json:
        emit({"by": by, "costs": [one.as_json() for one in found], "total": total.as_json()})
        return
    _show_costs(by, found, total)
    if row is not None and row["max_cost"] is not None:
        left = row["max_cost"] - row["cost"] - row["reserved"]
        spent = f"{_usd(row['cost'])} spent, {_usd(row['reserved'])} set aside, {_usd(left)} left"
        say(f"cap {_usd(row['max_cost'])}: {spent}")


def _show_costs(by: str, found: Sequence[Cost], total: Cost) -> None:
    columns = (by, "calls", "input", "cached", "output", "USD", "set aside", "cheap")
    table(
        "what models cost",
        columns,
        (
            (c.name, c.calls, c.input_tokens, c.cached_tokens, c.output_tokens, _spent(c),
             _usd(c.set_aside) if c.set_aside else "", "" if c.cheap_share is None else f"{c.cheap_share:.0%}")
            for c in [*found, total]
        ),
        right=columns[1:],
    )  # fmt: skip
    if total.unpriced:
        say(f"{total.unpriced} calls were of models whose price nobody knows: their cost is not in here.", style="dim")


def _spent(cost: Cost) -> str:
    """Return what is known of a cost."""
    if not cost.unpriced:
        return _usd(cost.cost)
    return f"{_usd(cost.cost)} + ?" if cost.cost else "?"


def _usd(amount: Decimal) -> str:
    return usd(amount).removeprefix("$")
