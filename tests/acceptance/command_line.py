"""The command line in this process, and a database with something of everything."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest

from consolidator.cli.app import main
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.models.memory_filter import FactFilter, ProcedureFilter, SolutionFilter
from consolidator.settings import Settings
from consolidator.store.memory import listing
from tests.conftest import NOON
from tests.support import (
    call_and_result,
    later,
    log_events,
    run_job,
    user_message,
)

PYTHON = [sys.executable, "-m", "consolidator"]
MISSING_MODULE = "ModuleNotFoundError: No module named 'foo'"


@dataclass
class CommandLine:
    """Runs the command line in this process, which is faster than a process of its own."""

    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        self.patch.setattr(sys, "argv", ["consolidator", *arguments])
        self.capture.readouterr()
        try:
            main()
            code: Any = 0
        except SystemExit as ended:
            code = ended.code or 0
        captured = self.capture.readouterr()
        return code, captured.out, captured.err


async def fill_memory(dsn: str) -> dict[str, str]:
    """Fill the log, let a night pass, and return the ids of a fact, a procedure, a solution and the run."""
    database = Database(dsn, FrozenClock(NOON))
    for n in range(4):
        await log_events(
            database, f"s{n}",
            [
                user_message("I prefer short answers. Please repair the build."),
                *call_and_result("a", "Read", {"file_path": f"/src/{n}.py"}),
                *call_and_result("b", "Bash", {"command": "make test"}, MISSING_MODULE, "error"),
                *call_and_result("c", "Bash", {"command": "pip install foo"}),
                *call_and_result("d", "Bash", {"command": "make test"}),
                *call_and_result("e", "Bash", {"command": "git commit -m done"}),
            ],
            project="/src",
        )  # fmt: skip
    assert isinstance(database.clock, FrozenClock)
    database.clock.set(later(NOON, hours=2))
    report = await run_job(database, Settings(workers=2))
    async with database.connection() as conn:
        ids = {
            "fact": (await listing.list_facts(conn, FactFilter()))[0].id,
            "procedure": (await listing.list_procedures(conn, ProcedureFilter(include_unworthy=True)))[0].id,
            "solution": (await listing.list_solutions(conn, SolutionFilter()))[0].id,
            "run": report["run"],
        }
    await database.close()
    return ids


async def add_rejected_candidates(dsn: str) -> None:
    """Add two candidates that may not become facts: of another agent, and of the attribute of an existing fact."""
    database = Database(dsn, FrozenClock(NOON))
    async with database.transaction() as conn:
        await conn.execute(
            "insert into candidate select (jsonb_populate_record(c, jsonb_build_object("
            "'id', 'c_refused', 'agent', 'other', 'project', '/elsewhere', 'peer', 'ann', "
            "'quote', 'the secret word', 'rejected', 'contains a secret'))).* from candidate c limit 1"
        )
        await conn.execute(
            "insert into candidate select (jsonb_populate_record(c, jsonb_build_object("
            "'id', 'c_vague', 'rejected', 'a question'))).* from candidate c, fact f "
            "where c.agent = f.agent and c.subject = f.subject and c.predicate = f.predicate "
            "and c.rejected is null limit 1"
        )
    await database.close()
