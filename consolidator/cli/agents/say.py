"""consolidator session say and stop: what a person says to a session that somebody else drives."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.common import SessionName, run_in
from consolidator.cli.output import AsJson, emit
from consolidator.runtime.turn.sessions import MessageMode
from consolidator.service.database import Database
from consolidator.service.sessions.messages import send_message, stop_turn
from consolidator.settings import Settings


def say_command(
    session: SessionName,
    text: Annotated[str, typer.Argument(help="What to say.")],
    later: Annotated[bool, typer.Option("--later", help="Answer it when the current turn has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say something to a session now: what it is doing is cancelled, kept as far as it was seen, and this is answered.

    Whoever drives the session answers, such as `consolidator serve` or a chat; `consolidator session wake` does it at
    once.
    """
    mode: MessageMode = "follow_up" if later else "steer"

    async def send(database: Database, _: Settings, session_id: str) -> tuple[str, int]:
        return session_id, await send_message(database, session_id, text, mode=mode)

    session_id, seq = run_in(session, send)
    line = f"said, as event {seq}; whoever drives the session answers (`consolidator session wake {session_id}`)"
    emit({"session": session_id, "seq": seq}, line, as_json=as_json)


def stop_command(session: SessionName, as_json: AsJson = False) -> None:
    """End what a session is doing, without a message: what was written stays, and the session is open for the next one.

    Whoever drives the session stops within a second, such as `consolidator serve` or a chat. Messages that were not
    answered yet are not answered any more.
    """

    async def stop(database: Database, _: Settings, session_id: str) -> tuple[str, int | None]:
        return session_id, await stop_turn(database, session_id)

    session_id, seq = run_in(session, stop)
    line = "nothing is under way in it" if seq is None else f"stopped, as event {seq}; the session stays open"
    emit({"session": session_id, "seq": seq}, line, as_json=as_json)
