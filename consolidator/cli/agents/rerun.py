"""consolidator session rerun and diff: a recorded session again with something else, and two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.agents.session_options import AddPrompt, MaxCost, Model, Strategy
from consolidator.cli.agents.tool_file import ToolOptions
from consolidator.cli.common import parse_path, run
from consolidator.cli.output import emit, format_usd, pluralize, print_line, print_table, shorten
from consolidator.errors import NotFound
from consolidator.runtime.rerun.comparison import CallDifference, Comparison, Figures, TurnDifference
from consolidator.runtime.session.agent_defaults import Overrides, parse_amount
from consolidator.service.database import Database
from consolidator.service.sessions.reruns import Rerun, compare_sessions, rerun_session
from consolidator.settings import Settings

_WIDTH = 160  # characters shown of an answer, of arguments and of a result
_STYLES = {"added": "green", "removed": "red", "changed": "yellow", "same": "dim"}
_SIGNS = {"added": "+", "removed": "-", "changed": "~", "same": " "}


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunOptions:
    """What a rerun does differently."""

    model: Model = None
    system: Annotated[
        Path | None, typer.Option(parser=parse_path, metavar="FILE", help="Another system prompt, from a file.")
    ] = None
    add_prompt: AddPrompt = None
    strategy: Strategy = None
    max_cost: MaxCost = None

    def to_overrides(self) -> Overrides:
        """Return the differences. Raises UsageError for what no session could run with, and NotFound for no file."""
        return Overrides(
            model=self.model,
            system=None if self.system is None else _read_prompt(self.system),
            prompt_patch=None if self.add_prompt is None else {"append": self.add_prompt},
            strategy=self.strategy,
            max_cost=None if self.max_cost is None else parse_amount(self.max_cost),
        )


def rerun_command(
    source: Annotated[str, typer.Argument(metavar="BUNDLE|SESSION", help="The file of a bundle, or a session.")],
    *,
    from_seq: Annotated[
        int | None, typer.Option("--from", help="The person's message (seq) to begin with; by default its own first.")
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

    emit(run(rerun), _print_rerun)


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
        comparison = run(lambda database, _: compare_sessions(database, left, right))
        names = (left, right)
        emit(comparison, lambda both: print_comparison(both, names))
        return
    from consolidator.cli.agents.branch import print_compared
    from consolidator.service.sessions.branches import compare_branch

    compared = run(lambda database, _: compare_branch(database, left))
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
    known = turn.left or turn.right
    message = shorten(known.message if known else "", _WIDTH)
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


def _read_prompt(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotFound(f"{path} cannot be read as a prompt: {error}") from error
