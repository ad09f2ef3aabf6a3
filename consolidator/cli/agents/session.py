"""consolidator session create and end, and the larger parts of `show`: one session with all that belongs to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from consolidator.cli.agents.session_options import SessionOptions
from consolidator.cli.common import SessionName, parse_pairs, parse_path, run, run_in
from consolidator.cli.output import emit, format_usd, print_line, print_note, sanitize, shorten, table
from consolidator.errors import UsageError
from consolidator.models.seed import Seed, SeedRow
from consolidator.models.session import SessionRow
from consolidator.runtime.session.hydration import MAX_MESSAGES, HydratedSession
from consolidator.runtime.session.session_request import SessionRequest
from consolidator.service.database import Database
from consolidator.service.sessions.lifecycle import create_session, end_session
from consolidator.service.sessions.listing import SessionDetails, session_status, show_session
from consolidator.service.sessions.state import hydrate_session, list_seeds
from consolidator.settings import Settings

_MESSAGES = table(
    "messages",
    "seq, what, who=principal, text",
    what=lambda event: event.type.value,
    text=lambda event: _text_of(event.data),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginOptions:
    """Whose a new session is, and what it begins with."""

    agent: Annotated[str | None, typer.Option(help="Its agent; with --key the key names it.")] = None
    key: Annotated[str | None, typer.Option(help="agent:channel:peer; it names this session from now on.")] = None
    channel: Annotated[str | None, typer.Option(help="Where its messages go.")] = None
    peer: Annotated[str | None, typer.Option(help="Whom it talks to.")] = None
    trigger: Annotated[str | None, typer.Option(metavar="TYPE[:ID]", help="What started it, as email:42.")] = None
    label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label; repeat.")] = None
    conversation: Annotated[str | None, typer.Option(help="The conversation that it belongs to.")] = None
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
            "conversation_id": self.conversation,
            "project": self.project,
            "seeds": () if self.seeds is None else read_seeds(self.seeds),
        }


def create_command(*, origin: OriginOptions, options: SessionOptions) -> None:
    """Create a session, and print its id. Options you omit default to the agent's settings (`agent show NAME`)."""
    request = SessionRequest(**options.values(), **origin.values())
    place: dict[str, Any] = {"agent": origin.agent, "channel": origin.channel, "peer": origin.peer, "key": origin.key}
    session = run(lambda database, settings: create_session(database, settings, request, **place))
    emit(session, session.id)


def show_details(session: str, *, with_context: bool) -> None:
    """Print a session's row, what it is doing, and what its next context takes."""

    async def load(database: Database, settings: Settings) -> tuple[SessionDetails, list[SeedRow]]:
        details = await show_session(database, settings, session, with_context=with_context)
        return details, await list_seeds(database, details.session.id)

    def encode(loaded: tuple[SessionDetails, list[SeedRow]]) -> dict[str, Any]:
        details, seeds = loaded
        use = details.context
        shown = None if use is None else {**asdict(use), "share": use.share}
        return {**asdict(details.session), "doing": details.status, "context": shown, "seeds": seeds}

    emit(run(load), lambda loaded: _print_details(*loaded), encode=encode)


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
        "totals": _totals(row),
        "context": _context(details),
        "waits for": ", ".join(f"{call} ({what['kind']})" for call, what in row.attention.items()),
    }
    for name, value in lines.items():
        if value:
            print_line(f"{name}: {sanitize(value)}")
    for seed in seeds:
        print_line(f"began with {seed.role}: {shorten(seed.content, 100)}", style="dim")


def _totals(row: SessionRow) -> str:
    cap = "" if row.max_cost is None else f" of at most {format_usd(row.max_cost)}"
    tokens = f"{row.input_tokens:,} tokens in ({row.cached_tokens:,} cached), {row.output_tokens:,} out"
    return f"{row.turns} turns, {tokens}, {format_usd(row.cost)}{cap}"


def _context(details: SessionDetails) -> str | None:
    use = details.context
    if use is None:
        return None
    window = "" if use.window is None else f", {use.share:.1%} of the window of {use.model} ({use.window:,})"
    return f"{use.tokens:,} of {use.budget:,} tokens by the strategy {use.strategy}{window}"


def show_whole(session: str, before: int | None, limit: int) -> None:
    """Print a session's latest messages, notes, open calls, children and checkpoints at one moment."""
    if limit > MAX_MESSAGES:
        raise UsageError(f"--limit takes at most {MAX_MESSAGES} messages, not {limit}")

    async def load(database: Database, settings: Settings, session_id: str) -> tuple[HydratedSession, str]:
        whole = await hydrate_session(database, settings, session_id, before=before, limit=limit)
        return whole, session_status(whole.session, database.clock.now())

    whole, status = run_in(session, load)
    emit(whole, lambda whole: _print_whole(whole, status))


def _print_whole(whole: HydratedSession, status: str) -> None:
    row = whole.session
    print_line(f"{row.id} ({row.key or row.agent}), {status}, {row.head} events, {row.turns} turns, "
               f"{format_usd(row.cost)}", "bold")  # fmt: skip
    if row.error is not None:
        print_line(f"error: {row.error}")
    _MESSAGES.print(whole.messages)
    if whole.earlier_before is not None:
        print_note(f"earlier ones: --before {whole.earlier_before}")
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


def end_command(
    session: SessionName,
    reason: Annotated[str | None, typer.Option(help="Why; the reason is logged.")] = None,
    hide: Annotated[bool, typer.Option("--hide", help="Do not list the session any more.")] = False,
) -> None:
    """End a session: its key does not name it any more. Nothing is deleted."""
    row = run(lambda database, _: end_session(database, session, reason=reason, hide=hide))
    line = f"session {row.id} has ended; `consolidator session replay {row.id}` shows it again"
    emit(row, line)


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
