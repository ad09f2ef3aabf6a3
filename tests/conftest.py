"""A real PostgreSQL for every test: the one that CONSOLIDATOR_TEST_DATABASE_URL names, else an embedded one.

Each test gets a database of its own, copied from a migrated template, and never the user's.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import httpcore2
import psutil
import psycopg
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from psycopg import sql
from psycopg.conninfo import make_conninfo

from consolidator.clock import Clock, FrozenClock
from consolidator.database import Database, roles, upgrade
from consolidator.database.embedded import startup
from consolidator.database.embedded.server import EmbeddedServer
from consolidator.settings import Settings
from tests.databases import database_copy
from tests.support import FULL, QUICK, count_examples

# No deadlines: speed is measured in benchmarks, never asserted in tests. The same examples in each run, but for
# `make matrix`, which looks for new ones.
hypothesis_settings.register_profile(
    "consolidator",
    max_examples=count_examples(100),
    deadline=None,
    derandomize=not FULL,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
hypothesis_settings.load_profile("consolidator")
gc.disable()  # until all tests are collected
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: the programs under test must hear it
    signal.signal(signal.SIGINT, signal.default_int_handler)
_LONGEST = (
    "any_order api_agents_sdk api_branches api_lifecycle api_live api_offers api_reruns api_schema api_spawn backfill "
    "backup benchmarks bounded_streams bundle_round_trips cli_terminal dbos_kills decisions demo disk_full embedded "
    "erase erase_meanwhile every_page examples hooks hooks_agents hooks_codex i13_no_secrets i16_isolation "
    "i17_tampering i9_retention import_hostile kill kill_matrix learn_processes lineage_trees malformed_streams "
    "many_sessions mcp_bounds mcp_budgets model_story newcomer night_cost openai_agents openai_agents_contract outage "
    "poisoned_logs project_isolation real_logs record_events replicas revisions roles schedule shared_questions "
    "sixty_days tokens turn_limits uninstall waking zombies"
)
LONGEST = frozenset(f"test_{name}.py" for name in _LONGEST.split())  # which CI leaves to `make test`
# Of these files, CI runs the first case of one test: every invariant has a case in it, and what agents tell each other.
CASES_IN_CI = {
    "test_kill_matrix.py": "test_every_boundary_survives_a_kill",  # I3, I6
    "test_zombies.py": "test_a_harness_that_is_overtaken_at_any_boundary_changes_nothing",  # I4
    "test_any_order.py": "test_whatever_happens_in_whatever_order_the_history_is_right",  # I5
    "test_i9_retention.py": "test_what_is_past_retention_and_learned_from_goes_and_nothing_else",
    "test_i13_no_secrets.py": "test_no_credential_reaches_memory_or_the_programs_log_or_any_answer",
    "test_i16_isolation.py": "test_nobody_is_shown_what_comes_from_another",
    "test_i17_tampering.py": "test_a_rewritten_event_is_found",
    "test_hooks_agents.py": "test_a_fix_from_one_agent_is_told_to_another",
}
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
IS_WRITER = os.environ.get("CONSOLIDATOR_TEST_ROLE") == "writer"  # run the tests as the role of a service


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave the longest tests to `make test` where only a quick sample is asked for."""
    is_left_out = collection_path.name in LONGEST - CASES_IN_CI.keys() and "unit" not in collection_path.parts
    return True if QUICK and is_left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the first case of one test, and nothing else of its file, in a quick sample."""
    if not QUICK:
        return
    sampled: set[str] = set()
    left_out = []
    for item in items:
        test = CASES_IN_CI.get(item.path.name)
        if test is not None and (getattr(item, "originalname", "") != test or test in sampled):
            left_out.append(item)
        elif test is not None:
            sampled.add(test)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of all collections of garbage, which paused for it."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests report by `record_property("summary", ...)`, such as how many cases they ran."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, value in getattr(report, "user_properties", ()):
            if name == "summary" and report.when == "call":
                terminalreporter.write_line(str(value))


@pytest.fixture(scope="session", autouse=True)
def _no_ambient_settings() -> Iterator[None]:
    """Keep the person's own settings and home out of the tests."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="consolidator-home-") as home:
        for name in list(os.environ):
            if name.startswith("CONSOLIDATOR_") and not name.startswith("CONSOLIDATOR_TEST_"):
                patch.delenv(name)
        patch.setenv("HOME", home)
        patch.setenv("CONSOLIDATOR_FIND_MODEL", "false")  # no server of the machine is asked
        patch.setenv("CONSOLIDATOR_EMBED_MODEL", "none")  # vectors where a test asks for them
        # Each client of HTTP loads the authorities' certificates, 30 ms of a processor, and asks only this machine.
        patch.setattr(httpcore2, "default_ssl_context", cache(httpcore2.default_ssl_context))
        patch.delenv("XDG_DATA_HOME", raising=False)
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        yield


@pytest.fixture(scope="session")
def server_dsn() -> Iterator[str]:
    """A server on which databases may be made."""
    configured_dsn = os.environ.get("CONSOLIDATOR_TEST_DATABASE_URL")
    if configured_dsn:
        yield configured_dsn
        return
    _remove_what_killed_runs_left()
    home = Path(tempfile.mkdtemp(prefix=f"consolidator-test-{os.getpid()}-"))
    with pytest.MonkeyPatch.context() as patch:  # nobody pulls the plug on this one
        for name in ("fsync", "full_page_writes"):
            patch.setitem(startup.ENFORCED_SETTINGS, name, "off")
        server = asyncio.run(EmbeddedServer.start(home))
    try:
        yield server.dsn
    finally:
        asyncio.run(server.delete())
        shutil.rmtree(home, ignore_errors=True)


def _remove_what_killed_runs_left() -> None:
    """Remove the homes of runs that ended without doing so; a server that is made later removes their clusters."""
    for folder in (Path(tempfile.gettempdir()), Path("/dev/shm")):
        for path in folder.glob("consolidator-test-*-*"):
            number = path.name.split("-")[2]
            if number.isdigit() and not psutil.pid_exists(int(number)):
                shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def tablespace(server_dsn: str) -> Iterator[str]:
    """Where databases are made: in memory where that can be.

    A database is hundreds of files, and Linux's ext4 makes none before it has looked at the place of each that was
    removed in the last minute: making and dropping databases was a third of the time of all tests.
    """
    memory = Path("/dev/shm")
    configured_path = os.environ.get("CONSOLIDATOR_TEST_DATABASE_URL")
    if configured_path or not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < 2 << 30:
        yield "pg_default"
        return
    folder = Path(tempfile.mkdtemp(prefix=f"consolidator-test-{os.getpid()}-", dir=memory))
    try:
        yield "memory" if _is_tablespace(server_dsn, folder) else "pg_default"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_tablespace(server_dsn: str, folder: Path) -> bool:
    """Have an embedded server keep databases in a folder; tell whether it may."""
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        row = conn.execute("show data_directory").fetchone()
        assert row is not None
        server = Path(row[0]).stat()
        try:
            os.chown(folder, server.st_uid, server.st_gid)
            conn.execute(sql.SQL("create tablespace memory location {}").format(sql.Literal(str(folder))))
        except (OSError, psycopg.Error):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Logins:
    """The logins of the two roles that are not the owner, with their passwords."""

    writer: tuple[str, str]
    reader: tuple[str, str]


@pytest.fixture(scope="session")
def logins(server_dsn: str) -> Iterator[Logins]:
    """Logins that are members of the writer's and of the reader's role."""
    made = Logins(*((f"test_{kind}_{os.getpid()}", os.urandom(8).hex()) for kind in ("writer", "reader")))
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        roles.create_roles(conn)
        for (name, password), role in ((made.writer, roles.WRITER), (made.reader, roles.READER)):
            roles.create_login(conn, name, password)
            conn.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(name)))
    try:
        yield made
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as conn:
            for name, _ in (made.writer, made.reader):
                conn.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def template(server_dsn: str, tablespace: str, logins: Logins) -> Iterator[str]:
    """A migrated database to copy."""
    name = f"consolidator_template_{os.getpid()}"
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        template_database = sql.SQL("create database {} tablespace {}")
        conn.execute(template_database.format(sql.Identifier(name), sql.Identifier(tablespace)))
    upgrade.upgrade(make_conninfo(server_dsn, dbname=name), Clock(NOON))
    try:
        yield name
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as conn:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def pgvector(server_dsn: str) -> None:
    """Leave a test out where the server has no pgvector: recall works by text alone there."""
    with psycopg.connect(server_dsn) as conn:
        if not conn.execute("select from pg_available_extensions where name = 'vector'").rowcount:
            pytest.skip("this server has no pgvector")


@pytest.fixture
def dsn(server_dsn: str, template: str) -> Iterator[str]:
    """A migrated database of the test's own."""
    with database_copy(server_dsn, template) as address:
        yield address


@pytest.fixture
def clock() -> FrozenClock:
    """A clock that stands at noon of 2026-03-02, UTC."""
    return FrozenClock(NOON)


@pytest.fixture
def writer_dsn(dsn: str, logins: Logins) -> str:
    """The test's database as the role that the service runs as."""
    name, password = logins.writer
    return make_conninfo(dsn, user=name, password=password)


@pytest.fixture
def reader_dsn(dsn: str, logins: Logins) -> str:
    """The test's database as the role that only reads."""
    name, password = logins.reader
    return make_conninfo(dsn, user=name, password=password)


@pytest.fixture
async def database(dsn: str, writer_dsn: str, clock: FrozenClock) -> AsyncIterator[Database]:
    """An open database on the frozen clock; as its owner, unless CONSOLIDATOR_TEST_ROLE is "writer"."""
    opened = Database(writer_dsn, clock, owner_dsn=dsn) if IS_WRITER else Database(dsn, clock)
    yield opened
    await opened.close()


@pytest.fixture
def agents_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases that are opened from now on keep what one agent learns from the others (`share_between_agents`)."""
    monkeypatch.setattr(Database, "share_between_agents", False)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings as a newcomer has them, with few workers, short leases, and retention of however much is due."""
    return Settings(home=tmp_path / "home", workers=2, lease_seconds=30, health_port=0, retention_max_share=1)


@pytest.fixture
def environment(dsn: str, writer_dsn: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a subprocess that works on the test's database."""
    kept_names = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV") if name in os.environ}
    return {
        **kept_names,
        "HOME": str(tmp_path),
        "CONSOLIDATOR_HOME": str(tmp_path / "home"),
        **(
            {"CONSOLIDATOR_DATABASE_URL": writer_dsn, "CONSOLIDATOR_OWNER_URL": dsn}
            if IS_WRITER
            else {"CONSOLIDATOR_DATABASE_URL": dsn}
        ),
        "CONSOLIDATOR_CLOCK": NOON.isoformat(),
        "CONSOLIDATOR_RETENTION_MAX_SHARE": "1",
        "CONSOLIDATOR_EMBED_MODEL": "none",  # vectors of the table of words where a test asks for them
        "PYTHONWARNINGS": "error",
    }
