"""consolidator hydrate: a session with all that belongs to it, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, format_usd, print_json, print_line, print_note, print_table, shorten
from consolidator.service.log.sessions import find_session_id
from consolidator.service.sessions.hydrate import MAX_MESSAGES, HydratedSession, hydrate_session
from consolidator.service.sessions.listing import session_status


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("hydrate")(hydrate_command)


def hydrate_command(
    session: SessionName,
    limit: Annotated[int, typer.Option(min=1, max=MAX_MESSAGES, help="How many messages at most.")] = 20,
    before: Annotated[int | None, typer.Option(min=1, help="Only messages before this event.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a session at one moment: its latest messages, notes, open calls, children and checkpoints."""

    async def work() -> tuple[HydratedSession, str]:
        async with open_configured() as (database, settings):
            session_id = await find_session_id(database, session)
            found = await hydrate_session(database, settings, session_id, before=before, limit=limit)
            return found, session_status(found.session, database.clock.now())

    found, status = run_async(work())
    if as_json:
        print_json(found)
        return
    row = found.session
    print_line(f"{row.id} ({row.key or row.agent}), {status}, {row.head} events, {row.turns} turns, "
               f"{format_usd(row.cost)}", "bold")  # fmt: skip
    if row.error is not None:
        print_line(f"error: {row.error}")
    lines = ((event.seq, event.type.value, event.principal, _text(event.data)) for event in found.messages)
    print_table("messages", ("seq", "what", "who", "text"), lines)
    if found.earlier_before is not None:
        print_note(f"earlier ones: --before {found.earlier_before}")
    for call in found.open_calls:
        print_line(f"open: {call.call_id}, {call.tool} {shorten(call.arguments, 60)}, {call.state}")
    if found.open_task is not None:
        print_line(f"working at: {found.open_task.title}")
    if found.scratchpad.text:
        print_line(f"notes:\n{found.scratchpad.text}")
    for child in found.children:
        print_line(f"{child.kind} {child.id}, from event {child.parent_seq}")
    for checkpoint in found.checkpoints:
        print_line(f"checkpoint {checkpoint.id}, at event {checkpoint.seq}: {checkpoint.label or 'unlabelled'}")


def _text(data: Mapping[str, Any]) -> str:
    """Return what an event says, in a line."""
    for name in ("text", "arguments", "content", "message", "reason"):
        if data.get(name):
            return shorten(data[name], 100)
    return ""
