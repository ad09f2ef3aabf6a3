"""The entry point of the command line: registers the commands, turns errors into one line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.logging import RichHandler

from consolidator.cli.agents import (
    agent_defaults,
    approvals,
    chat,
    checkpoint,
    context,
    cost,
    fork,
    replay,
    rerun,
    scratchpad,
    session,
    spawn,
    state,
    tasks,
    wake,
)
from consolidator.cli.log import backup, database, erase, events, export, sessions, tokens
from consolidator.cli.memory import (
    explain,
    facts,
    mcp,
    procedures,
    recall,
    revisions,
    solutions,
    suggestions,
    summary,
)
from consolidator.cli.nights import backfill, runs, serve
from consolidator.cli.output import ERR, OutputClosed, flush_output, print_line
from consolidator.cli.start import demo, import_logs, learned, tokenizer
from consolidator.errors import ConsolidatorError, DiskFull, Interrupted, UsageError, as_disk_full

_LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

app = typer.Typer(
    name="consolidator",
    help="What did your agents learn today? Session logs become memory, every night, each fact with its evidence.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Settings are CONSOLIDATOR_* variables (docs/settings.md). Exit codes: 0 done, 1 a bug, 2 usage, 3 not "
    "found, 4 database, 5 append refused, 6 import refused, 7 a run left dead letters, 8 a model failed, "
    "130 interrupted.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"consolidator {version('consolidator')}")
        raise typer.Exit


@app.callback(help=app.info.help)
def _options(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    pass


_PANELS = {
    "Start here": ("demo", "import", "learned", "tokenizer"),
    "Memory": ("recall", "facts", "procedures", "solutions", "explain", "next", "summary", "revisions", "mcp"),
    "Nights": ("serve", "run", "runs", "retry", "backfill"),
    "Log": ("sessions", "events", "export", "backup", "restore", "erase", "token", "db"),
    "Agents": (
        "chat",
        "agent",
        "session",
        "fork",
        "spawn",
        "checkpoint",
        "wake",
        "approve",
        "deny",
        "resolve",
        "task",
        "scratchpad",
        "state",
        "context",
        "compact",
        "replay",
        "rerun",
        "diff",
        "cost",
    ),
}
for module in (
    agent_defaults, approvals, backfill, backup, chat, checkpoint, context, cost, database, demo, erase, events,
    explain, export, facts, fork, import_logs, learned, mcp, procedures, recall, replay, rerun, revisions, runs,
    scratchpad, serve, session, sessions, solutions, spawn, state, suggestions, summary, tasks, tokenizer, tokens, wake,
):  # fmt: skip
    module.register(app)
_PANEL_OF = {name: title for title, names in _PANELS.items() for name in names}
app.registered_commands.sort(key=lambda info: list(_PANEL_OF).index(str(info.name)))
for command in app.registered_commands:
    command.rich_help_panel = _PANEL_OF[str(command.name)]
for group in app.registered_groups:
    group.rich_help_panel = _PANEL_OF[str(group.name)]


def main() -> None:
    """Run the command line and exit."""
    level = os.environ.get("CONSOLIDATOR_LOG_LEVEL", "INFO").upper()
    level = level if level in logging.getLevelNamesMapping() else "INFO"
    handler = RichHandler(console=ERR, show_path=False) if ERR.is_terminal else logging.StreamHandler()
    logging.basicConfig(level=level, handlers=[handler], format="%(message)s" if ERR.is_terminal else _LOG_FORMAT)
    for noisy in ("alembic", "apscheduler", "uvicorn", "asyncio", "httpx", "httpx2", "mcp"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))
    try:
        _require_utf8(sys.argv[1:])
        app()  # typer reports wrong arguments itself, with exit code 2
    except Interrupted as error:
        ERR.print(f"interrupted: {error}", style="yellow", markup=False)
        sys.exit(error.exit_code)
    except OutputClosed:
        sys.exit(0)
    except Exception as error:
        full = as_disk_full(error)
        told = error if isinstance(error, ConsolidatorError) else full
        if told is None:
            raise
        _print_error(told)
        sys.exit((full or told).exit_code)
    finally:
        if (failure := flush_output()) is not None:
            full = as_disk_full(failure) or DiskFull(f"cannot write to standard output: {failure.strerror}")
            _print_error(full)
            sys.exit(full.exit_code)


def _print_error(error: ConsolidatorError) -> None:
    ERR.print(f"error: {error}", style="red", markup=False, highlight=False)


def _require_utf8(arguments: list[str]) -> None:
    """Raise UsageError for arguments that are not UTF-8, which no database can store; the name of a file may be."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            if not os.path.exists(argument):
                raise UsageError(f"{ascii(os.fsencode(argument))[2:-1]} is not UTF-8 text") from None
