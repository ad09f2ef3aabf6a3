"""consolidator branch and compare: things tried beside a session, and what came of them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated, Any, cast

import typer

from consolidator import Consolidator
from consolidator.cli.agents.child_options import AddPrompt, MaxCost, Model, Strategy, System, Tools, create_overrides
from consolidator.cli.agents.rerun import print_comparison
from consolidator.cli.agents.tool_file import BuiltinTools, McpConfig, McpServers, ToolFiles, list_tools, open_tools
from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, Limit, format_usd, print_json, print_line, print_table
from consolidator.models.session import SessionRow
from consolidator.service.log.sessions import find_session_id
from consolidator.service.sessions.branches import (
    BRANCH_KINDS,
    BranchComparison,
    BranchKind,
    BranchRequest,
    branch_kind,
    branch_status,
    commit_steer,
    committed_seq,
    compare_branch,
    create_branch,
    discard_branch,
    list_branches,
    run_branch,
)

branch_app = typer.Typer(no_args_is_help=True)
BranchName = Annotated[str, typer.Argument(metavar="BRANCH", help="A branch's id, or the beginning of it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(branch_app, name="branch", help="Branches: things tried beside a session, such as a steer.")
    app.command("compare")(compare_command)


@branch_app.command("create")
def create_command(
    session: SessionName,
    message: Annotated[str | None, typer.Argument(help="What to say in it; of a pre_steer, the steer.")] = None,
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(BRANCH_KINDS)}.")] = "sim",
    at: Annotated[
        int | None,
        typer.Option(help="The last event (seq) before its own; by default the latest at which nothing is open."),
    ] = None,
    live_tools: Annotated[
        bool, typer.Option("--live-tools", help="Run tools with side effects, too; otherwise they are dry runs.")
    ] = False,
    model: Model = None,
    system: System = None,
    add_prompt: AddPrompt = None,
    tool: Tools = None,
    strategy: Strategy = None,
    max_cost: MaxCost = None,
    tools: ToolFiles = [],  # noqa: B006 - typer copies it
    mcp: McpServers = [],  # noqa: B006
    mcp_config: McpConfig = None,
    builtin: BuiltinTools = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Try something beside a session, which stays as it is and goes on meanwhile. Nothing is learned from it.

    With a message it is run to its end and compared with the session; without one it is only created.
    """
    overrides = create_overrides(
        model=model, system=system, add_prompt=add_prompt, tools=tool, strategy=strategy, max_cost=max_cost,
        template=None, parameters=None,
    )  # fmt: skip
    request = BranchRequest(
        kind=cast(BranchKind, kind), message=message, at=at, overrides=overrides, live_tools=live_tools
    )

    async def work() -> SessionRow | BranchComparison:
        async with AsyncExitStack() as stack:
            database, settings = await stack.enter_async_context(open_configured())
            session_id = await find_session_id(database, session)
            if message is None:
                driver_tools = await list_tools(tools, mcp, mcp_config, builtin)
                return await create_branch(database, settings, session_id, request, driver_tools=driver_tools)
            toolbox = await stack.enter_async_context(open_tools(tools, mcp, mcp_config, builtin))
            agent = await stack.enter_async_context(Consolidator(toolbox, settings=settings, database=database))
            return await run_branch(agent.harness, session_id, request)

    made = run_async(work())
    if isinstance(made, BranchComparison):
        _print_compared(made, as_json=as_json)
    elif as_json:
        print_json(describe_branch(made))
    else:
        print_line(f"branch {made.id}: a {branch_kind(made)} of {made.parent_id} after event {made.parent_seq}", "bold")
        if made.pending:
            print_line(f"a message before that has no answer: `consolidator wake {made.id}` answers it")


@branch_app.command("list")
def list_command(session: SessionName, limit: Limit = 50, as_json: AsJson = False) -> None:
    """List a session's branches, the newest first."""

    async def work() -> list[SessionRow]:
        async with open_configured() as (database, _):
            return await list_branches(database, await find_session_id(database, session), limit=limit)

    branches = run_async(work())
    if as_json:
        print_json([describe_branch(branch) for branch in branches])
    else:
        print_branches(branches)


@branch_app.command("commit")
def commit_command(branch: BranchName, as_json: AsJson = False) -> None:
    """Send the steer of a pre_steer branch to its session, once; whoever drives the session answers it."""

    async def work() -> tuple[SessionRow, int]:
        async with open_configured() as (database, _):
            return await commit_steer(database, branch)

    row, seq = run_async(work())
    if as_json:
        print_json(describe_branch(row))
    else:
        print_line(f"the steer is event {seq} of session {row.parent_id}")


@branch_app.command("discard")
def discard_command(branch: BranchName, as_json: AsJson = False) -> None:
    """End a branch; what it did can still be read."""

    async def work() -> SessionRow:
        async with open_configured() as (database, _):
            return await discard_branch(database, branch)

    row = run_async(work())
    if as_json:
        print_json(describe_branch(row))
    else:
        print_line(f"branch {row.id} has ended; `consolidator replay {row.id}` shows it again")


def compare_command(branch: BranchName, as_json: AsJson = False) -> None:
    """Compare a branch with its session from the branch's point on: messages, calls with arguments, tokens, cost."""

    async def work() -> BranchComparison:
        async with open_configured() as (database, _):
            return await compare_branch(database, branch)

    _print_compared(run_async(work()), as_json=as_json)


def _print_compared(compared: BranchComparison, *, as_json: bool) -> None:
    if as_json:
        print_json(compared.as_json())
    else:
        print_compared(compared)


def print_compared(compared: BranchComparison, send_hint: str = "consolidator branch commit") -> None:
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


def print_branches(branches: list[SessionRow]) -> None:
    """Print a session's branches as a table."""
    print_table(
        "branches",
        ("branch", "kind", "after event", "status", "turns", "cost", "created"),
        (
            (
                branch.id,
                branch_kind(branch),
                branch.base_seq,
                branch_status(branch),
                branch.turns,
                format_usd(branch.cost),
                branch.created_at,
            )
            for branch in branches
        ),
        right=("after event", "turns", "cost"),
    )


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
