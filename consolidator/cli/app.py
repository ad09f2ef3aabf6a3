"""The command line: finds a command, imports its module when it is used, turns errors into a line and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from inspect import cleandoc
from itertools import groupby
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from consolidator.cli.commands import (
    ALIASES,
    COMMANDS,
    FLAG_ALIASES,
    OPTION_ALIASES,
    SYNONYMS,
    WITHOUT_JSON,
    CommandEntry,
)
from consolidator.cli.streams import OutputClosed, flush_output, is_json, set_json, write_error, write_text
from consolidator.errors import ConsolidatorError, DiskFull, Interrupted, UsageError, as_disk_full


class LazyGroup(TyperGroup):
    """The commands of a table: of `COMMANDS`, or of one of its nouns."""

    entries: Mapping[str, CommandEntry] = COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, panel by panel."""
        return list(self.entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command's module, and return the command; None if there is none of that name."""
        entry = self.entries.get(cmd_name)
        if entry is not None and cmd_name not in self.commands:
            with _collection_paused() if entry.target else nullcontext():  # a noun imports nothing
                self.commands[cmd_name] = load_command(cmd_name, entry)
        return self.commands.get(cmd_name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what stands before the command; raise UsageError with the nearest names if there is no such command."""
        if self.entries is COMMANDS:
            args = expand_aliases(take_json(args))
            if not ctx.resilient_parsing:
                _check_words("consolidator", args, COMMANDS, SYNONYMS)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help as plain text, a line for each command: loading them all would take seconds."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        width = max(map(len, self.entries))
        for panel, names in groupby(self.entries, lambda name: self.entries[name].panel):
            formatter.write_paragraph()
            formatter.write(f"{_bold(panel)}\n")
            formatter.write("".join(f"  {name:{width}}  {self.entries[name].summary}\n" for name in names))
        formatter.write_paragraph()
        formatter.write(f"{_bold('Options')}\n")
        records = [record for option in self.get_params(ctx) if (record := option.get_help_record(ctx))]
        formatter.indent()
        formatter.write_dl(records)
        formatter.dedent()
        self.format_epilog(ctx, formatter)


def load_command(name: str, entry: CommandEntry) -> Any:
    """Return a command: the group of a noun, or the function of its module."""
    if not entry.target:
        noun = LazyGroup(name=name, help=entry.help, no_args_is_help=True, rich_markup_mode=None)
        noun.entries = entry.commands
        return noun
    from consolidator.cli.common import spread

    module, _, attribute = entry.target.partition(":")
    command = getattr(import_module(f"consolidator.cli.{module}"), attribute)
    app = typer.Typer(rich_markup_mode="rich", callback=lambda: None)
    epilog = None if name in WITHOUT_JSON else "`--json` prints JSON for programs, nothing else."
    paragraphs = cleandoc(command.__doc__ or "").split("\n\n")
    text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)  # a terminal breaks lines by itself
    app.command(name, help=text, epilog=epilog)(spread(command))
    return get_group(app).commands[name]


def take_json(args: list[str]) -> list[str]:
    """Take the option --json, which every command has, from the arguments. Raises UsageError where it has no sense."""
    end = args.index("--") if "--" in args else len(args)
    options = [argument for argument in args[:end] if argument != "--json"]
    set_json(len(options) < end)
    if is_json() and options and options[0] in WITHOUT_JSON:
        raise UsageError(f"`consolidator {options[0]}` prints no JSON: it has no option --json")
    return options + args[end:]


def expand_aliases(args: list[str]) -> list[str]:
    """Return the arguments with the names of former releases replaced by those of this one."""
    for count in (2, 1):
        if (command := ALIASES.get(" ".join(args[:count]))) is not None:
            words, more = command.split(), args[count:]
            wants_help = not {"--help", "-h"}.isdisjoint(more)  # of the command, not as the value of its option
            args = [word for word in words if not word.startswith("--")] + ["--help"] if wants_help else words + more
            break
    args = [FLAG_ALIASES.get((" ".join(args[:2]), argument), argument) for argument in args]
    options = OPTION_ALIASES[""] | OPTION_ALIASES.get(" ".join(args[:2]), {})
    expanded, rest = [], iter(args)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in options:
            expanded.append(argument)
            continue
        option, _, beginning = options[name].partition(" ")
        value = value if equals else next(rest, "")
        expanded += [option, beginning + value] if option else []
    return expanded


def _check_words(
    program: str, args: Sequence[str], entries: Mapping[str, CommandEntry], synonyms: Mapping[str, str] | None = None
) -> None:
    """Raise UsageError for a word that names no command of a noun, before anything is imported."""
    word = next((argument for argument in args if not argument.startswith("-")), None)
    if word is None or args[0] in ("--version", "--help", "-h"):
        return
    if word in entries:
        if entries[word].commands:
            _check_words(f"{program} {word}", args[args.index(word) + 1 :], entries[word].commands)
        return
    meanings = {**(synonyms or {}), **{name: name for name in entries}}
    nearest = dict.fromkeys(meanings[match] for match in get_close_matches(word.lower(), meanings, n=3, cutoff=0.7))
    examples = " or ".join(f"`{program} {name}`" for name in nearest)
    advice = f"did you mean {examples}?" if examples else f"`{program} --help` lists them"
    raise UsageError(f"{program} has no command {word!r}; {advice}")


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause cyclic GC during the imports, a sixth of the start-up: what is imported stays."""
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
        _freeze_once()  # nor does a collection look at it later: a tenth of an import
    finally:
        if is_collecting:
            gc.enable()


def _bold(text: str) -> str:
    """Return a heading, bold on a terminal; it is written to standard output, whatever reads it."""
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else text


_YELLOW = 33
_freeze_once = cache(gc.freeze)  # to ask whether it was done walks all that was frozen

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
        app(prog_name="consolidator")  # typer reports wrong arguments itself, with exit code 2
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
        write_error(f"error: {reason}")
        sys.exit((full or reason).exit_code)
    finally:
        if (failure := flush_output()) is not None:
            full = as_disk_full(failure) or DiskFull(f"cannot write to standard output: {failure.strerror}")
            write_error(f"error: {full}")
            sys.exit(full.exit_code)


def _require_utf8(arguments: list[str]) -> None:
    """Raise UsageError for arguments that are not UTF-8, which no database can store; the name of a file may be."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            if not os.path.exists(argument):
                raise UsageError(f"{ascii(os.fsencode(argument))[2:-1]} is not UTF-8 text") from None
