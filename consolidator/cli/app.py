"""The entry point of the command line: finds the command, turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from consolidator.cli.lazy_group import LazyGroup
from consolidator.cli.streams import OutputClosed, flush_output, write_error, write_text
from consolidator.errors import ConsolidatorError, DiskFull, Interrupted, UsageError, as_disk_full

_YELLOW = 33

app = typer.Typer(
    name="consolidator",
    cls=LazyGroup,
    help="What did your agents learn today? Session logs become memory, every night, each fact with its evidence.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`consolidator COMMAND --help` explains a command; `--json` has it print JSON. Settings are CONSOLIDATOR_* "
    "variables (docs/settings.md).\n\n"
    "Exit codes: 0 done, 1 a bug, 2 usage, 3 not found, 4 database, 5 append refused, 6 import refused, 7 a run left "
    "dead letters, 8 a model failed, 130 interrupted.",
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # it loads what reads mail headers

        write_text(f"consolidator {version('consolidator')}\n")
        raise typer.Exit


@app.callback(help=app.info.help)
def _options(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    from consolidator.cli.output import configure_logging

    configure_logging()  # called once a command was found


def main() -> None:
    """Run the command line and exit."""
    if os.path.expanduser("~") == "~":  # a uid without a name, as in a container, and nothing says its home
        os.environ["HOME"] = "/"
    try:
        if sys.platform == "win32":
            raise UsageError("Windows has no fcntl, pwd and Unix sockets, which this needs: run it in WSL")
        _require_utf8(sys.argv[1:])
        app()  # typer reports wrong arguments itself, with exit code 2
    except Interrupted as error:
        write_error(f"interrupted: {error}", _YELLOW)
        sys.exit(error.exit_code)
    except OutputClosed:
        sys.exit(0)
    except Exception as error:
        full = as_disk_full(error)
        reason = error if isinstance(error, ConsolidatorError) else full
        if reason is None:
            raise
        _print_error(reason)
        sys.exit((full or reason).exit_code)
    finally:
        if (failure := flush_output()) is not None:
            full = as_disk_full(failure) or DiskFull(f"cannot write to standard output: {failure.strerror}")
            _print_error(full)
            sys.exit(full.exit_code)


def _print_error(error: ConsolidatorError) -> None:
    write_error(f"error: {error}")


def _require_utf8(arguments: list[str]) -> None:
    """Raise UsageError for arguments that are not UTF-8, which no database can store; the name of a file may be."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            if not os.path.exists(argument):
                raise UsageError(f"{ascii(os.fsencode(argument))[2:-1]} is not UTF-8 text") from None
