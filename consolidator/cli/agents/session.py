"""consolidator session: create one with all that its agent and its caller say, show it, end it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from consolidator.cli.agents.agent_defaults import Parameters, Tools, parse_parameters, parse_seconds, read_template
from consolidator.cli.common import SessionName, open_configured, parse_path, run_async
from consolidator.cli.log.sessions import parse_labels
from consolidator.cli.output import AsJson, format_usd, print_json, print_line, sanitize, shorten
from consolidator.errors import UsageError
from consolidator.models.seed import Seed, SeedRow
from consolidator.models.session import SessionRow
from consolidator.service.agents.context import STRATEGIES
from consolidator.service.amounts import parse_amount
from consolidator.service.sessions.lifecycle import SessionRequest, create_session, end_session
from consolidator.service.sessions.listing import SessionDetails, show_session
from consolidator.service.sessions.seeds import list_seeds

sessions_app = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(sessions_app, name="session", help="One session: create it, show it, end it.")


@sessions_app.command("create")
def create_command(
    agent: Annotated[str | None, typer.Option(help="Its agent; with --key the key names it.")] = None,
    key: Annotated[str | None, typer.Option(help="agent:channel:peer; it names this session from now on.")] = None,
    channel: Annotated[str | None, typer.Option(help="Where its messages go.")] = None,
    peer: Annotated[str | None, typer.Option(help="Whom it talks to.")] = None,
    model: Annotated[str | None, typer.Option(help="A model's name, or `auto`.")] = None,
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None,
    template: Annotated[str | None, typer.Option(metavar="FILE", help="A template of the system prompt.")] = None,
    parameter: Parameters = None,
    tool: Tools = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Cap on its cost, in USD.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Answers of the model in one turn.")] = None,
    strategy: Annotated[str | None, typer.Option(help=f"Of its contexts: {', '.join(STRATEGIES)}.")] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Tokens of its contexts.")] = None,
    ttl: Annotated[str | None, typer.Option(help="It ends so long after a person's last message, such as 7d.")] = None,
    trigger: Annotated[str | None, typer.Option(metavar="TYPE[:ID]", help="What started it, as email:42.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label; repeat.")] = None,
    conversation: Annotated[str | None, typer.Option(help="The conversation that it belongs to.")] = None,
    project: Annotated[str | None, typer.Option(help="Its project.")] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="FILE", help='The earlier thread: JSON, a list of {"role", "content"}.')
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a session, and print its id. What is not named is its agent's (`consolidator agent show NAME`)."""
    trigger_type, _, trigger_id = (trigger or "").partition(":")
    request = SessionRequest(
        model=model,
        system=system,
        template=None if template is None else read_template(template),
        parameters=parse_parameters(parameter),
        tools=None if tool is None else tuple(tool),
        max_cost=None if max_cost is None else parse_amount(max_cost),
        max_steps=max_steps,
        strategy=strategy,
        budget=budget,
        session_ttl_seconds=parse_seconds(ttl),
        labels=parse_labels(label or ()),
        trigger_type=trigger_type or None,
        trigger_id=trigger_id or None,
        conversation_id=conversation,
        project=project,
        seeds=() if seeds is None else read_seeds(seeds),
    )

    async def work() -> SessionRow:
        async with open_configured() as (database, settings):
            return await create_session(database, settings, request, agent=agent, channel=channel, peer=peer, key=key)

    session = run_async(work())
    if as_json:
        print_json(session)
    else:
        print_line(session.id)


@sessions_app.command("show")
def show_command(
    session: SessionName,
    context: Annotated[bool, typer.Option(help="With what its next context takes.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show a session: what it is for, what it is doing, its totals, its context's use, and what it began with."""

    async def work() -> tuple[SessionDetails, list[SeedRow]]:
        async with open_configured() as (database, settings):
            details = await show_session(database, settings, session, with_context=context)
            return details, await list_seeds(database, details.session.id)

    details, seeds = run_async(work())
    if as_json:
        use = details.context
        shown = None if use is None else {**asdict(use), "share": use.share}
        print_json({**asdict(details.session), "doing": details.status, "context": shown, "seeds": seeds})
    else:
        _print_details(details, seeds)


def _print_details(details: SessionDetails, seeds: list[SeedRow]) -> None:
    row = details.session
    print_line(f"session {row.id}: {details.status}", style="bold")
    trigger = " ".join(filter(None, (row.trigger_type, row.trigger_id)))
    end = row.completed_at or row.expires_at
    lines: dict[str, Any] = {
        "agent": row.agent + (f", version {version}" if (version := row.config.get("agent_version")) else ""),
        "key": row.key,
        "kind": None if row.kind == "root" else f"{row.kind} of {row.parent_id} at event {row.parent_seq}",
        "conversation": row.conversation_id,
        "trigger": trigger,
        "labels": json.dumps(row.labels, ensure_ascii=False) if row.labels else None,
        "project": row.project,
        "peer": row.peer,
        "model": row.model,
        "created": row.created_at,
        "last event": row.last_event_at,
        "ended" if row.completed_at else "expires": end,
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


@sessions_app.command("end")
def end_command(
    session: SessionName,
    reason: Annotated[str | None, typer.Option(help="Why; it is logged.")] = None,
    hide: Annotated[bool, typer.Option("--hide", help="Do not list it any more.")] = False,
    as_json: AsJson = False,
) -> None:
    """End a session: its key names none then. Nothing is deleted."""

    async def work() -> SessionRow:
        async with open_configured() as (database, _):
            return await end_session(database, session, reason=reason, hide=hide)

    row = run_async(work())
    if as_json:
        print_json(row)
    else:
        print_line(f"session {row.id} has ended; `consolidator replay {row.id}` shows it again")


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
