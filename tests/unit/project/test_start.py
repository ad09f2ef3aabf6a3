"""What every command loads at start: nothing that takes long and that only some commands need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import PATIENCE

SLOW = ("openai", "mcp", "alembic", "genai_prices")


def loaded_packages(program: str, *words: str) -> set[str]:
    """Return the top-level packages that a program loads, in a process of its own with these arguments."""
    names = "{name.partition('.')[0] for name in sys.modules}"
    report = f"import atexit, sys\natexit.register(lambda: print(*{names}, file=sys.stderr))\n"
    done = subprocess.run(
        [sys.executable, "-c", report + program, *words], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert "Traceback" not in done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["fact"], ["facts", "lst"], ["branch", "lst"]], ids=" ".join
)
def test_help_and_a_mistyped_command_load_neither_the_database_nor_what_draws_tables(words: list[str]) -> None:
    assert loaded_packages("from consolidator.cli import main; main()", *words).isdisjoint(
        (*SLOW, "psycopg", "sqlalchemy", "pydantic", "rich", "asyncio")
    )


def test_the_command_line_loads_no_client_of_a_model_and_no_migrations() -> None:
    from consolidator.cli.commands import COMMANDS

    modules = ", ".join(sorted({f"consolidator.cli.{entry.module}" for entry in COMMANDS.values()}))
    assert loaded_packages(f"import {modules}").isdisjoint(SLOW)


def test_every_command_is_where_the_list_of_commands_says_and_has_a_line_that_fits() -> None:
    from consolidator.cli.commands import COMMANDS, SYNONYMS
    from consolidator.cli.lazy_group import _load_commands

    for module in {entry.module for entry in COMMANDS.values()}:
        listed = {name for name, entry in COMMANDS.items() if entry.module == module}
        assert set(_load_commands(module)) == listed, module
    assert all(0 < len(entry.summary) <= 60 for entry in COMMANDS.values())
    assert {name for name in SYNONYMS.values() if not name.startswith("-")} <= set(COMMANDS)
    assert not set(SYNONYMS) & set(COMMANDS)


def test_every_group_is_listed_with_its_commands() -> None:
    from consolidator.cli.commands import COMMANDS, SEARCH, SUBCOMMANDS
    from consolidator.cli.lazy_group import _load_commands
    from consolidator.cli.query_group import QueryGroup

    loaded = {module: _load_commands(module) for module in {entry.module for entry in COMMANDS.values()}}
    groups = {name: loaded[entry.module][name] for name, entry in COMMANDS.items()}
    groups = {name: group for name, group in groups.items() if hasattr(group, "commands")}
    searched = {name for name, group in groups.items() if isinstance(group, QueryGroup)}
    assert {name: {*commands} for name, commands in SUBCOMMANDS.items()} == {
        name: {*group.commands, *([SEARCH] if name in searched else [])} for name, group in groups.items()
    }
    # What takes no query takes no other word either that could be taken for a mistyped command.
    assert not [name for name in {*groups} - searched for p in groups[name].params if p.param_type_name == "argument"]


def test_a_file_of_tools_needs_no_database() -> None:
    assert loaded_packages("from consolidator import CallContext, tool").isdisjoint((*SLOW, "sqlalchemy", "psycopg"))


def test_every_public_name_is_where_it_is_said_to_be() -> None:
    import consolidator

    assert set(consolidator._MODULE_OF) == set(consolidator.__all__)
    assert all(getattr(consolidator, name) is not None for name in consolidator.__all__)
