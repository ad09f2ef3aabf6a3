"""The demo as a newcomer runs it: an empty home, nothing configured, and four weeks in a few seconds."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from psycopg import sql

from consolidator import demo as logs
from consolidator.database import Database, open_database
from consolidator.database.embedded.server import EmbeddedServer
from consolidator.demo import story_start
from consolidator.service.memory.explain import explain
from consolidator.service.nights.imports import import_sources, select_sources
from consolidator.settings import Settings
from tests.support import PATIENCE, log_events, run_cli, user_message
from tests.unit.project.test_demo_samples import SECRET

pytestmark = pytest.mark.embedded
NOW = "2026-03-02T12:00:00+00:00"


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of somebody who has just installed it."""
    home = tmp_path_factory.mktemp("new comer")
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV") if name in os.environ}
    yield {**kept, "HOME": str(home), "CONSOLIDATOR_HOME": str(home / "data"), "CONSOLIDATOR_CLOCK": NOW}
    if (home / "data" / "demo" / "postgres").exists():
        asyncio.run(delete_cluster(home / "data" / "demo"))
    shutil.rmtree(home)


async def delete_cluster(home: Path) -> None:
    """Delete a home's cluster."""
    assert await (await EmbeddedServer.start(home)).delete()


@pytest.fixture(scope="module")
def screen(newcomer: dict[str, str]) -> list[str]:
    """The lines that the first demo prints."""
    shown = run_cli("demo", environment=newcomer)
    assert not shown.stderr
    return shown.stdout.splitlines()


@pytest.fixture(scope="module")
def figures(newcomer: dict[str, str]) -> dict[str, Any]:
    """What a demo prints as JSON; it starts over where one was before."""
    done = run_cli("demo", "--json", environment=newcomer)
    printed: dict[str, Any] = json.loads(done.stdout)
    assert not done.stderr
    return printed


@pytest.fixture(scope="module")
def demo_settings(newcomer: dict[str, str]) -> Settings:
    """Settings of the demo's own home."""
    return Settings(home=Path(newcomer["CONSOLIDATOR_HOME"]) / "demo", health_port=0)


def test_the_screen_tells_each_week_on_one_page(screen: list[str]) -> None:
    weeks = [number for number, line in enumerate(screen) if line.startswith("Week ")]
    assert len(weeks) == 4
    assert all(len(line) <= 120 for line in screen[: weeks[-1]])
    assert all(after - before <= 24 for before, after in pairwise(weeks))


def test_the_last_line_opens_the_page_of_what_it_made(screen: list[str], demo_settings: Settings) -> None:
    typed = shlex.split(screen[-1].partition(": ")[2])
    assert typed[0] == f"CONSOLIDATOR_HOME={demo_settings.home}"
    assert typed[-1] == "ui"


async def test_what_it_says_to_type_works(screen: list[str], newcomer: dict[str, str], demo_settings: Settings) -> None:
    typed = screen[screen.index("What to type next") + 1 :]
    assert shlex.split(typed[0]) == ["export", f"CONSOLIDATOR_HOME={demo_settings.home}"]
    environment = {**newcomer, "CONSOLIDATOR_HOME": str(demo_settings.home)}
    wanted = [shlex.split(line) for line in typed[1 : typed.index("and for what your own agents did:")]]
    assert {words[1] for words in wanted} == {"facts", "procedures", "solutions", "explain", "session", "runs"}
    async with open_database(demo_settings):  # so that not every command starts the server anew
        for words in wanted:
            done = await asyncio.to_thread(run_cli, *words[1:], environment=environment)
            assert done.stdout


def test_four_weeks_become_facts_procedures_and_solutions(figures: dict[str, Any]) -> None:
    assert len(figures["weeks"]) == 4
    kinds = [set(week["learned"]) for week in figures["weeks"]]
    assert all("facts" in learned for learned in kinds)
    assert {"procedures", "solutions", "changed"} <= set.union(*kinds)
    changes = [change for week in figures["weeks"] for change in week["learned"].get("changed", [])]
    assert "The package manager is npm. → The package manager is pnpm." in changes


def test_the_ledger_balances_every_night(figures: dict[str, Any]) -> None:
    nights = [night for week in figures["weeks"] for night in week["nights"]]
    assert len(nights) == 28
    for night in nights:
        ledger = night["ledger"]
        assert ledger["seen"] == ledger["learned"] + ledger["nothing"] + ledger["deferred"] + ledger["dead"]
        assert ledger["dead"] == 0
    imported = sum(week["imported"] for week in figures["weeks"])
    assert sum(night["ledger"]["seen"] - night["ledger"]["deferred"] for night in nights) == imported
    assert 0 < sum(week["pruned"] for week in figures["weeks"]) < imported


async def test_what_was_pruned_keeps_its_quote_and_does_not_come_back(
    figures: dict[str, Any], demo_settings: Settings, tmp_path: Path
) -> None:
    start = story_start(datetime.fromisoformat(NOW))
    logs.write_logs(tmp_path, start, timedelta(weeks=4))
    async with open_database(demo_settings) as database:
        proof = (await explain(database, figures["fact"]))["evidence"][0]
        sources = [source.split(":", 1) for source in logs.list_sources(tmp_path)]
        again = [source for name, path in sources for source in select_sources(name, [Path(path)])]
        report = await import_sources(database, again)
    assert proof["log"] == "pruned"
    assert proof["quote"]
    assert report.events == 0


def test_an_error_and_the_next_call_are_answered(figures: dict[str, Any], newcomer: dict[str, str]) -> None:
    """A7."""
    environment = {**newcomer, "CONSOLIDATOR_HOME": str(Path(newcomer["CONSOLIDATOR_HOME"]) / "demo")}
    error = "fatal: The current branch feat/loyalty-points has no upstream branch."
    solutions = json.loads(run_cli("solutions", "--error", error, "--json", environment=environment).stdout)
    assert "git push -u origin" in json.dumps(solutions)
    calls = json.loads(
        run_cli("session", "show", figures["session"], "--part", "next", "--json", environment=environment).stdout
    )
    call = (calls if isinstance(calls, list) else calls["calls"])[0]
    assert call["tool"] == "refund"
    assert call["arguments"] == {"order_id": "F-20791", "payment_id": "pay_a004", "cents": 5800}


async def test_the_secret_is_nowhere_in_memory(figures: dict[str, Any], demo_settings: Settings) -> None:
    async with open_database(demo_settings) as database:
        tables = await dump_tables(database)
    leaking = [name for name, text in tables.items() if SECRET in text]
    assert leaking == []
    assert {"fact", "candidate", "procedure", "solution", "digest", "error_record", "tool_profile"} <= tables.keys()
    assert "[redacted:" in tables["solution"]


async def dump_tables(database: Database) -> dict[str, str]:
    """Return the text of every table outside of the log, with packed columns unpacked."""
    async with database.connection() as conn:
        cursor = await conn.execute(
            "select tablename from pg_tables where schemaname = current_schema() "
            "and tablename !~ '^(event|generation_chunk|blob)'"
        )
        names = [row[0] for row in await cursor.fetchall()]
        tables = {}
        for name in names:
            cursor = await conn.execute(sql.SQL("select * from {}").format(sql.Identifier(name)))
            tables[name] = "\n".join(column_text(value) for row in await cursor.fetchall() for value in row)
    return tables


def column_text(value: object) -> str:
    """Return a column's value as text."""
    if isinstance(value, (bytes, memoryview)):
        try:
            return zlib.decompress(value).decode("utf-8", "replace")
        except zlib.error:
            return bytes(value).decode("utf-8", "replace")
    return json.dumps(value, ensure_ascii=False, default=str)


def test_the_next_demo_tells_the_same_and_without_keep_nothing_is_left(
    figures: dict[str, Any], newcomer: dict[str, str], demo_settings: Settings
) -> None:
    again = json.loads(run_cli("demo", "--json", "--no-keep", environment=newcomer).stdout)
    assert again == figures
    assert not demo_settings.home.exists()


def test_interrupted_it_leaves_nothing_running(newcomer: dict[str, str]) -> None:
    command = [sys.executable, "-m", "consolidator", "demo"]
    with subprocess.Popen(command, env=newcomer, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("Week 1") for line in process.stdout)
        servers = [
            child for child in psutil.Process(process.pid).children(recursive=True) if "postgres" in child.name()
        ]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    _, alive = psutil.wait_procs(servers, timeout=PATIENCE)
    assert alive == []
    assert not list(Path(newcomer["CONSOLIDATOR_HOME"]).rglob("postmaster.pid"))


def test_it_plays_on_an_empty_database_that_was_named(environment: dict[str, str]) -> None:
    figures = json.loads(run_cli("demo", "--json", environment=environment).stdout)
    assert len(figures["weeks"]) == 4
    again = run_cli("demo", environment=environment, code=2)
    assert "CONSOLIDATOR_DATABASE_URL" in again.stderr


async def test_a_database_with_sessions_of_its_own_is_refused(database: Database, environment: dict[str, str]) -> None:
    await log_events(database, "mine", [user_message("My name is Ada.")])
    refused = await asyncio.to_thread(run_cli, "demo", environment=environment, code=2)
    assert "an empty one" in refused.stderr
    await asyncio.to_thread(run_cli, "demo", "--no-keep", environment=environment, code=2)


async def test_sessions_that_somebody_else_brought_are_left_alone(
    demo_settings: Settings, newcomer: dict[str, str]
) -> None:
    async with open_database(demo_settings) as database:
        await log_events(database, "mine", [user_message("My name is Ada.")], origin="consolidator:mine")
    refused = await asyncio.to_thread(run_cli, "demo", environment=newcomer, code=2)
    assert "consolidator:mine" in refused.stderr
    async with open_database(demo_settings) as database, database.connection() as conn:
        cursor = await conn.execute("select count(*) from session where id = 'mine'")
        assert await cursor.fetchone() == (1,)
