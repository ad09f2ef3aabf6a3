"""consolidator session say and stop, and call: what a person says to a session, and decides about its calls."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from consolidator.cli.common import SessionName, run, run_in
from consolidator.cli.options import SURFACE
from consolidator.cli.output import emit
from consolidator.errors import UsageError
from consolidator.runtime.turn.sessions import MessageMode, decide_approval, resolve_call
from consolidator.service.database import Database
from consolidator.service.sessions.access import send_message, stop_turn
from consolidator.settings import Settings


def say_command(
    session: SessionName,
    text: Annotated[str, typer.Argument(help="What to say.")],
    later: Annotated[bool, typer.Option("--later", help="Answer it when the current turn has ended.")] = False,
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
    emit({"session": session_id, "seq": seq}, line)


def stop_command(session: SessionName) -> None:
    """End what a session is doing, without a message: what was written stays, and the session is open for the next one.

    Whoever drives the session stops within a second, such as `consolidator serve` or a chat. Messages that were not
    answered yet are not answered any more.
    """

    async def stop(database: Database, _: Settings, session_id: str) -> tuple[str, int | None]:
        return session_id, await stop_turn(database, session_id)

    session_id, seq = run_in(session, stop)
    line = "nothing is under way in it" if seq is None else f"stopped, as event {seq}; the session stays open"
    emit({"session": session_id, "seq": seq}, line)


CallId = Annotated[str, typer.Argument(metavar="CALL", help="A call, by its id.")]


def approve_command(call: CallId) -> None:
    """Allow a call that waits for approval; the session continues at its next wake."""
    session_id = run(lambda database, _: decide_approval(database, call, allow=True, reason=None, surface=SURFACE))
    emit({"session": session_id}, f"allowed; `consolidator session wake {session_id}` continues it")


def deny_command(
    call: CallId, reason: Annotated[str | None, typer.Option(help="The reason, which the model reads.")] = None
) -> None:
    """Deny a call that waits for approval; the model reads that, and continues at the session's next wake."""
    session_id = run(lambda database, _: decide_approval(database, call, allow=False, reason=reason, surface=SURFACE))
    emit({"session": session_id}, f"denied; `consolidator session wake {session_id}` continues it")


def resolve_command(
    call: CallId, outcome: Annotated[str, typer.Argument(metavar="ok|failed", help="How the call went.")]
) -> None:
    """Settle a call whose outcome is unknown, because its process died before the result was recorded."""
    if outcome not in ("ok", "failed"):
        raise UsageError(f"{outcome!r} is no outcome: ok or failed")
    result: Literal["ok", "failed"] = "ok" if outcome == "ok" else "failed"
    session_id = run(lambda database, _: resolve_call(database, call, result, surface=SURFACE))
    emit({"session": session_id}, f"noted in session {session_id}: the model reads it at its next turn")
