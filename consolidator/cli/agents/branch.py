"""consolidator session branch: things tried beside a session, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, cast

import typer

from consolidator.cli.agents.rerun import print_comparison
from consolidator.cli.agents.session_options import At, ChildOptions
from consolidator.cli.agents.tool_file import ToolOptions
from consolidator.cli.common import run, run_in
from consolidator.cli.options import require_at_most_one
from consolidator.cli.output import Limit, emit, format_usd, print_line, table
from consolidator.models.session import SessionRow
from consolidator.runtime.lineage.children import BranchKind
from consolidator.runtime.rerun.branches import (
    BRANCH_KINDS,
    BranchComparison,
    BranchRequest,
    branch_kind,
    branch_status,
    committed_seq,
)
from consolidator.service.database import Database
from consolidator.service.sessions.branches import (
    commit_steer,
    create_branch,
    discard_branch,
    list_branches,
    run_branch,
)
from consolidator.settings import Settings

BRANCHES = table(
    "branches",
    "branch=id, kind, >after event=base_seq, status, >turns, >cost, created=created_at",
    kind=lambda row: branch_kind(row),
    status=lambda row: branch_status(row),
    cost=lambda row: format_usd(row.cost),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchOptions(ChildOptions):
    """What a branch does differently."""

    kind: Annotated[str, typer.Option(help=f"One of {', '.join(BRANCH_KINDS)}.")] = "sim"
    at: At = None
    live_tools: Annotated[
        bool, typer.Option("--live-tools", help="Run tools with side effects, too; otherwise they are dry runs.")
    ] = False

    def to_request(self, message: str | None) -> BranchRequest:
        """Return the request for a branch. Raises UsageError."""
        kind, overrides = cast(BranchKind, self.kind), self.to_overrides()
        return BranchRequest(kind=kind, message=message, at=self.at, overrides=overrides, live_tools=self.live_tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchActions:
    """What else can be done with a session's branches."""

    list_: Annotated[bool, typer.Option("--list", help="List the session's branches, the newest first.")] = False
    commit: Annotated[
        bool, typer.Option("--commit", help="Send the steer of a pre_steer branch to its session, once.")
    ] = False
    discard: Annotated[bool, typer.Option("--discard", help="End a branch; its log can still be read.")] = False
    limit: Limit = 50


def branch_command(
    session: Annotated[str, typer.Argument(help="A session; with --commit and --discard a branch.")],
    message: Annotated[str | None, typer.Argument(help="What to say in it; of a pre_steer, the steer.")] = None,
    *,
    options: BranchOptions,
    driver: ToolOptions,
    actions: BranchActions,
) -> None:
    """Try something beside a session, which stays as it is and goes on meanwhile. Nothing is learned from it.

    With a message the branch is run to its end and compared with the session; without one it is only created.
    `session diff BRANCH` compares it again.
    """
    require_at_most_one(list_=actions.list_, commit=actions.commit, discard=actions.discard)
    if actions.list_:
        rows = run_in(session, lambda database, _, name: list_branches(database, name, limit=actions.limit))
        emit(rows, BRANCHES, encode=lambda rows: [describe_branch(row) for row in rows])
    elif actions.commit:
        row, seq = run(lambda database, _: commit_steer(database, session))
        emit(row, f"the steer is event {seq} of session {row.parent_id}", encode=describe_branch)
    elif actions.discard:
        row = run(lambda database, _: discard_branch(database, session))
        line = f"branch {row.id} has ended; `consolidator session replay {row.id}` shows it again"
        emit(row, line, encode=describe_branch)
    else:
        _create(session, options.to_request(message), driver)


def _create(session: str, request: BranchRequest, driver: ToolOptions) -> None:
    """Create a branch, and run it if it has a message."""

    async def create(database: Database, settings: Settings, session_id: str) -> SessionRow | BranchComparison:
        if request.message is None:
            names = await driver.list_names()
            return await create_branch(database, settings, session_id, request, driver_tools=names)
        async with driver.open_agent(database, settings) as agent:
            return await run_branch(agent.harness, session_id, request)

    created = run_in(session, create)
    if isinstance(created, BranchComparison):
        emit(created, print_compared)
    else:
        emit(created, _print_branch, encode=describe_branch)


def _print_branch(row: SessionRow) -> None:
    print_line(f"branch {row.id}: a {branch_kind(row)} of {row.parent_id} after event {row.parent_seq}", "bold")
    if row.pending:
        print_line(f"a message before that has no answer: `consolidator session wake {row.id}` answers it")


def print_compared(compared: BranchComparison, send_hint: str = "consolidator session branch --commit") -> None:
    """Print how a branch compares with its session, and how to go on."""
    branch = compared.branch
    kind, status = branch_kind(branch), branch_status(branch)
    print_line(f"branch {branch.id}, a {kind} of {compared.main_id} after event {branch.base_seq}: {status}", "bold")
    if branch.error:
        print_line(f"its last turn ended in an error: {branch.error}", "yellow")
    print_comparison(compared.comparison, ("session", "branch"))
    if not compared.is_whole:
        print_line("one of them went on for longer than is compared, or is pruned", "yellow")
    if kind == "pre_steer" and status in ("ready", "running", "failed", "waiting"):
        print_line(f"the session has not seen the steer: `{send_hint} {branch.id}` sends it", "dim")


def describe_branch(branch: SessionRow) -> dict[str, Any]:
    """Return a branch for programs."""
    return {
        "id": branch.id,
        "main": branch.parent_id,
        "kind": branch_kind(branch),
        "after": branch.base_seq,
        "status": branch_status(branch),
        "live_tools": not branch.is_dry_run,
        "committed_seq": committed_seq(branch),
        "turns": branch.turns,
        "cost": branch.cost,
        "created_at": branch.created_at,
    }
