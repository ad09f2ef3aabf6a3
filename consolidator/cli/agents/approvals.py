"""consolidator approve, deny, resolve: a person's decision about a call that waits for it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from consolidator.cli.common import open_configured, run_async
from consolidator.cli.output import print_line
from consolidator.errors import UsageError
from consolidator.runtime.turn.sessions import decide_approval, resolve_call

SURFACE = "cli"
CallId = Annotated[str, typer.Argument(metavar="CALL", help="A call, by its id.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("approve")(approve_command)
    app.command("deny")(deny_command)
    app.command("resolve")(resolve_command)


def approve_command(call: CallId) -> None:
    """Allow a call that waits for approval; the session continues at its next wake."""
    _decide(call, allow=True, reason=None)


def deny_command(
    call: CallId, reason: Annotated[str | None, typer.Option(help="The reason that the model is told.")] = None
) -> None:
    """Deny a call that waits for approval; the model is told, and continues at the session's next wake."""
    _decide(call, allow=False, reason=reason)


def _decide(call: str, *, allow: bool, reason: str | None) -> None:
    async def work() -> str:
        async with open_configured() as (database, _):
            return await decide_approval(database, call, allow=allow, reason=reason, surface=SURFACE)

    session_id = run_async(work())
    print_line(f"{'allowed' if allow else 'denied'}; `consolidator wake {session_id}` continues it")


def resolve_command(
    call: CallId, outcome: Annotated[str, typer.Argument(metavar="ok|failed", help="How it went.")]
) -> None:
    """Settle a call whose outcome is unknown, because its process died before the result was recorded."""
    if outcome not in ("ok", "failed"):
        raise UsageError(f"{outcome!r} is no outcome: ok or failed")
    checked: Literal["ok", "failed"] = "ok" if outcome == "ok" else "failed"

    async def work() -> str:
        async with open_configured() as (database, _):
            return await resolve_call(database, call, checked, surface=SURFACE)

    print_line(f"noted in session {run_async(work())}: the model reads it at its next turn")
