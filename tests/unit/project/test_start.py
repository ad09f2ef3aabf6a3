"""What every command loads at start: nothing that takes long and that only some commands need."""

from __future__ import annotations

import subprocess
import sys

from tests.support import PATIENCE

SLOW = ("openai", "mcp", "alembic", "genai_prices")


def loaded_packages(line: str) -> set[str]:
    """Return the top-level packages that a line of Python loads, in a process of its own."""
    program = f"import sys; {line}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)
    return set(done.stdout.split())


def test_the_command_line_loads_no_client_of_a_model_and_no_migrations() -> None:
    assert loaded_packages("import consolidator.cli.app").isdisjoint(SLOW)


def test_a_file_of_tools_needs_no_database() -> None:
    assert loaded_packages("from consolidator import CallContext, tool").isdisjoint((*SLOW, "sqlalchemy", "psycopg"))


def test_every_public_name_is_where_it_is_said_to_be() -> None:
    import consolidator

    assert set(consolidator._MODULE_OF) == set(consolidator.__all__)
    assert all(getattr(consolidator, name) is not None for name in consolidator.__all__)
