"""consolidator context, compact: what a session's model would be shown, and its summary of the older part."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from consolidator.cli.agents.tool_file import load_tools
from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, print_json, print_line, print_table, sanitize, shorten
from consolidator.errors import UsageError
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.runtime.tools.tool import Toolbox
from consolidator.service.agents.context import (
    STRATEGIES,
    Compaction,
    Context,
    compact_session,
    list_compactions,
    preview_context,
)

_FORMATS = ("openai", "anthropic")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("context")(context_command)
    app.command("compact")(compact_command)


def context_command(
    session: SessionName,
    strategy: Annotated[str | None, typer.Option(help=f"{', '.join(STRATEGIES)}; else the session's own.")] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Tokens; else the session's own.")] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, help="Events of a window.")] = None,
    message_format: Annotated[str, typer.Option("--format", help="openai or anthropic messages.")] = "openai",
    memory: Annotated[bool, typer.Option(help="With what memory knows about the last message.")] = True,
    tools: Annotated[list[str] | None, typer.Option("--tools", metavar="FILE", help="Its tools; repeat.")] = None,
    full: Annotated[bool, typer.Option(help="Whole texts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the model would see of a session now, with the tokens of each part."""
    if message_format not in _FORMATS:
        raise UsageError(f"{message_format!r} is no message format: {', '.join(_FORMATS)}")
    toolbox = Toolbox([tool for name in tools or () for tool in load_tools(name)])

    async def work() -> tuple[Context, SessionRow]:
        async with open_configured() as (database, settings):
            return await preview_context(
                database,
                settings,
                session,
                strategy=strategy,
                budget=budget,
                last=last,
                message_format="anthropic" if message_format == "anthropic" else "openai",
                with_recall=memory,
                tools=toolbox.definitions(),
            )

    context, row = run_async(work())
    if as_json:
        print_json({**_as_json(context), "compactions": row.compactions})
        return
    for message in context.messages:
        _print_message(message, full=full)
    parts = [(part.name, part.tokens) for part in context.parts]
    title = f"{context.strategy}, in tokens"
    print_table(title, ("part", "tokens"), [*parts, ("all", context.tokens)], right=("tokens",))
    if context.truncated:
        print_line(f"What was said before event {context.first_seq} is left out or summed up.", style="dim")
    if row.compactions:
        times = "once" if row.compactions == 1 else f"{row.compactions} times"
        print_line(f"Compacted {times}: `consolidator compact {row.id} --history` lists them.", style="dim")


def _as_json(context: Context) -> dict[str, Any]:
    result = {
        "strategy": context.strategy,
        "tokens": context.tokens,
        "parts": {part.name: part.tokens for part in context.parts},
        "first_seq": context.first_seq,
        "upto_seq": context.upto_seq,
        "cut": context.truncated,
        "messages": context.messages,
    }
    result |= {"system": context.system} if context.system else {}
    return result | ({"tools": context.tools} if context.tools else {})


def _print_message(message: dict[str, Any], *, full: bool) -> None:
    for role, text in _message_texts(message):
        print_line(f"{role}:", style="bold")
        print_line(sanitize(text) if full else shorten(text, 600))


def _message_texts(message: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the texts of a message in either format, each with who says it."""
    content, role = message.get("content"), str(message["role"])
    texts: list[tuple[str, str]] = []
    for block in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
        if block["type"] == "text" and block["text"]:
            texts.append((role, block["text"]))
        elif block["type"] == "tool_use":
            texts.append((f"{role} calls {block['name']}", json.dumps(block["input"], ensure_ascii=False)))
        elif block["type"] == "tool_result":
            texts.append((f"result of {block['tool_use_id']}", block["content"]))
    for call in message.get("tool_calls") or ():
        texts.append((f"{role} calls {call['function']['name']}", call["function"]["arguments"]))
    return texts


def compact_command(
    session: SessionName,
    budget: Annotated[int | None, typer.Option(min=1, help="Tokens of its contexts; else the session's own.")] = None,
    by_model: Annotated[bool, typer.Option("--model/--no-model", help="Have a model write the summary.")] = True,
    history: Annotated[bool, typer.Option("--history", help="List its compactions instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Summarize the older part of a session, so that its contexts get shorter. The log keeps all of it."""
    if history:
        _list_compactions(session, as_json=as_json)
        return

    async def work() -> Compaction | None:
        async with open_configured() as (database, settings):
            return await compact_session(database, settings, session, budget=budget, by_model=by_model)

    compaction = run_async(work())
    if as_json:
        print_json(None if compaction is None else _compaction_json(compaction))
    elif compaction is None:
        print_line("nothing to compact: too little since the last compaction")
    else:
        before, after = compaction.tokens_before, compaction.tokens_after
        print_line(f"compacted up to event {compaction.kept_from - 1}: {before} tokens became {after}")
        print_line(compaction.summary)


def _compaction_json(compaction: Compaction) -> dict[str, Any]:
    names = ("seq", "kept_from", "by", "summary", "tokens_before", "tokens_after")
    return {name: getattr(compaction, name) for name in names}


def _list_compactions(session: str, *, as_json: bool) -> None:
    async def work() -> list[Event]:
        async with open_configured() as (database, _):
            return await list_compactions(database, session)

    names = ("by", "model", "trigger", "kept_from", "tokens_before", "tokens_after", "summary")
    compactions = [
        {"seq": event.seq, "at": event.created_at, **{name: event.data.get(name) for name in names}}
        for event in run_async(work())
    ]
    if as_json:
        print_json(compactions)
        return
    print_table(
        "compactions, in tokens",
        ("event", "at", "by", "trigger", "kept from", "before", "after", "summary"),
        (
            (
                row["seq"],
                row["at"],
                row["model"] or row["by"],
                row["trigger"],
                row["kept_from"],
                row["tokens_before"],
                row["tokens_after"],
                shorten(row["summary"], 60),
            )
            for row in compactions
        ),
        right=("event", "kept from", "before", "after"),
    )
