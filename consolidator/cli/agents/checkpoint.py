"""consolidator session checkpoint and fork: labelled points of sessions, and sessions that go on from one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from consolidator.cli.agents.session_options import At, ChildOptions
from consolidator.cli.agents.tool_file import ToolOptions
from consolidator.cli.common import parse_pairs, parse_span, run, run_in
from consolidator.cli.options import require_at_most_one
from consolidator.cli.output import Limit, emit, pluralize, print_line, shorten, table
from consolidator.errors import NotFound
from consolidator.models.checkpoint import CheckpointRow
from consolidator.models.session import SessionRow
from consolidator.runtime.lineage.checkpoints import FOR_EVER
from consolidator.runtime.lineage.children import ChildRequest
from consolidator.service.database import Database
from consolidator.service.sessions.access import find_session_id
from consolidator.service.sessions.children import (
    create_checkpoint,
    delete_checkpoint,
    fork_session,
    list_checkpoints,
    restore_checkpoint,
)
from consolidator.settings import Settings

CHECKPOINTS = table(
    "checkpoints",
    "checkpoint=id, >after event=seq, label, since the one before, expires=expires_at",
    label=lambda row: shorten(row.label, 40),
    since_the_one_before=lambda row: _render_delta(row.delta),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """Where a checkpoint is set, and how long it is kept."""

    at: At = None
    keep: Annotated[
        str | None, typer.Option(help="For how long, such as 7d, or `ever`; by default as its agent says, or a day.")
    ] = None
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", metavar="NAME=VALUE", help="Metadata of the checkpoint; repeat.")
    ] = None

    def values(self) -> dict[str, Any]:
        """Return the options of `create_checkpoint`. Raises UsageError."""
        span = None if self.keep is None else FOR_EVER if self.keep == "ever" else parse_span(self.keep)
        return {"at": self.at, "time_to_live": span, "metadata": parse_pairs(self.metadata, "parameter")}


def checkpoint_command(
    session: Annotated[str, typer.Argument(help="A session; with --delete a checkpoint's id.")],
    label: Annotated[str | None, typer.Argument(help="The checkpoint's label.")] = None,
    *,
    options: CheckpointOptions,
    list_: Annotated[bool, typer.Option("--list", help="List the session's checkpoints, the latest first.")] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete a checkpoint; sessions that were restored from it stay.")
    ] = False,
    limit: Limit = 50,
) -> None:
    """Set a checkpoint in a session, to go on from with `session fork`; or list or delete checkpoints."""
    require_at_most_one(list_=list_, delete=delete)
    if delete:
        run(lambda database, _: delete_checkpoint(database, session))
        line = f"deleted checkpoint {session}; the session and what was restored from it stay"
        emit({"deleted": session}, line)
    elif list_:
        rows = run_in(session, lambda database, _, name: list_checkpoints(database, name, limit=limit))
        emit(rows, CHECKPOINTS, encode=lambda rows: [_describe(row) for row in rows])
    else:
        values = options.values()
        row = run_in(session, lambda database, _, name: create_checkpoint(database, name, label=label, **values))
        emit(row, _print_checkpoint, encode=_describe)


def fork_command(
    session: Annotated[str, typer.Argument(metavar="SESSION|CHECKPOINT", help="A session, or a checkpoint's id.")],
    *,
    at: At = None,
    child: ChildOptions,
    driver: ToolOptions,
    current: Annotated[
        bool, typer.Option("--current", help="Let the session's key name the new one from now on.")
    ] = False,
    same_conversation: Annotated[
        bool, typer.Option("--same-conversation", help="Make it a run of the same conversation, not one of its own.")
    ] = False,
) -> None:
    """Create a session that reads another one's log up to an event or a checkpoint as its own past.

    The tools of files and servers are those of what is to drive it: a --tool that is not among them is refused.
    """
    overrides = child.to_overrides()

    async def fork(database: Database, settings: Settings) -> SessionRow:
        tools = await driver.list_names()
        try:
            session_id = await find_session_id(database, session)
        except NotFound:
            with suppress(NotFound):
                return await restore_checkpoint(
                    database, settings, session, overrides=overrides, is_current=current, driver_tools=tools
                )
            raise
        request = ChildRequest(
            kind="fork", at=at, overrides=overrides, is_current=current, same_conversation=same_conversation
        )
        return await fork_session(database, settings, session_id, request, driver_tools=tools)

    emit(run(fork), _print_child)


def _print_child(child: SessionRow) -> None:
    """Print a session that was made from another one."""
    print_line(f"session {child.id}: a {child.kind} of {child.parent_id} after event {child.parent_seq}", style="bold")
    if child.pending:
        print_line(f"a message before that has no answer: `consolidator session wake {child.id}` answers it")


def _print_checkpoint(row: CheckpointRow) -> None:
    print_line(f"checkpoint {row.id} after event {row.seq}", style="bold")
    if row.delta:
        print_line(f"since the one before: {_render_delta(row.delta)}")


def _describe(row: CheckpointRow) -> dict[str, Any]:
    """Return a checkpoint for programs: without the fold, which is for a restore."""
    names = ("id", "session_id", "seq", "label", "metadata", "delta", "created_at", "expires_at")
    return {name: getattr(row, name) for name in names}


def _render_delta(delta: dict[str, Any]) -> str:
    if not delta:
        return ""
    calls = sum(delta["tools"].values())
    parts = [pluralize(delta["events"], "event"), pluralize(delta["messages"], "message"), pluralize(calls, "call")]
    return ", ".join([*parts, f"{delta['input_tokens'] + delta['output_tokens']:,} tokens", f"{delta['cost']} USD"])
