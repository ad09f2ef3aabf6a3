"""The entry point of the command line: registers the commands, turns errors into one line and an exit code."""

from __future__ import annotations

import logging
import os
import sys

import typer
from rich.logging import RichHandler

from consolidator.cli.agents import approvals, chat, context, cost, replay, wake
from consolidator.cli.log import backup, database, erase, events, export, sessions
from consolidator.cli.memory import explain, facts, mcp, procedures, recall, revisions, solutions, suggestions, summary
from consolidator.cli.nights import backfill, runs, serve
from consolidator.cli.output import ERR, OutputClosed, flush_output
from consolidator.cli.start import demo, import_logs, learned
from consolidator.errors import ConsolidatorError, Interrupted, UsageError

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
_PANELS = {
    "Start here": ("demo", "import", "learned"),
    "Memory": ("recall", "facts", "procedures", "solutions", "explain", "next", "summary", "revisions", "mcp"),
    "Nights": ("serve", "run", "runs", "retry", "backfill"),
    "Log": ("sessions", "events", "export", "backup", "restore", "erase", "db"),
    "Agents": ("chat", "wake", "approve", "deny", "resolve", "context", "compact", "replay", "cost"),
}
for module in (
    approvals, backfill, backup, chat, context, cost, database, demo, erase, events, explain, export, facts,
    import_logs, learned, mcp, procedures, recall, replay, revisions, runs, serve, sessions, solutions, suggestions,
    summary, wake,
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
    except ConsolidatorError as error:
        ERR.print(f"error: {error}", style="red", markup=False, highlight=False)
        sys.exit(error.exit_code)
    except OutputClosed:
        sys.exit(0)
    finally:
        flush_output()


def _require_utf8(arguments: list[str]) -> None:
    """Raise UsageError for arguments that are not UTF-8, which no database can store; the name of a file may be."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            if not os.path.exists(argument):
                raise UsageError(f"{ascii(os.fsencode(argument))[2:-1]} is not UTF-8 text") from None
