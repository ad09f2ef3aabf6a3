"""consolidator session context and compact: what a session's model would see, and its summary of the older part."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from consolidator.cli.agents.session_options import Budget, Strategy
from consolidator.cli.agents.tool_file import load_tools
from consolidator.cli.common import SessionName, run
from consolidator.cli.output import emit, print_line, print_table, sanitize, shorten, table
from consolidator.models.event import Event
from consolidator.models.session import SessionRow
from consolidator.runtime.tools.tool import Toolbox
from consolidator.service.agents.context import (
    Compaction,
    Context,
    PreviewOptions,
    compact_session,
    list_compactions,
    preview_context,
)

_COMPACTIONS = table(
    "compactions, in tokens",
    ">event=seq, at, by, trigger, >kept from, >before=tokens_before, >after=tokens_after, summary",
    by=lambda row: row["model"] or row["by"],
    summary=lambda row: shorten(row["summary"], 60),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """How a context is built; options that are omitted default to the session's own."""

    strategy: Strategy = None
    budget: Budget = None
    last: Annotated[int | None, typer.Option("--last", min=1, help="Events of a context by the strategy window.")] = (
        None
    )
    message_format: Annotated[
        Literal["openai", "anthropic"], typer.Option("--format", help="openai or anthropic messages.")
    ] = "openai"
    memory: Annotated[bool, typer.Option(help="Include what memory has about the last message.")] = True
    tools: Annotated[list[str] | None, typer.Option("--tools", metavar="FILE", help="Its tools; repeat.")] = None

    def to_options(self) -> PreviewOptions:
        """Return the options for the service. Raises UsageError."""
        toolbox = Toolbox([tool for name in self.tools or () for tool in load_tools(name)])
        return PreviewOptions(
            self.strategy, self.budget, self.last, self.message_format, self.memory, toolbox.definitions()
        )


def context_command(
    session: SessionName,
    *,
    options: ContextOptions,
    full: Annotated[bool, typer.Option(help="Print texts in full.")] = False,
) -> None:
    """Show what the model would see of a session now, with the tokens of each part.

    Options you omit default to the session's own.
    """
    preview = options.to_options()
    context, row = run(lambda database, settings: preview_context(database, settings, session, preview))
    emit(
        context,
        lambda context: _print_context(context, row, full=full),
        encode=lambda context: {**_describe(context), "compactions": row.compactions},
    )


def _print_context(context: Context, row: SessionRow, *, full: bool) -> None:
    for message in context.messages:
        for role, text in _message_texts(message):
            print_line(f"{role}:", style="bold")
            print_line(sanitize(text) if full else shorten(text, 600))
    parts = [(part.name, part.tokens) for part in context.parts]
    title = f"{context.strategy}, in tokens"
    print_table(title, ("part", "tokens"), [*parts, ("all", context.tokens)], right=("tokens",))
    if context.truncated:
        print_line(f"What was said before event {context.first_seq} is left out or summed up.", style="dim")
    if row.compactions:
        times = "once" if row.compactions == 1 else f"{row.compactions} times"
        print_line(f"Compacted {times}: `consolidator session compact {row.id} --history` lists them.", style="dim")


def _describe(context: Context) -> dict[str, Any]:
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


def _message_texts(message: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the texts of a message in either format, each with its author."""
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
    budget: Budget = None,
    by_model: Annotated[bool, typer.Option("--model/--no-model", help="Have a model write the summary.")] = True,
    history: Annotated[bool, typer.Option("--history", help="List the session's compactions instead.")] = False,
) -> None:
    """Summarize the older part of a session, so that its contexts get shorter. The log keeps all of it."""
    if history:
        events = run(lambda database, _: list_compactions(database, session))
        emit([_describe_event(event) for event in events], _COMPACTIONS)
        return
    compaction = run(
        lambda database, settings: compact_session(database, settings, session, budget=budget, by_model=by_model)
    )
    emit(compaction, _render_compaction, encode=_describe_compaction)


def _render_compaction(compaction: Compaction | None) -> str:
    if compaction is None:
        return "nothing to compact: too little since the last compaction"
    tokens = f"{compaction.tokens_before} tokens became {compaction.tokens_after}"
    return f"compacted up to event {compaction.kept_from - 1}: {tokens}\n{compaction.summary}"


def _describe_compaction(compaction: Compaction | None) -> dict[str, Any] | None:
    names = ("seq", "kept_from", "by", "summary", "tokens_before", "tokens_after")
    return None if compaction is None else {name: getattr(compaction, name) for name in names}


def _describe_event(event: Event) -> dict[str, Any]:
    names = ("by", "model", "trigger", "kept_from", "tokens_before", "tokens_after", "summary")
    return {"seq": event.seq, "at": event.created_at, **{name: event.data.get(name) for name in names}}
