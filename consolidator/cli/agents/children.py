"""consolidator session checkpoint, fork, branch, rerun, diff and spawn: what comes of a session."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, cast

import typer
from ulid import ULID

from consolidator.cli.agents.options import (
    AddPrompt,
    At,
    ChildOptions,
    MaxCost,
    Model,
    RequestOptions,
    ToolNames,
    ToolOptions,
)
from consolidator.cli.common import (
    SessionName,
    parse_span,
    read_text,
    require_at_most_one,
    run,
    run_configured,
    run_in,
)
from consolidator.cli.output import emit, format_usd, pluralize, print_line, print_table, shorten, table
from consolidator.errors import NotFound
from consolidator.models.lineage import CheckpointRow
from consolidator.models.session import SessionRow
from consolidator.runtime.lineage.checkpoints import (
    FOR_EVER,
    create_checkpoint,
    delete_checkpoint,
    list_checkpoints,
    restore_checkpoint,
)
from consolidator.runtime.lineage.children import BranchKind, ChildRequest, create_child
from consolidator.runtime.rerun.branches import (
    BRANCH_KINDS,
    BranchRequest,
    SessionComparison,
    branch_kind,
    branch_status,
    commit_steer,
    committed_seq,
    compare_branch,
    create_branch,
    discard_branch,
    run_branch,
)
from consolidator.runtime.rerun.turns import CallDifference, Comparison, Figures, TurnDifference
from consolidator.runtime.session.access import find_session_id
from consolidator.runtime.session.agent_defaults import SpawnRequest, SpawnResult
from consolidator.runtime.turn.wake import spawn_sub_agent
from consolidator.service.database import Database
from consolidator.service.sessions.listing import list_branches
from consolidator.service.sessions.reruns import Rerun, compare_sessions, rerun_session
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

    def values(self) -> dict[str, Any]:
        """Return the options of `create_checkpoint`. Raises UsageError."""
        span = None if self.keep is None else FOR_EVER if self.keep == "ever" else parse_span(self.keep)
        return {"at": self.at, "time_to_live": span}


def checkpoint_command(
    session: Annotated[str, typer.Argument(help="A session; with --delete a checkpoint's id.")],
    label: Annotated[str | None, typer.Argument(help="The checkpoint's label.")] = None,
    *,
    options: CheckpointOptions,
    list_: Annotated[bool, typer.Option("--list", help="List the session's checkpoints, the latest first.")] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete a checkpoint; sessions that were restored from it stay.")
    ] = False,
) -> None:
    """Set a checkpoint in a session, to go on from with `session fork`; or list or delete checkpoints."""
    require_at_most_one(list_=list_, delete=delete)
    if delete:
        run(delete_checkpoint, session)
        line = f"deleted checkpoint {session}; the session and what was restored from it stay"
        emit({"deleted": session}, line)
    elif list_:
        rows = run_in(session, list_checkpoints)
        emit(rows, CHECKPOINTS, encode=lambda rows: [_describe(row) for row in rows])
    else:
        values = options.values()
        row = run_in(session, create_checkpoint, label=label, **values)
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
        request = ChildRequest(kind="fork", at=at, overrides=overrides, is_current=current)
        return await create_child(database, settings, session_id, request, driver_tools=tools)

    emit(run_configured(fork), _print_child)


def _print_child(child: SessionRow) -> None:
    """Print a session that was made from another one."""
    what, kind = ("branch", branch_kind(child)) if child.kind == "branch" else ("session", child.kind)
    print_line(f"{what} {child.id}: a {kind} of {child.parent_id} after event {child.parent_seq}", style="bold")
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
    cost = f"{Decimal(str(delta['cost'])):f}"
    return ", ".join([*parts, f"{delta['input_tokens'] + delta['output_tokens']:,} tokens", f"{cost} USD"])


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchActions:
    """What else can be done with a session's branches."""

    list_: Annotated[bool, typer.Option("--list", help="List the session's branches, the newest first.")] = False
    commit: Annotated[
        bool, typer.Option("--commit", help="Send the steer of a pre_steer branch to its session, once.")
    ] = False
    discard: Annotated[bool, typer.Option("--discard", help="End a branch; its log can still be read.")] = False


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
        rows = run_in(session, list_branches)
        emit(rows, BRANCHES, encode=lambda rows: [describe_branch(row) for row in rows])
    elif actions.commit:
        row, seq = run(commit_steer, session)
        emit(row, f"the steer is event {seq} of session {row.parent_id}", encode=describe_branch)
    elif actions.discard:
        row = run(discard_branch, session)
        line = f"branch {row.id} has ended; `consolidator session events {row.id} --as replay` shows it again"
        emit(row, line, encode=describe_branch)
    else:
        kind, overrides = cast(BranchKind, options.kind), options.to_overrides()
        request = BranchRequest(
            kind=kind, message=message, at=options.at, overrides=overrides, live_tools=options.live_tools
        )
        _create(session, request, driver)


def _create(session: str, request: BranchRequest, driver: ToolOptions) -> None:
    """Create a branch, and run it if it has a message."""

    async def create(database: Database, settings: Settings) -> SessionRow | SessionComparison:
        session_id = await find_session_id(database, session)
        if request.message is None:
            names = await driver.list_names()
            return await create_branch(database, settings, session_id, request, driver_tools=names)
        async with driver.open_agent(database, settings) as agent:
            return await run_branch(agent.harness, session_id, request)

    created = run_configured(create)
    if isinstance(created, SessionComparison):
        emit(created, print_compared)
    else:
        emit(created, _print_child, encode=describe_branch)


def print_compared(compared: SessionComparison, send_hint: str = "consolidator session branch --commit") -> None:
    """Print how a branch compares with its session, and how to go on."""
    branch = compared.branch
    kind, status = branch_kind(branch), branch_status(branch)
    print_line(f"branch {branch.id}, a {kind} of {compared.left.id} after event {branch.base_seq}: {status}", "bold")
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


_WIDTH = 160  # characters shown of an answer, of arguments and of a result
_STYLES = {"added": "green", "removed": "red", "changed": "yellow", "same": "dim"}
_SIGNS = {"added": "+", "removed": "-", "changed": "~", "same": " "}


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunOptions(RequestOptions):
    """What a rerun does differently."""

    model: Model = None
    system: Annotated[
        str | None, typer.Option(parser=read_text, metavar="FILE", help="Another system prompt, from a file.")
    ] = None
    add_prompt: AddPrompt = None
    max_cost: MaxCost = None


def rerun_command(
    source: Annotated[str, typer.Argument(metavar="BUNDLE|SESSION", help="The file of a bundle, or a session.")],
    *,
    from_seq: Annotated[
        int | None,
        typer.Option(
            "--from", help="Begin with the person's message at this seq, or the next one; by default its own first."
        ),
    ] = None,
    options: RerunOptions,
    driver: ToolOptions,
    live_tools: Annotated[
        bool, typer.Option("--live-tools", help="Run tools without side effects where the recording has no answer.")
    ] = False,
) -> None:
    """Run a recorded session again from a message on, with another model, prompt or tools, and show what differs.

    Tools are not run: calls that the recording has are answered from it. Nothing is learned from the rerun.
    """
    overrides = options.to_overrides()

    async def rerun(database: Database, settings: Settings) -> Rerun:
        async with driver.open() as tools:
            return await rerun_session(
                database, settings, source, from_seq=from_seq, overrides=overrides,
                tools=tools if driver.tools else None, live_tools=live_tools,
            )  # fmt: skip

    emit(run_configured(rerun), _print_rerun)


def _print_rerun(rerun: Rerun) -> None:
    print_line(f"session {rerun.session_id} repeats {rerun.recorded_id} from event {rerun.from_seq}", style="bold")
    print_line(
        f"{pluralize(rerun.answered, 'call')} answered from the recording, {rerun.unanswered} that it does not have"
    )
    if rerun.finish_reason != "stop":
        print_line(f"it ended before the last message: {rerun.finish_reason}", style="yellow")
    print_comparison(rerun.comparison, ("recorded", "rerun"))


def diff_command(
    left: Annotated[str, typer.Argument(metavar="BUNDLE|SESSION|BRANCH", help="The file of a bundle, or a session.")],
    right: Annotated[
        str | None,
        typer.Argument(metavar="BUNDLE|SESSION", help="What to compare with; for a branch by default its session."),
    ] = None,
) -> None:
    """Compare two sessions, or bundles, turn by turn: answers, calls with their arguments and results, tokens, cost.

    A branch is compared with its session, from the branch's point on.
    """
    if right is not None:
        comparison = run(compare_sessions, left, right)
        names = (left, right)
        emit(comparison, lambda both: print_comparison(both, names))
        return
    compared = run(compare_branch, left)
    emit(compared, print_compared)


def print_comparison(comparison: Comparison, names: tuple[str, str]) -> None:
    """Print how two runs differ."""
    for turn in comparison.differences():
        _print_turn(turn)
    if comparison.is_empty:
        print_line(f"no difference in {pluralize(len(comparison.turns), 'turn')}", style="green")
    else:
        count = sum(1 for _ in comparison.differences())
        print_line(f"{count} of {pluralize(len(comparison.turns), 'turn')} differ", style="bold")
    rows = [_row(names[0], comparison.left), _row(names[1], comparison.right)]
    columns = ("", "answers", "calls", "input", "cached", "output", "cost")
    print_table("figures", columns, rows, right=columns[1:])


def _row(name: str, figures: Figures) -> Sequence[str]:
    cost = "unknown" if figures.cost is None else format_usd(figures.cost)
    counts = (figures.answers, figures.calls, figures.input_tokens, figures.cached_tokens, figures.output_tokens)
    return (name, *map(str, counts), cost)


def _print_turn(turn: TurnDifference) -> None:
    turn_shown = turn.left or turn.right
    message = shorten(turn_shown.message if turn_shown else "", _WIDTH)
    print_line(f"{_SIGNS[turn.status]} > {message}", style="bold")
    for call in turn.calls:
        _print_call(call)
    if turn.answers_differ:
        for sign, style, side in (("-", "red", turn.left), ("+", "green", turn.right)):
            for answer in side.answers if side else ():
                print_line(f"  {sign} {shorten(answer, _WIDTH)}", style=style)


def _print_call(call: CallDifference) -> None:
    either = call.left or call.right
    if either is None:
        return
    style = _STYLES[call.status]
    if call.status != "changed" or call.left is None or call.right is None:
        print_line(f"  {_SIGNS[call.status]} {either.tool} {shorten(either.arguments, _WIDTH)}", style=style)
        return
    for sign, side_style, side in (("-", "red", call.left), ("+", "green", call.right)):
        is_same_call = call.left.compared[:2] == call.right.compared[:2]
        result = f" = {side.status or 'no result'}: {shorten(side.result, _WIDTH)}" if is_same_call else ""
        print_line(f"  {sign} {side.tool} {shorten(side.arguments, _WIDTH)}{result}", style=side_style)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnOptions(RequestOptions):
    """What a sub-agent knows and may use."""

    context: Annotated[
        str | None,
        typer.Option(parser=read_text, metavar="FILE", help="A text that the sub-agent needs; - is standard input."),
    ] = None
    model: Model = None
    max_cost: MaxCost = None
    tool: ToolNames = None


def spawn_command(
    session: SessionName,
    task: Annotated[str, typer.Argument(help="What the sub-agent has to do, and what to answer with.")],
    *,
    options: SpawnOptions,
    call: Annotated[
        str | None, typer.Option(help="A name for this call: repeating it starts no second sub-agent.")
    ] = None,
    driver: ToolOptions,
) -> None:
    """Give a task to a sub-agent of a session, and print its answer. It sees nothing else of the session."""
    request = SpawnRequest(task=task, **options.values())

    async def spawn_in(database: Database, settings: Settings) -> SpawnResult:
        session_id = await find_session_id(database, session)
        async with driver.open_agent(database, settings) as agent:
            return await spawn_sub_agent(agent.harness, session_id, call or f"spawn_{ULID()}", request)

    def show(result: SpawnResult) -> None:
        print_line(result.text or str(result.reason))
        print_line(f"{result.status}: session {result.session_id}, {result.cost:f} USD", "dim")

    emit(run_configured(spawn_in), show)
