"""consolidator events: what a session's log says."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, print_json_line, print_line, sanitize, shorten
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.service.log.events import read_events

_MAX_SEQ = 2**31 - 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("events")(events_command)


def events_command(
    session: SessionName,
    after: Annotated[
        int | None, typer.Option(min=-_MAX_SEQ, max=_MAX_SEQ, help="Begin after this seq.", show_default=False)
    ] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, max=_MAX_SEQ, help="Only the last N events.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new events and print them, too.")] = False,
    full: Annotated[bool, typer.Option(help="Whole texts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a session's events in order; with --json one line each."""

    async def work() -> None:
        async with open_configured() as (database, _):
            async for event in read_events(database, session, after=after, last=last, follow=follow):
                _print_event(event, as_json=as_json, full=full)

    run_async(work())


def _print_event(event: Event, *, as_json: bool, full: bool) -> None:
    if as_json:
        print_json_line(
            {
                "session_id": event.session_id,
                "seq": event.seq,
                "type": event.type.value,
                "data": event.data,
                "created_at": event.created_at,
                "consolidated_at": event.consolidated_at,
            }
        )
        return
    text = _event_text(event)
    mark = "✓" if event.consolidated_at else " "
    when = sanitize(event.occurred_at)
    print_line(f"{event.seq:>6} {mark} {when}  {event.type.value:<18} {text if full else shorten(text, 160)}")


def _event_text(event: Event) -> str:
    """Return what an event says, as text."""
    data = event.data
    if event.type is EventType.TOOL_CALL:
        return f"{data.get('tool')} {_to_json(data.get('arguments'))}"
    if event.type is EventType.TOOL_RESULT:
        content = data.get("content")
        text = content if isinstance(content, str) else _to_json(content)
        return text if data.get("status", "ok") == "ok" else f"{data.get('status')}: {text}"
    for key in ("text", "message", "decision", "goal", "reason"):
        if data.get(key):
            return str(data[key])
    return _to_json({key: value for key, value in data.items() if key not in ("v", "occurred_at")})


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
