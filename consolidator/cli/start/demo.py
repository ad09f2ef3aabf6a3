"""consolidator demo: four weeks of three agents pass in seconds; prints what was learned in each week."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Annotated, Any

import typer

from consolidator.cli.common import read_settings, run_async
from consolidator.cli.output import OUT, AsJson, print_json, print_line, progress_bar, shorten
from consolidator.clock import Clock
from consolidator.demo.story import (
    ERROR,
    LEDGER_COLUMNS,
    NIGHTS,
    RETENTION_DAYS,
    WEEKS,
    DemoWeek,
    Story,
    demo_home,
    open_story,
)
from consolidator.errors import UsageError
from consolidator.settings import Settings

_MAX_WIDTH = 120  # columns, also on a wider terminal
_FACTS, _PROCEDURES, _SOLUTIONS = 5, 3, 3  # lines of each in a week


def demo_command(
    keep: Annotated[bool, typer.Option(help="Keep the demo's database, to look around in.")] = True,
    as_json: AsJson = False,
) -> None:
    """Watch four weeks of three agents become memory, in seconds. Nothing of yours is read or touched.

    The sessions are samples, the rest is real: every night imports, consolidates and prunes, under a simulated clock.
    The demo has a database of its own, in the folder demo of CONSOLIDATOR_HOME, and starts over each time.
    """
    settings = read_settings()
    if settings.database_url is not None and not keep:
        raise UsageError("--no-keep is for the demo's own server, not for the one of CONSOLIDATOR_DATABASE_URL")
    if "log_level" not in settings.model_fields_set:
        logging.getLogger("consolidator.jobs").setLevel(logging.WARNING)  # 84 successful jobs need no log lines
    figures = run_async(_play(settings, keep=keep, quiet=as_json))
    if as_json:
        print_json(figures)


async def _play(settings: Settings, *, keep: bool, quiet: bool) -> dict[str, Any]:
    """Play the story and print it; return its figures."""
    began = time.monotonic()
    weeks = []
    async with AsyncExitStack() as stack:
        with progress_bar("a database of its own"):
            story = await stack.enter_async_context(open_story(settings, Clock(settings.clock).now(), keep=keep))
        if not quiet:
            _print_intro()
        for number in range(1, WEEKS + 1):
            week = await _play_week(story, number)
            weeks.append(week)
            if not quiet:
                _print_week(week)
        figures = await _collect_figures(story, weeks)
    figures["seconds"] = round(time.monotonic() - began, 1)
    if not quiet:
        _print_end(figures)
        if keep:
            _print_next_commands(settings, figures)
        print_line(f"\n{WEEKS * NIGHTS} nights in {figures['seconds']:.0f} s.", "dim")
        if keep:
            print_line(f"To look at it in a browser: {_page_command(settings)}", "bold cyan")
    return figures


async def _play_week(story: Story, number: int) -> DemoWeek:
    """Play a week with a progress bar over its nights."""
    with progress_bar(f"week {number}", total=NIGHTS) as bar:
        return await story.play_week(number, lambda: bar.advance(bar.task_ids[0]))


async def _collect_figures(story: Story, weeks: list[DemoWeek]) -> dict[str, Any]:
    """Return the story as JSON: what each week did, what is known now, and the proofs."""
    leaks, command = await story.find_secret()
    fact, fixed = await story.find_pruned_fact(), await story.find_solved_error()
    return {
        "weeks": [_week_json(week) for week in weeks],
        "memory": await story.count_memory(),
        "imported": sum(week.total("imported") for week in weeks),
        "pruned": sum(week.total("pruned") for week in weeks),
        "pruned_fact": fact,
        "error": ERROR,
        "solved": None if fixed is None else asdict(fixed),
        "session": story.last_session,
        "next": await story.suggest_next_call(),
        "secret_in_memory": leaks,
        "secret_hidden_as": command,
        "imported_again": await story.import_again(),
    }


def _week_json(week: DemoWeek) -> dict[str, Any]:
    nights = [{**asdict(night), "balanced": night.balanced} for night in week.nights]
    return {**asdict(week), "nights": nights}


def _print_labelled(label: str, text: str, style: str | None = None) -> None:
    """Print a text on one line beside its label, shortened to the width of the terminal."""
    width = min(OUT.width, _MAX_WIDTH) if OUT.is_terminal else _MAX_WIDTH
    print_line(f"  {label:<11} {shorten(text, width - 14)}", style)


def _print_some(label: str, lines: Sequence[str], limit: int) -> None:
    """Print the first lines, and how many more there are."""
    for line in lines[:limit]:
        _print_labelled(label, line)
    _print_more(len(lines) - limit)


def _print_more(count: int) -> None:
    if count > 0:
        _print_labelled("", f"and {count} more", "dim")


def _print_intro() -> None:
    print_line(
        "Three agents work for Fernleaf, a shop: one codes, one answers customers, one runs the servers.", "bold"
    )
    print_line(
        "Every night at 02:45 their logs are imported, at 03:00 they are learned from, and at 03:30 what is older"
    )
    print_line(f"than {RETENTION_DAYS} days is pruned. Four weeks pass now.")


def _print_week(week: DemoWeek) -> None:
    dates = f"{week.first:%d %b} to {week.last:%d %b}"
    imported = f"{week.total('imported')} events in {week.total('sessions')} sessions"
    print_line(f"\nWeek {week.number}, {dates}: {imported}", "bold cyan")
    _print_some("fact", week.facts, _FACTS)
    for before, after in week.superseded:
        _print_labelled("superseded", f"{before} → {after}", "yellow")
    _print_some("procedure", week.procedures, _PROCEDURES)
    for fixed in week.solutions[:_SOLUTIONS]:
        _print_labelled("error", f"{fixed.failed}: {fixed.error}")
        rate = f"worked in {fixed.worked} of {fixed.tried}, in {fixed.sessions} sessions"
        _print_labelled("  solution", f"{fixed.fix} ({rate})", "green")
    _print_more(len(week.solutions) - _SOLUTIONS)
    if week.total("pruned"):
        _print_labelled(
            "pruned", f"{week.total('pruned')} events older than {RETENTION_DAYS} days; what they taught stays", "dim"
        )
    seen, learned, nothing, deferred, dead = (week.total(name) for name in LEDGER_COLUMNS)
    sums = f"{seen} seen = {learned} learned from + {nothing} nothing to learn + {deferred} deferred + {dead} dead"
    _print_labelled(
        "ledger", sums if all(night.balanced for night in week.nights) else f"OUT OF BALANCE: {sums}", "dim"
    )


def _print_end(figures: dict[str, Any]) -> None:
    memory_counts = figures["memory"]
    print_line(
        f"\nAfter four weeks: {memory_counts['facts']} facts, {memory_counts['superseded']} superseded, "
        f"{memory_counts['procedures']} procedures, {memory_counts['confirmed']} confirmed solutions",
        "bold cyan",
    )
    if (fact := figures["pruned_fact"]) is not None:
        proof = fact["evidence"][0]
        print_line(
            f"{figures['pruned']} of {figures['imported']} events are gone, but not the words that a fact rests on."
        )
        _print_labelled("fact", fact["title"])
        when = f"{proof['when']:%d %b}, event {proof['seq']}, {proof['log']}"
        _print_labelled("  evidence", f"“{proof['quote']}” ({when})", "green")
    if (fixed := figures["solved"]) is not None:
        print_line("A new branch meets an old error.")
        _print_labelled("error", figures["error"])
        rate = f"worked in {fixed['worked']} of {fixed['tried']}, in {fixed['sessions']} sessions"
        _print_labelled("  solution", f"{fixed['fix']} ({rate})", "green")
    if (following := figures["next"]) is not None:
        arguments = ", ".join(f"{name}={value}" for name, value in following["arguments"].items())
        print_line(
            f"A customer waits in {figures['session']}. The call that usually follows, with its arguments filled in:"
        )
        _print_labelled("next", f"{following['tool']}({arguments}), {following['likelihood']:.0%} likely", "green")
    if figures["secret_hidden_as"] is not None:
        print_line(
            f"A token that Mara typed occurs {figures['secret_in_memory']} times in memory, which keeps her command as:"
        )
        _print_labelled("redacted", figures["secret_hidden_as"], "green")
    print_line(
        f"Importing all the logs once more adds {figures['imported_again']} events: what was pruned does not come back."
    )


def _program() -> str:
    return "consolidator" if shutil.which("consolidator") else shlex.quote(sys.argv[0])


def _page_command(settings: Settings) -> str:
    """Return what opens the page of the demo's memory, wherever it is typed."""
    home = "" if settings.database_url else f"CONSOLIDATOR_HOME={shlex.quote(str(demo_home(settings)))} "
    return f"{home}{_program()} ui"


def _print_next_commands(settings: Settings, figures: dict[str, Any]) -> None:
    program = _program()
    print_line("\nWhat to type next", "bold cyan")
    if settings.database_url is None:
        print_line(f"  export CONSOLIDATOR_HOME={shlex.quote(str(demo_home(settings)))}")
    for words in (
        "facts --all",
        "procedures",
        f"solutions --error {shlex.quote(figures['error'])}",
        *_example_commands(figures),
    ):
        print_line(f"  {program} {words}")
    if settings.database_url is None:
        real = os.environ.get("CONSOLIDATOR_HOME")
        back = "unset CONSOLIDATOR_HOME" if real is None else f"export CONSOLIDATOR_HOME={shlex.quote(real)}"
        print_line("and for what your own agents did:")
        print_line(f"  {back}")
        print_line(f"  {program} import && {program} run consolidation && {program} procedures")


def _example_commands(figures: dict[str, Any]) -> list[str]:
    explained = figures["pruned_fact"]
    return [*([f"explain {explained['id']}"] if explained else []), f"next {figures['session']}", "runs"]
