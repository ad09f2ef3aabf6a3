"""consolidator session events: what a session's log says, and what its people saw."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from consolidator.cli.common import SessionName, run
from consolidator.cli.output import print_json_line, print_line, sanitize, shorten
from consolidator.cli.streams import is_json, write_now
from consolidator.errors import UsageError
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.service.database import Database
from consolidator.service.log.events import follow_events, read_events
from consolidator.service.log.lecture import read_lecture

_MAX_SEQ = 2**31 - 1


def events_command(
    session: SessionName,
    after: Annotated[
        int | None, typer.Option(min=-_MAX_SEQ, max=_MAX_SEQ, help="Begin after this event (seq).", show_default=False)
    ] = None,
    last: Annotated[int | None, typer.Option("--last", min=1, max=_MAX_SEQ, help="Only the last N events.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new events and print them, too.")] = False,
    full: Annotated[bool, typer.Option(help="Print texts in full.")] = False,
    vocabulary: Annotated[
        Literal["lecture", "replay"] | None,
        typer.Option(
            "--as",
            help="lecture: JSON lines MESSAGE_RECEIVED ... GEN_SENT; replay: what its people saw, with --json piece by "
            "piece, byte for byte.",
        ),
    ] = None,
) -> None:
    """Print a session's events in order; with --json one line each. Following ends with the session."""

    if vocabulary is not None and follow:
        raise UsageError("--as is of what is in the log: leave --follow out")
    if vocabulary == "replay":
        if after is not None or last is not None:
            raise UsageError("a replay is of the whole session: leave --after and --last out")
        run(_replay, session)
        return

    async def print_events(database: Database) -> None:
        if vocabulary is not None:
            async for line in read_lecture(database, session, after=after, last=last):
                write_now(line)
            return
        read = follow_events if follow else read_events
        async for event in read(database, session, after=after, last=last):
            _print_event(event, full=full)

    run(print_events)


def _print_event(event: Event, *, full: bool) -> None:
    if is_json():
        names = ("id", "session_id", "seq", "type", "data", "created_at", "consolidated_at", "task_id", "tool_name")
        kind = event.type.value
        print_json_line({name: getattr(event, name) for name in names} | {"type": kind, "event_type": kind})
        return
    text = _event_text(event)
    mark = "✓" if event.consolidated_at else " "
    when = sanitize(event.occurred_at)
    print_line(f"{event.seq:>6} {mark} {when}  {event.type.value:<18} {text if full else shorten(text, 160)}")


def _event_text(event: Event) -> str:
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


async def _replay(database: Database, session: str) -> None:
    """Show again what a session's people saw, from the log."""
    from consolidator.runtime.agent import VOID_NOTICE  # the runtime, which the events do not need
    from consolidator.service.sessions.reruns import replay_session

    is_answer, message_id = False, None
    async for item in replay_session(database, session):
        if is_json():
            print_json_line(item.as_json())
        elif item.kind == "user":
            write_now(("\n" if is_answer else "") + f"> {sanitize(item.text)}\n")
        elif item.kind == "void":
            write_now(VOID_NOTICE + sanitize(item.text))
        else:
            is_next = is_answer and message_id != item.message_id
            write_now(("\n" if is_next else "") + sanitize(item.text))
        is_answer, message_id = item.kind != "user", item.message_id
    if is_answer and not is_json():
        write_now("\n")
