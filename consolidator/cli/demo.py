"""consolidator demo: four weeks of three agents pass in seconds, and the screen tells what each week taught."""

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

from consolidator.cli.common import run
from consolidator.cli.output import OUT, AsJson, emit, progress, say, short
from consolidator.clock import Clock
from consolidator.demo.story import ERROR, LEDGER, NIGHTS, RETENTION_DAYS, WEEKS, Story, Week, home_of, staged
from consolidator.errors import UsageError
from consolidator.settings import Settings, load_settings

_WIDEST = 120  # columns, where the terminal is wider still
_FACTS, _PROCEDURES, _SOLUTIONS = 5, 3, 3  # lines of each in a week


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo_command)


def demo_command(
    keep: Annotated[bool, typer.Option(help="Leave the demo's database there, to look around in.")] = True,
    as_json: AsJson = False,
) -> None:
    """Watch four weeks of three agents become memory, in seconds. Nothing of yours is read or touched.

    The sessions are samples, the rest is real: every night imports, consolidates and prunes, under a clock that moves.
    The demo has a database of its own, in the folder demo of CONSOLIDATOR_HOME, and starts over each time.
    """
    settings = load_settings()
    if settings.database_url is not None and not keep:
        raise UsageError("--no-keep is for the demo's own server, not for the one of CONSOLIDATOR_DATABASE_URL")
    if "CONSOLIDATOR_LOG_LEVEL" not in os.environ:
        logging.getLogger("consolidator.jobs").setLevel(logging.WARNING)  # 84 jobs that end well are no news here
    figures = run(_play(settings, keep=keep, quiet=as_json))
    if as_json:
        emit(figures)


async def _play(settings: Settings, *, keep: bool, quiet: bool) -> dict[str, Any]:
    """Play the story and tell it; return its figures."""
    began = time.monotonic()
    weeks = []
    async with AsyncExitStack() as stack:
        with progress("a database of its own"):
            story = await stack.enter_async_context(staged(settings, Clock(settings.clock).now(), keep=keep))
        if not quiet:
            _show_begin()
        for number in range(1, WEEKS + 1):
            week = await _pass(story, number)
            weeks.append(week)
            if not quiet:
                _show_week(week)
        figures = await _figures(story, weeks)
    figures["seconds"] = round(time.monotonic() - began, 1)
    if not quiet:
        _show_end(figures)
        if keep:
            _show_next(settings, figures)
        say(f"\n{WEEKS * NIGHTS} nights in {figures['seconds']:.0f} s.", "dim")
    return figures


async def _pass(story: Story, number: int) -> Week:
    """Let a week pass, and show how its nights go by."""
    with progress(f"week {number}", total=NIGHTS) as bar:
        return await story.week(number, lambda: bar.advance(bar.task_ids[0]))


async def _figures(story: Story, weeks: list[Week]) -> dict[str, Any]:
    """Return the story for programs: what each week did, what is known now, and the proofs."""
    leaks, command = await story.secret()
    fact, fixed = await story.pruned_fact(), await story.solved()
    return {
        "weeks": [_of_week(week) for week in weeks],
        "memory": await story.memory(),
        "imported": sum(week.total("imported") for week in weeks),
        "pruned": sum(week.total("pruned") for week in weeks),
        "pruned_fact": fact,
        "error": ERROR,
        "solved": None if fixed is None else asdict(fixed),
        "session": story.last_session,
        "next": await story.following(),
        "secret_in_memory": leaks,
        "secret_hidden_as": command,
        "imported_again": await story.again(),
    }


def _of_week(week: Week) -> dict[str, Any]:
    nights = [{**asdict(night), "balanced": night.balanced} for night in week.nights]
    return {**asdict(week), "nights": nights}


def _line(label: str, text: str, style: str | None = None) -> None:
    """Print a text on one line beside its label, cut to the room there is."""
    width = min(OUT.width, _WIDEST) if OUT.is_terminal else _WIDEST
    say(f"  {label:<11} {short(text, width - 14)}", style)


def _some(label: str, found: Sequence[str], most: int) -> None:
    """Print the first of some things, and how many more there are."""
    for one in found[:most]:
        _line(label, one)
    _more(len(found) - most)


def _more(count: int) -> None:
    if count > 0:
        _line("", f"and {count} more", "dim")


def _show_begin() -> None:
    say("Three agents work for Fernleaf, a shop: one codes, one answers customers, one runs the servers.", "bold")
    say("Every night at 02:45 their logs are imported, at 03:00 they are learned from, and at 03:30 what is older")
    say(f"than {RETENTION_DAYS} days is pruned. Four weeks pass now.")


def _show_week(week: Week) -> None:
    dates = f"{week.first:%d %b} to {week.last:%d %b}"
    told = f"{week.total('imported')} events in {week.total('sessions')} sessions"
    say(f"\nWeek {week.number}, {dates}: {told}", "bold cyan")
    _some("fact", week.facts, _FACTS)
    for before, after in week.superseded:
        _line("superseded", f"{before} → {after}", "yellow")
    _some("procedure", week.procedures, _PROCEDURES)
    for fixed in week.solutions[:_SOLUTIONS]:
        _line("error", f"{fixed.failed}: {fixed.error}")
        _line("  solution", f"{fixed.fix} (worked in {fixed.sessions} sessions)", "green")
    _more(len(week.solutions) - _SOLUTIONS)
    if week.total("pruned"):
        _line(
            "pruned", f"{week.total('pruned')} events older than {RETENTION_DAYS} days; what they taught stays", "dim"
        )
    seen, learned, nothing, deferred, dead = (week.total(name) for name in LEDGER)
    sums = f"{seen} seen = {learned} learned from + {nothing} nothing to learn + {deferred} deferred + {dead} dead"
    _line("ledger", sums if all(night.balanced for night in week.nights) else f"OUT OF BALANCE: {sums}", "dim")


def _show_end(figures: dict[str, Any]) -> None:
    known = figures["memory"]
    say(
        f"\nAfter four weeks: {known['facts']} facts, {known['superseded']} superseded, "
        f"{known['procedures']} procedures, {known['confirmed']} confirmed solutions",
        "bold cyan",
    )
    if (fact := figures["pruned_fact"]) is not None:
        proof = fact["evidence"][0]
        say(f"{figures['pruned']} of {figures['imported']} events are gone, but not the words that a fact rests on.")
        _line("fact", fact["title"])
        when = f"{proof['when']:%d %b}, event {proof['seq']}, {proof['log']}"
        _line("  evidence", f"“{proof['quote']}” ({when})", "green")
    if (fixed := figures["solved"]) is not None:
        say("A new branch meets an old error.")
        _line("error", figures["error"])
        _line("  solution", f"{fixed['fix']} (worked in {fixed['sessions']} sessions)", "green")
    if (following := figures["next"]) is not None:
        arguments = ", ".join(f"{name}={value}" for name, value in following["arguments"].items())
        say(f"A customer waits in {figures['session']}. The call that usually follows, with its arguments filled in:")
        _line("next", f"{following['tool']}({arguments}), {following['likelihood']:.0%} likely", "green")
    if figures["secret_hidden_as"] is not None:
        say(f"A token that Mara typed stands {figures['secret_in_memory']} times in memory, which has her command as:")
        _line("redacted", figures["secret_hidden_as"], "green")
    say(
        f"Importing all the logs once more adds {figures['imported_again']} events: what was pruned does not come back."
    )


def _show_next(settings: Settings, figures: dict[str, Any]) -> None:
    program = "consolidator" if shutil.which("consolidator") else shlex.quote(sys.argv[0])
    say("\nWhat to type next", "bold cyan")
    if settings.database_url is None:
        say(f"  export CONSOLIDATOR_HOME={shlex.quote(str(home_of(settings)))}")
    for words in ("facts --all", "procedures", f"solutions --error {shlex.quote(figures['error'])}", *_asked(figures)):
        say(f"  {program} {words}")
    if settings.database_url is None:
        real = os.environ.get("CONSOLIDATOR_HOME")
        back = "unset CONSOLIDATOR_HOME" if real is None else f"export CONSOLIDATOR_HOME={shlex.quote(real)}"
        say("and for what your own agents did:")
        say(f"  {back}")
        say(f"  {program} import && {program} run consolidation && {program} procedures")


def _asked(figures: dict[str, Any]) -> list[str]:
    explained = figures["pruned_fact"]
    return [*([f"explain {explained['id']}"] if explained else []), f"next {figures['session']}", "runs"]
