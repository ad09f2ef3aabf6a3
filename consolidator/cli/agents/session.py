"""consolidator session create, end, show, context and compact: one session with all that belongs to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import typer
from pydantic import TypeAdapter, ValidationError

from consolidator.cli.agents.options import PromptOptions, load_tools
from consolidator.cli.common import SessionName, parse_pairs, parse_path, run, run_configured
from consolidator.cli.output import emit, format_usd, print_line, print_note, print_table, sanitize, shorten, table
from consolidator.errors import UsageError
from consolidator.models.audience import pluralize
from consolidator.models.event import Event
from consolidator.models.session import Seed, SeedRow, SessionRow
from consolidator.runtime.session.access import find_session_id
from consolidator.runtime.session.creation import SessionRequest, create_session
from consolidator.runtime.session.hydration import HydratedSession
from consolidator.runtime.session.tasks import TaskRow
from consolidator.runtime.tools.tool import Toolbox
from consolidator.runtime.turn.sessions import end_session
from consolidator.service.database import Database
from consolidator.service.memory.suggestions import suggest_next_calls
from consolidator.service.sessions.context import (
    STRATEGIES,
    Compaction,
    Context,
    PreviewOptions,
    compact_session,
    list_compactions,
    preview_context,
)
from consolidator.service.sessions.listing import (
    SessionDetails,
    hydrate_session,
    list_seeds,
    read_state,
    session_status,
    show_session,
    summarize_session,
)
from consolidator.settings import Settings

_SHOWN_MESSAGES = 20  # of `--part whole`
_MESSAGES = table(
    "messages",
    "seq, what, who=principal, text",
    what=lambda event: event.type.value,
    text=lambda event: _text_of(event.data),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions(PromptOptions):
    """What a new session is run with."""

    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", metavar="NAME=VALUE", help="A parameter of its agent's template; repeat."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginOptions:
    """Whose a new session is, and what it begins with."""

    agent: Annotated[str | None, typer.Option(help="Its agent; with --key the key names it.")] = None
    key: Annotated[str | None, typer.Option(help="agent:channel:peer; it names this session from now on.")] = None
    channel: Annotated[str | None, typer.Option(help="Where its messages go.")] = None
    peer: Annotated[str | None, typer.Option(help="Whom it talks to.")] = None
    trigger: Annotated[str | None, typer.Option(metavar="TYPE[:ID]", help="What started it, as email:42.")] = None
    label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label; repeat.")] = None
    project: Annotated[str | None, typer.Option(help="Its project.")] = None
    seeds: Annotated[
        str | None, typer.Option(metavar="FILE", help='The earlier thread: JSON, a list of {"role", "content"}.')
    ] = None

    def values(self) -> dict[str, Any]:
        """Return what a request has of them. Raises UsageError."""
        trigger_type, _, trigger_id = (self.trigger or "").partition(":")
        return {
            "labels": parse_pairs(self.label, "label"),
            "trigger_type": trigger_type or None,
            "trigger_id": trigger_id or None,
            "project": self.project,
            "seeds": () if self.seeds is None else read_seeds(self.seeds),
        }


def create_command(*, origin: OriginOptions, options: SessionOptions) -> None:
    """Create a session, and print its id. Options you omit default to the agent's settings (`agent show NAME`)."""
    request = SessionRequest(**options.values(), **origin.values())
    place: dict[str, Any] = {"agent": origin.agent, "channel": origin.channel, "peer": origin.peer, "key": origin.key}
    session = run_configured(create_session, request, **place)
    emit(session, session.id)


def show_details(session: str) -> None:
    """Print a session's row, what it is doing, and what its next context takes."""

    async def load(database: Database, settings: Settings) -> tuple[SessionDetails, list[SeedRow]]:
        details = await show_session(database, settings, session)
        return details, await list_seeds(database, details.session.id)

    def encode(loaded: tuple[SessionDetails, list[SeedRow]]) -> dict[str, Any]:
        details, seeds = loaded
        use = details.context
        shown = None if use is None else {**asdict(use), "share": use.share}
        return {**asdict(details.session), "doing": details.status, "context": shown, "seeds": seeds}

    emit(run_configured(load), lambda loaded: _print_details(*loaded), encode=encode)


def _print_details(details: SessionDetails, seeds: list[SeedRow]) -> None:
    row = details.session
    print_line(f"session {row.id}: {details.status}", style="bold")
    lines: dict[str, Any] = {
        "agent": row.agent + (f", version {version}" if (version := row.config.get("agent_version")) else ""),
        "key": row.key,
        "kind": None if row.kind == "root" else f"{row.kind} of {row.parent_id} at event {row.parent_seq}",
        "conversation": row.conversation_id,
        "trigger": " ".join(filter(None, (row.trigger_type, row.trigger_id))),
        "labels": json.dumps(row.labels, ensure_ascii=False) if row.labels else None,
        "project": row.project,
        "peer": row.peer,
        "model": row.model,
        "created": row.created_at,
        "last event": row.last_event_at,
        "ended" if row.completed_at else "expires": row.completed_at or row.expires_at,
        "error": row.error,
        "events": f"{row.head}, learned to {row.consolidated_to}, pruned to {row.pruned_to}",
        "totals": describe_totals(row),
        "context": _context(details),
        "waits for": ", ".join(f"{call} ({what['kind']})" for call, what in row.attention.items()),
    }
    for name, value in lines.items():
        if value:
            print_line(f"{name}: {sanitize(value)}")
    for seed in seeds:
        print_line(f"began with {seed.role}: {shorten(seed.content, 100)}", style="dim")


def describe_totals(row: SessionRow) -> str:
    """Return a session's turns, tokens and cost in a line."""
    cap = "" if row.max_cost is None else f" of at most {format_usd(row.max_cost)}"
    tokens = f"{row.input_tokens:,} tokens in ({row.cached_tokens:,} cached), {row.output_tokens:,} out"
    return f"{pluralize(row.turns, 'turn')}, {tokens}, {format_usd(row.cost)}{cap}"


def _context(details: SessionDetails) -> str | None:
    use = details.context
    if use is None:
        return None
    window = "" if use.window is None else f", {use.share:.1%} of the window of {use.model} ({use.window:,})"
    return f"{use.tokens:,} of {use.budget:,} tokens by the strategy {use.strategy}{window}"


def show_whole(session: str) -> None:
    """Print a session's latest messages, notes, open calls, children and checkpoints at one moment."""

    async def load(database: Database, settings: Settings) -> tuple[HydratedSession, str]:
        session_id = await find_session_id(database, session)
        whole = await hydrate_session(database, settings, session_id, limit=_SHOWN_MESSAGES)
        return whole, session_status(whole.session, database.clock.now())

    whole, status = run_configured(load)
    emit(whole, lambda whole: _print_whole(whole, status))


def _print_whole(whole: HydratedSession, status: str) -> None:
    row = whole.session
    print_line(f"{row.id} ({row.key or row.agent}), {status}, {pluralize(row.head, 'event')}, "
               f"{pluralize(row.turns, 'turn')}, "
               f"{format_usd(row.cost)}", "bold")  # fmt: skip
    if row.error is not None:
        print_line(f"error: {row.error}")
    _MESSAGES.print(whole.messages)
    if whole.earlier_before is not None:
        print_note("there are earlier ones: `consolidator session events` prints them all")
    for call in whole.open_calls:
        print_line(f"open: {call.call_id}, {call.tool} {shorten(call.arguments, 60)}, {call.state}")
    if whole.open_task is not None:
        print_line(f"working at: {whole.open_task.title}")
    if whole.scratchpad.text:
        print_line(f"notes:\n{whole.scratchpad.text}")
    for child in whole.children:
        print_line(f"{child.kind} {child.id}, from event {child.parent_seq}")
    for checkpoint in whole.checkpoints:
        print_line(f"checkpoint {checkpoint.id}, at event {checkpoint.seq}: {checkpoint.label or 'unlabelled'}")


def _text_of(data: Mapping[str, Any]) -> str:
    """Return what an event says, in a line."""
    names = ("text", "arguments", "content", "message", "reason")
    return shorten(next((data[name] for name in names if data.get(name)), ""), 100)


def end_command(session: SessionName) -> None:
    """End a session: its key does not name it any more. Nothing is deleted."""
    row = run(end_session, session)
    emit(row, f"session {row.id} has ended; `consolidator session events {row.id} --as replay` shows it again")


def read_seeds(name: str) -> list[Seed]:
    """Return the earlier thread of a file. Raises UsageError for anything but a JSON list of messages."""
    path = parse_path(name)
    try:
        return TypeAdapter(list[Seed]).validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path} is no list of messages with role and content: {where} {first['msg']}") from error


def show_command(
    session: SessionName,
    part: Annotated[
        Literal["details", "state", "summary", "whole", "next"],
        typer.Option(
            help="details: its row; state: what its tools have set; summary: as a prompt would hold it; whole: its "
            "latest messages, notes, open calls, children and checkpoints at one moment; next: the calls that usually "
            "follow."
        ),
    ] = "details",
) -> None:
    """Show a session: what it is for, what it is doing, its totals, its context's use, and what it began with."""
    if part == "state":
        emit(run(read_state, session), lambda read: _print_state(*read), encode=lambda read: _describe_state(*read))
    elif part == "summary":
        summary = run(summarize_session, session)
        emit(summary, lambda summary: str(summary["text"]))
    elif part == "whole":
        show_whole(session)
    elif part == "next":
        suggestions = run(suggest_next_calls, session)
        emit(suggestions, _NEXT if suggestions else "no prediction: too few sessions contain this sequence")
    else:
        show_details(session)


_NEXT = table(
    "what usually follows",
    "call=symbol, arguments, >likely, >sure, why",
    arguments=lambda call: shorten(json.dumps(call["arguments"], ensure_ascii=False), 120),
    likely=lambda call: f"{call['likelihood']:.0%}",
    sure=lambda call: f"{call['confidence']:.0%}",
    why=lambda call: shorten(call["why"], 100),
)
_STATE = ("state", "turns", "compactions", "input_tokens", "output_tokens", "cached_tokens", "cost")


def _describe_state(row: SessionRow, open_task: TaskRow | None) -> dict[str, Any]:
    """Return for programs what tools have set, and the totals."""
    totals = {name: getattr(row, name) for name in _STATE}
    return {"session_id": row.id, "seq": row.head, "status": row.status, "open_task": open_task, **totals}


def _print_state(row: SessionRow, open_task: TaskRow | None) -> None:
    rows = ((name, json.dumps(value, ensure_ascii=False, default=str)) for name, value in row.state.items())
    print_table("state", ("name", "value"), rows)
    if open_task is not None:
        print_line(f"working at: {open_task.title}")
    print_line(f"{describe_totals(row)}, {row.compactions} compactions, at event {row.head}", "dim")


_COMPACTIONS = table(
    "compactions, in tokens",
    ">event=seq, at, by, trigger, >kept from, >before=tokens_before, >after=tokens_after, summary",
    by=lambda row: row["model"] or row["by"],
    summary=lambda row: shorten(row["summary"], 60),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """How a context is built; options that are omitted default to the session's own."""

    strategy: Annotated[str | None, typer.Option(help=f"The strategy: {', '.join(STRATEGIES)}.")] = None
    budget: Annotated[int | None, typer.Option(min=1, help="Tokens of the context.")] = None
    last: Annotated[int | None, typer.Option(min=1, help="Events of a context by the strategy window.")] = None
    message_format: Annotated[
        Literal["openai", "anthropic"], typer.Option("--format", help="openai or anthropic messages.")
    ] = "openai"
    memory: Annotated[bool, typer.Option(help="Include what memory has about the last message.")] = True
    tools: Annotated[list[str] | None, typer.Option("--tools", metavar="FILE", help="Its tools; repeat.")] = None


def context_command(
    session: SessionName,
    *,
    options: ContextOptions,
    full: Annotated[bool, typer.Option(help="Print texts in full.")] = False,
) -> None:
    """Show what the model would see of a session now, with the tokens of each part.

    Options you omit default to the session's own.
    """
    toolbox = Toolbox([tool for name in options.tools or () for tool in load_tools(name)])
    preview = PreviewOptions(
        options.strategy, options.budget, options.last, options.message_format, options.memory, toolbox.definitions()
    )
    context, row = run_configured(preview_context, session, preview)
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
    budget: Annotated[int | None, typer.Option(min=1, help="Tokens of its contexts.")] = None,
    by_model: Annotated[bool, typer.Option("--model/--no-model", help="Have a model write the summary.")] = True,
    history: Annotated[bool, typer.Option("--history", help="List the session's compactions instead.")] = False,
) -> None:
    """Summarize the older part of a session, so that its contexts get shorter. The log keeps all of it."""
    if history:
        events = run(list_compactions, session)
        emit([_describe_event(event) for event in events], _COMPACTIONS)
        return
    compaction = run_configured(compact_session, session, budget=budget, by_model=by_model)
    emit(compaction, _render_compaction)


def _render_compaction(compaction: Compaction | None) -> str:
    if compaction is None:
        return "nothing to compact: too little since the last compaction"
    tokens = f"{compaction.tokens_before} tokens became {compaction.tokens_after}"
    return f"compacted up to event {compaction.kept_from - 1}: {tokens}\n{compaction.summary}"


def _describe_event(event: Event) -> dict[str, Any]:
    names = ("by", "model", "trigger", "kept_from", "tokens_before", "tokens_after", "summary")
    return {"seq": event.seq, "at": event.created_at, **{name: event.data.get(name) for name in names}}
