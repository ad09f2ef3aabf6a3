"""What every command loads at start: nothing that takes long and that only some commands need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from consolidator.errors import UsageError
from tests.support import PATIENCE

SLOW = ("openai", "mcp", "alembic", "genai_prices", "sqlalchemy", "sqlmodel")


def loaded_packages(program: str, *words: str, environment: dict[str, str] | None = None) -> set[str]:
    """Return the top-level packages that a program loads, in a process of its own with these arguments."""
    names = "{name.partition('.')[0] for name in sys.modules}"
    report = f"import atexit, sys\natexit.register(lambda: print(*{names}, file=sys.stderr))\n"
    done = subprocess.run(
        [sys.executable, "-c", report + program, *words],
        capture_output=True, text=True, check=False, timeout=PATIENCE, env=environment,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["fact"], ["session", "lst"], ["branch", "lst"]], ids=" ".join
)
def test_help_and_a_mistyped_command_load_neither_the_database_nor_what_draws_tables(words: list[str]) -> None:
    assert loaded_packages("from consolidator.cli import main; main()", *words).isdisjoint(
        (*SLOW, "psycopg", "pydantic", "rich", "asyncio")
    )


def test_the_command_line_loads_no_client_of_a_model_and_no_migrations() -> None:
    from consolidator.cli.commands import list_targets

    modules = ", ".join(sorted({f"consolidator.cli.{entry.target.split(':')[0]}" for entry in list_targets().values()}))
    assert loaded_packages(f"import {modules}").isdisjoint(SLOW)


@pytest.mark.parametrize(
    ("module", "not_needed"),
    [
        ("cli.memory.facts", {"consolidator.jobs.merging.reconciling", "consolidator.jobs.indexing.indexer", "numpy"}),
        (
            "cli.memory.recall",
            {"consolidator.jobs.indexing.embeddings", "openai", "consolidator.service.memory.telling.brief"},
        ),
        ("cli.memory.procedures", {"consolidator.service.memory.compiling", "consolidator.llm.redaction.redact"}),
        ("cli.log.sessions", {"consolidator.service.memory.recall", "consolidator.context.build", "numpy"}),
        ("cli.start.install", {"consolidator.jobs.nightly", "consolidator.formats.registry", "numpy", "uvicorn"}),
        ("cli.memory.lessons", {"consolidator.jobs.consolidation.learning", "consolidator.jobs.merging.reconciling"}),
        ("cli.output; consolidator.cli.output.configure_logging()", {"consolidator.llm.redaction.redact"}),
    ],
)
def test_a_question_loads_nothing_that_only_a_change_or_a_night_needs(module: str, not_needed: set[str]) -> None:
    report = f"import sys, consolidator.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert not_needed.isdisjoint(done.stdout.split())


def test_the_service_the_nights_and_the_agents_load_no_object_mapper() -> None:
    modules = "api.app, hooks.standby, jobs.nightly, jobs.merging.agent_merge, library, runtime.agent, ui.app"
    loaded = loaded_packages(f"import {', '.join(f'consolidator.{name}' for name in modules.split(', '))}")
    assert loaded.isdisjoint({"sqlalchemy", "sqlmodel"})


ASKED = ["facts tabs --history --json", "recall tabs", "procedures", "solutions", "session list", "brief", "runs"]


@pytest.mark.parametrize("words", [*ASKED, "run consolidation"])
def test_what_is_asked_of_the_database_loads_no_object_mapper(words: str, environment: dict[str, str]) -> None:
    loaded = loaded_packages("from consolidator.cli import main; main()", *words.split(), environment=environment)
    assert "psycopg" in loaded
    assert loaded.isdisjoint({"sqlalchemy", "sqlmodel"})


def test_every_command_is_where_the_list_of_commands_says_and_has_a_line_that_fits() -> None:
    from consolidator.cli.app import load_command
    from consolidator.cli.commands import ALIASES, COMMANDS, OPTION_ALIASES, SYNONYMS, list_targets

    targets = list_targets()
    for words, entry in targets.items():
        assert load_command(words[-1], entry).name == words[-1], words
    assert all(0 < len(entry.summary) <= 60 for entry in (*COMMANDS.values(), *targets.values()))
    named = {*SYNONYMS.values(), *ALIASES.values(), *OPTION_ALIASES} - {""}
    for name in {name for name in named if not name.startswith("-")}:
        noun, word = [*name.split(), ""][:2]
        assert noun in COMMANDS, name
        assert not word or word.startswith("--") or not (commands := COMMANDS[noun].commands) or word in commands, name
    assert not set(SYNONYMS) & set(COMMANDS)


def test_no_alias_hides_a_command() -> None:
    from consolidator.cli.commands import ALIASES, list_targets

    assert not set(ALIASES) & {" ".join(words) for words in list_targets()}


def test_a_former_name_is_the_command_that_it_became() -> None:
    from consolidator.cli.app import expand_aliases

    former = {
        "sessions --limit 3": "session list --limit 3",
        "branch commit b1 --json": "session branch --commit b1 --json",
        "procedures export --format skill skills --all": "procedures --export skills --all",
        "facts correct f1 Short.": "facts --correct f1 Short.",
        "rules accept r1 --write AGENTS.md": "rules --accept r1 --write AGENTS.md",
        "task finish s1 success": "session task --finish s1 success",
        "retry run1 --discard": "runs --retry run1 --discard",
        "replay s1 --json": "session events --as replay s1 --json",
        "spawn s1 do --only=look": "session spawn s1 do --tool look",
        "chat --builtin tasks --mcp=serve": "chat --tools tasks --tools mcp:serve",
        "facts search --only": "facts search --only",
        "procedures export --help": "procedures --help",
        "db reindex --vectors": "run reindex --force",
        "facts search --vectors": "facts search --vectors",
        "": "",
    }
    assert {words: " ".join(expand_aliases(words.split())) for words in former} == former


def test_json_may_stand_anywhere_before_words_that_are_data_and_no_dialogue_takes_it() -> None:
    from consolidator.cli.app import take_json
    from consolidator.cli.streams import is_json

    assert take_json(["--json", "call", "deny", "c1"]) == ["call", "deny", "c1"]
    assert is_json()
    assert take_json(["remember", "--", "--json"]) == ["remember", "--", "--json"]
    assert not is_json()
    with pytest.raises(UsageError, match="chat"):
        take_json(["chat", "--json"])


def test_a_file_of_tools_needs_no_database() -> None:
    assert loaded_packages("from consolidator import CallContext, tool").isdisjoint((*SLOW, "psycopg"))


def test_every_public_name_is_where_it_is_said_to_be() -> None:
    import consolidator

    assert set(consolidator._MODULE_OF) == set(consolidator.__all__)
    assert all(getattr(consolidator, name) is not None for name in consolidator.__all__)


# The packages that only the extras bring; a fresh install has none of them.
EXTRA_PACKAGES = ["mcp", "mcp_types", "cryptography", "cffi", "jwt", "multipart", "sse_starlette", "dbos", "apprise"]
EXTRA_PACKAGES += ["opentelemetry.sdk", "agents", "langgraph", "pydantic_ai"]
NO_EXTRAS = f"import sys\nsys.modules.update(dict.fromkeys({EXTRA_PACKAGES}))\n"  # importing them fails
IMPORT_ALL = """
import importlib, pkgutil, consolidator
from consolidator.errors import UsageError

for each in pkgutil.walk_packages(consolidator.__path__, "consolidator.", onerror=lambda name: None):
    if "migrations" in each.name or each.name.endswith(("__main__", "before_call", "keeper_process")):
        continue
    try:
        importlib.import_module(each.name)
    except UsageError as error:
        print(each.name, error)
    except ModuleNotFoundError as error:
        if not {error.name, error.name.partition(".")[0]} & {*EXTRAS}:
            raise
        print(each.name, "needs", error.name)
"""


def run_without_extras(program: str, *words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a program as in an installation without the extras."""
    return subprocess.run(
        [sys.executable, "-c", NO_EXTRAS + program, *words],
        capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "CONSOLIDATOR_HOME": str(home / "data")},
    )  # fmt: skip


def test_without_the_extras_only_what_they_are_for_is_missing(tmp_path: Path) -> None:
    done = run_without_extras(IMPORT_ALL.replace("{*EXTRAS}", f"{{*{EXTRA_PACKAGES}}}"), home=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.partition(" ") for line in done.stdout.splitlines()]
    guarded = ("consolidator.jobs.engine.", "consolidator.runtime.tools.mcp_tools")  # by what loads them
    assert not [
        name for name, _, reason in lines
        if "pip install 'consolidator[" not in reason and not name.startswith(guarded)
    ]  # fmt: skip
    assert {name for name, _, _ in lines} >= {"consolidator.mcp_server", "consolidator.runtime.tools.mcp_tools"}


@pytest.mark.parametrize("words", [["mcp"], ["chat", "--model", "some", "--tools", "mcp:some-server"]], ids=" ".join)
def test_a_command_whose_extra_is_missing_says_in_one_line_what_to_install(words: list[str], tmp_path: Path) -> None:
    done = run_without_extras("from consolidator.cli import main; main()", *words, home=tmp_path)
    assert done.returncode == 2, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line)
    assert "pip install 'consolidator[mcp]'" in line


def test_install_without_the_extra_adds_the_hooks_and_names_what_the_server_needs(tmp_path: Path) -> None:
    words = ["install", "claude-code", "--yes", "--no-history"]
    done = run_without_extras("from consolidator.cli import main; main()", *words, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no MCP server was registered: it needs `pip install 'consolidator[mcp]'`" in " ".join(done.stdout.split())
    assert "hooks" in (tmp_path / ".claude/settings.json").read_text()
    assert not (tmp_path / ".claude.json").exists()


def test_windows_is_told_in_one_line_what_is_missing(tmp_path: Path) -> None:
    program = "sys.modules['fcntl'] = sys.modules['pwd'] = None\nfrom consolidator.cli.app import main\n"
    program += "sys.platform = 'win32'\nmain()"
    done = run_without_extras(program, "facts", home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "run it in WSL" in done.stderr
