"""What every command loads at start: nothing that takes long and that only some commands need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from consolidator.errors import UsageError
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
    "words", [["--help"], ["--version"], ["fact"], ["session", "lst"], ["branch", "lst"]], ids=" ".join
)
def test_help_and_a_mistyped_command_load_neither_the_database_nor_what_draws_tables(words: list[str]) -> None:
    assert loaded_packages("from consolidator.cli import main; main()", *words).isdisjoint(
        (*SLOW, "psycopg", "sqlalchemy", "pydantic", "rich", "asyncio")
    )


def test_the_command_line_loads_no_client_of_a_model_and_no_migrations() -> None:
    from consolidator.cli.commands import list_targets

    modules = ", ".join(sorted({f"consolidator.cli.{entry.target.split(':')[0]}" for entry in list_targets().values()}))
    assert loaded_packages(f"import {modules}").isdisjoint(SLOW)


def test_every_command_is_where_the_list_of_commands_says_and_has_a_line_that_fits() -> None:
    from consolidator.cli.commands import ALIASES, COMMANDS, OPTION_ALIASES, SYNONYMS, list_targets
    from consolidator.cli.lazy_group import load_command

    targets = list_targets()
    for words, entry in targets.items():
        assert load_command(words[-1], entry).name == words[-1], words
    assert all(0 < len(entry.summary) <= 60 for entry in (*COMMANDS.values(), *targets.values()))
    named = {*SYNONYMS.values(), *ALIASES.values(), *OPTION_ALIASES} - {""}
    for name in {name for name in named if not name.startswith("-")}:
        noun, word = [*name.split(), ""][:2]
        assert noun in COMMANDS, name
        assert not word or word.startswith("--") or word in COMMANDS[noun].commands, name
    assert not set(SYNONYMS) & set(COMMANDS)


def test_no_alias_hides_a_command() -> None:
    from consolidator.cli.commands import ALIASES, list_targets

    assert not set(ALIASES) & {" ".join(words) for words in list_targets()}


def test_a_former_name_is_the_command_that_it_became() -> None:
    from consolidator.cli.lazy_group import expand_aliases

    former = {
        "sessions --limit 3": "session list --limit 3",
        "branch commit b1 --json": "session branch --commit b1 --json",
        "procedures export --format skill skills --all": "procedures --export skills --all",
        "facts correct f1 Short.": "facts --correct f1 Short.",
        "rules accept r1 --write AGENTS.md": "rules --accept r1 --write AGENTS.md",
        "task finish s1 success": "session task --finish s1 success",
        "session create --ttl 7d": "session create --session-ttl 7d",
        "spawn s1 do --only=look": "session spawn s1 do --tool look",
        "chat --builtin tasks --mcp=serve": "chat --tools tasks --tools mcp:serve",
        "facts search --only": "facts search --only",
        "": "",
    }
    assert {words: " ".join(expand_aliases(words.split())) for words in former} == former


def test_json_may_stand_anywhere_before_words_that_are_data_and_no_dialogue_takes_it() -> None:
    from consolidator.cli.lazy_group import take_json
    from consolidator.cli.streams import is_json

    assert take_json(["--json", "call", "deny", "c1"]) == ["call", "deny", "c1"]
    assert is_json()
    assert take_json(["remember", "--", "--json"]) == ["remember", "--", "--json"]
    assert not is_json()
    with pytest.raises(UsageError, match="chat"):
        take_json(["chat", "--json"])


def test_a_file_of_tools_needs_no_database() -> None:
    assert loaded_packages("from consolidator import CallContext, tool").isdisjoint((*SLOW, "sqlalchemy", "psycopg"))


def test_every_public_name_is_where_it_is_said_to_be() -> None:
    import consolidator

    assert set(consolidator._MODULE_OF) == set(consolidator.__all__)
    assert all(getattr(consolidator, name) is not None for name in consolidator.__all__)
