"""consolidator call: a person's decision about a call that waits for it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from consolidator.cli.common import run
from consolidator.cli.options import SURFACE
from consolidator.cli.output import print_line
from consolidator.errors import UsageError
from consolidator.runtime.turn.sessions import decide_approval, resolve_call

CallId = Annotated[str, typer.Argument(metavar="CALL", help="A call, by its id.")]


def approve_command(call: CallId) -> None:
    """Allow a call that waits for approval; the session continues at its next wake."""
    session_id = run(lambda database, _: decide_approval(database, call, allow=True, reason=None, surface=SURFACE))
    print_line(f"allowed; `consolidator session wake {session_id}` continues it")


def deny_command(
    call: CallId, reason: Annotated[str | None, typer.Option(help="The reason, which the model reads.")] = None
) -> None:
    """Deny a call that waits for approval; the model reads that, and continues at the session's next wake."""
    session_id = run(lambda database, _: decide_approval(database, call, allow=False, reason=reason, surface=SURFACE))
    print_line(f"denied; `consolidator session wake {session_id}` continues it")


def resolve_command(
    call: CallId, outcome: Annotated[str, typer.Argument(metavar="ok|failed", help="How the call went.")]
) -> None:
    """Settle a call whose outcome is unknown, because its process died before the result was recorded."""
    if outcome not in ("ok", "failed"):
        raise UsageError(f"{outcome!r} is no outcome: ok or failed")
    result: Literal["ok", "failed"] = "ok" if outcome == "ok" else "failed"
    session_id = run(lambda database, _: resolve_call(database, call, result, surface=SURFACE))
    print_line(f"noted in session {session_id}: the model reads it at its next turn")
