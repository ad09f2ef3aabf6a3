"""consolidator checkpoint: labelled points of sessions, to go on from in a new session."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import typer

from consolidator.cli.agents.agent_defaults import parse_parameters
from consolidator.cli.agents.child_options import ChildOptions, print_child, takes_child_options
from consolidator.cli.common import SessionName, open_configured, parse_span, run_async
from consolidator.cli.output import AsJson, Limit, pluralize, print_json, print_line, print_table, shorten
from consolidator.models.session import SessionRow
from consolidator.service.log.sessions import find_session_id
from consolidator.service.sessions.checkpoints import (
    FOR_EVER,
    CheckpointRow,
    create_checkpoint,
    delete_checkpoint,
    list_checkpoints,
    restore_checkpoint,
)

checkpoint_app = typer.Typer(no_args_is_help=True)
CheckpointId = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="A checkpoint's id.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(checkpoint_app, name="checkpoint", help="Checkpoints: labelled points of sessions, to go on from.")


@checkpoint_app.command("create")
def create_command(
    session: SessionName,
    label: Annotated[str | None, typer.Argument(help="What it is called.")] = None,
    at: Annotated[
        int | None, typer.Option(help="After this event (seq); by default the latest at which nothing is open.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option(help="For how long, such as 7d, or `ever`; by default as its agent says, or a day.")
    ] = None,
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", metavar="NAME=VALUE", help="Kept with it; repeat.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Set a checkpoint in a session."""
    span: timedelta | None = None
    if keep is not None:
        span = FOR_EVER if keep == "ever" else parse_span(keep)

    async def work() -> CheckpointRow:
        async with open_configured() as (database, _):
            session_id = await find_session_id(database, session)
            return await create_checkpoint(
                database, session_id, label=label, metadata=parse_parameters(metadata), at=at, time_to_live=span
            )

    checkpoint = run_async(work())
    if as_json:
        print_json(_describe(checkpoint))
        return
    print_line(f"checkpoint {checkpoint.id} after event {checkpoint.seq}", style="bold")
    if checkpoint.delta:
        print_line(f"since the one before: {_render_delta(checkpoint.delta)}")


@checkpoint_app.command("list")
def list_command(session: SessionName, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List a session's checkpoints, the latest point first."""

    async def work() -> list[CheckpointRow]:
        async with open_configured() as (database, _):
            return await list_checkpoints(database, await find_session_id(database, session), limit=limit)

    checkpoints = run_async(work())
    if as_json:
        print_json([_describe(checkpoint) for checkpoint in checkpoints])
        return
    print_table(
        "checkpoints",
        ("checkpoint", "after event", "label", "since the one before", "expires"),
        (
            (
                checkpoint.id,
                checkpoint.seq,
                shorten(checkpoint.label, 40),
                _render_delta(checkpoint.delta),
                checkpoint.expires_at,
            )
            for checkpoint in checkpoints
        ),
        right=("after event",),
    )


@checkpoint_app.command("restore")
@takes_child_options
def restore_command(checkpoint: CheckpointId, *, options: ChildOptions, as_json: AsJson = False) -> None:
    """Create a session that goes on from a checkpoint. The old session is untouched.

    The tools of files and servers are those of what is to drive it: a --tool that is not among them is refused.
    """
    overrides = options.to_overrides()

    async def work() -> SessionRow:
        driver_tools = await options.list_driver_tools()
        async with open_configured() as (database, settings):
            return await restore_checkpoint(
                database,
                settings,
                checkpoint,
                overrides=overrides,
                is_current=options.current,
                driver_tools=driver_tools,
            )

    print_child(run_async(work()), as_json=as_json)


@checkpoint_app.command("delete")
def delete_command(checkpoint: CheckpointId) -> None:
    """Delete a checkpoint. Sessions that were restored from it stay."""

    async def work() -> None:
        async with open_configured() as (database, _):
            await delete_checkpoint(database, checkpoint)

    run_async(work())
    print_line(f"deleted checkpoint {checkpoint}; the session and what was restored from it stay")


def _describe(checkpoint: CheckpointRow) -> dict[str, Any]:
    """Return a checkpoint for programs: without the fold, which is for a restore."""
    names = ("id", "session_id", "seq", "label", "metadata", "delta", "created_at", "expires_at")
    return {name: getattr(checkpoint, name) for name in names}


def _render_delta(delta: dict[str, Any]) -> str:
    if not delta:
        return ""
    calls = sum(delta["tools"].values())
    parts = [pluralize(delta["events"], "event"), pluralize(delta["messages"], "message"), pluralize(calls, "call")]
    return ", ".join([*parts, f"{delta['input_tokens'] + delta['output_tokens']:,} tokens", f"{delta['cost']} USD"])
