"""consolidator demo: four weeks of three agents pass in seconds; prints what was learned in each week."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
from contextlib import AsyncExitStack
from typing import Annotated, Any

import typer

from consolidator.cli.common import read_settings, run_async
from consolidator.cli.output import OUT, print_json, print_line, progress_bar, shorten
from consolidator.cli.streams import is_json
from consolidator.clock import Clock
from consolidator.demo import (
    LEDGER_COLUMNS,
    NIGHTS,
    RETENTION_DAYS,
    WEEKS,
    demo_home,
    list_session_names,
    open_story,
)
from consolidator.errors import UsageError
from consolidator.models.audience import pluralize
from consolidator.settings import Settings

_MAX_WIDTH = 120  # columns, also on a wider terminal
_ERROR = "fatal: The current branch feat/loyalty-points has no upstream branch."  # of another branch: it is known


def demo_command(
    keep: Annotated[bool, typer.Option(help="Keep the demo's database, to look around in.")] = True,
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
    figures = run_async(_play(settings, keep=keep, quiet=is_json()))
    if is_json():
        print_json(figures)


async def _play(settings: Settings, *, keep: bool, quiet: bool) -> dict[str, Any]:
    """Play the story and print it; return its figures."""
    weeks = []
    async with AsyncExitStack() as stack:
        with progress_bar("a database of its own"):
            story = await stack.enter_async_context(open_story(settings, Clock(settings.clock).now(), keep=keep))
        if not quiet:
            print_line(
                "Three agents work for Fernleaf, a shop: one codes, one answers customers, one runs the servers.",
                "bold",
            )
            print_line(
                f"Each night their logs are imported and learned from, and what is older than {RETENTION_DAYS} days is "
                "pruned."
            )
        for number in range(1, WEEKS + 1):
            with progress_bar(f"week {number}", total=NIGHTS) as bar:
                week = await story.play_week(number, lambda bar=bar: bar.advance(bar.task_ids[0]))  # type: ignore[misc]
            weeks.append(week)
            if not quiet:
                _print_week(week)
        figures = {"weeks": weeks, "fact": await story.find_old_fact(), "session": list_session_names()[-1]}
    if keep and not quiet:
        _print_next_commands(settings, figures)
    return figures


def _print_labelled(label: str, text: str, style: str | None = None) -> None:
    """Print a text on one line beside its label, shortened to the width of the terminal."""
    width = min(OUT.width, _MAX_WIDTH) if OUT.is_terminal else _MAX_WIDTH
    print_line(f"  {label:<12} {shorten(text, width - 15)}", style)


def _print_week(week: dict[str, Any]) -> None:
    dates = f"{week['first']:%d %b} to {week['last']:%d %b}"
    counts = f"{pluralize(week['imported'], 'event')} in {pluralize(week['sessions'], 'session')}"
    print_line(f"\nWeek {week['number']}, {dates}: {counts}", "bold cyan")
    for kind, lines in week["learned"].items():
        for line in lines:
            _print_labelled(kind.replace("_", " "), line)
    if week["pruned"]:
        _print_labelled("pruned", f"{pluralize(week['pruned'], 'event')}; what they taught stays", "dim")
    seen, learned, nothing, deferred, dead = (week["ledger"][name] for name in LEDGER_COLUMNS)
    _print_labelled(
        "ledger",
        f"{seen} seen = {learned} learned from + {nothing} nothing to learn + {deferred} deferred + {dead} dead",
        "dim",
    )


def _print_next_commands(settings: Settings, figures: dict[str, Any]) -> None:
    program = "consolidator" if shutil.which("consolidator") else shlex.quote(sys.argv[0])
    home = f"CONSOLIDATOR_HOME={shlex.quote(str(demo_home(settings)))}"
    error_command = f"solutions --error {shlex.quote(_ERROR)}"
    print_line("\nWhat to type next", "bold cyan")
    if settings.database_url is None:
        print_line(f"  export {home}")
    for words in (
        "facts --all",
        "procedures",
        error_command,
        f"explain {figures['fact']}",
        f"session show {figures['session']} --part next",
        "runs",
    ):
        print_line(f"  {program} {words}")
    if settings.database_url is None:
        real = os.environ.get("CONSOLIDATOR_HOME")
        print_line("and for what your own agents did:")
        print_line(
            f"  {'unset CONSOLIDATOR_HOME' if real is None else f'export CONSOLIDATOR_HOME={shlex.quote(real)}'}"
        )
        print_line(f"  {program} import && {program} run consolidation && {program} procedures")
    page = f"{program} ui" if settings.database_url else f"{home} {program} ui"
    print_line(f"\nTo look at it in a browser: {page}", "bold cyan")
