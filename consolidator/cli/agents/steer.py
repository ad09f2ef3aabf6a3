"""consolidator steer, follow-up and stop: what a person says to a session that somebody else drives."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, print_json, print_line
from consolidator.service.log.sessions import find_session_id
from consolidator.service.sessions.messages import MessageMode, send_message, stop_turn

Text = Annotated[str, typer.Argument(help="What to say.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("steer")(steer_command)
    app.command("follow-up")(follow_up_command)
    app.command("stop")(stop_command)


def steer_command(session: SessionName, text: Text, as_json: AsJson = False) -> None:
    """Say something now: what the session is doing is cancelled, kept as far as it was seen, and this is answered.

    Whoever drives the session answers, such as `consolidator serve` or a chat; `consolidator wake` does it at once.
    """
    _say(session, text, "steer", as_json=as_json)


def follow_up_command(session: SessionName, text: Text, as_json: AsJson = False) -> None:
    """Say something that is answered when the present turn has ended.

    Whoever drives the session answers, such as `consolidator serve` or a chat; `consolidator wake` does it at once.
    """
    _say(session, text, "follow_up", as_json=as_json)


def stop_command(session: SessionName, as_json: AsJson = False) -> None:
    """End what a session is doing, without a message: what was written stays, and the session is open for the next one.

    Whoever drives the session stops within a second, such as `consolidator serve` or a chat; what was said before and
    not answered yet is not answered any more.
    """

    async def work() -> tuple[str, int | None]:
        async with open_configured() as (database, _):
            session_id = await find_session_id(database, session)
            return session_id, await stop_turn(database, session_id)

    session_id, seq = run_async(work())
    if as_json:
        print_json({"session": session_id, "seq": seq})
    elif seq is None:
        print_line("nothing is under way in it")
    else:
        print_line(f"stopped, as event {seq}; the session stays open")


def _say(session: str, text: str, mode: MessageMode, *, as_json: bool) -> None:
    async def work() -> tuple[str, int]:
        async with open_configured() as (database, _):
            session_id = await find_session_id(database, session)
            return session_id, await send_message(database, session_id, text, mode=mode)

    session_id, seq = run_async(work())
    if as_json:
        print_json({"session": session_id, "seq": seq})
    else:
        print_line(f"said, as event {seq}; whoever drives the session answers (`consolidator wake {session_id}`)")
