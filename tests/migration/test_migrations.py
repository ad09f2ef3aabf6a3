"""The schema: made from nothing, the same as the tables say, and taken back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

import consolidator.migrations
from consolidator.clock import Clock
from consolidator.database import Database, upgrade
from consolidator.errors import SchemaTooNew
from consolidator.store import checks
from tests.conftest import NOON


async def test_the_schema_is_what_the_tables_say(dsn: str) -> None:
    assert await upgrade.find_drift(dsn) == []
    assert await upgrade.get_revision(dsn) == upgrade.newest_revision()


def test_each_migrations_file_is_named_after_its_revision() -> None:
    folder = Path(consolidator.migrations.__file__).parent / "versions"
    config = Config()
    config.set_main_option("script_location", str(folder.parent))
    config.set_main_option("path_separator", "os")
    revisions = [
        (script.revision, Path(script.path).name[:4]) for script in ScriptDirectory.from_config(config).walk_revisions()
    ]
    assert [revision for revision, _ in revisions] == [name for _, name in revisions]
    assert upgrade.newest_revision() == revisions[0][0]


async def test_downgrading_to_nothing_leaves_nothing_and_upgrading_makes_it_again(dsn: str) -> None:
    await upgrade.downgrade(dsn, "base")
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        cursor = await conn.execute(
            "select relname from pg_class "
            "where relnamespace = 'consolidator'::regnamespace and relkind in ('r', 'p', 'S') "
            "union all select proname from pg_proc where pronamespace = 'consolidator'::regnamespace"
        )
        assert [name for (name,) in await cursor.fetchall()] == ["alembic_version"]
    await upgrade.upgrade(dsn, Clock(NOON))
    assert await upgrade.find_drift(dsn) == []


async def test_each_revision_can_be_taken_back_alone(dsn: str) -> None:
    versions = Path(consolidator.migrations.__file__).parent / "versions"
    older = sorted((path.name[:4] for path in versions.glob("0*.py")), reverse=True)[1:]
    assert len(older) >= 6
    for revision in older:
        await upgrade.downgrade(dsn, revision)
        assert await upgrade.get_revision(dsn) == revision
    await upgrade.upgrade(dsn, Clock(NOON))
    assert await upgrade.find_drift(dsn) == []


async def test_two_that_start_at_once_upgrade_once(dsn: str) -> None:
    await upgrade.downgrade(dsn, "base")
    await asyncio.gather(*(upgrade.upgrade(dsn, Clock(NOON)) for _ in range(4)))
    assert await upgrade.get_revision(dsn) == upgrade.newest_revision()


async def test_a_newer_database_is_refused_and_left_alone(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute("update consolidator.alembic_version set version_num = '9999'")
    with pytest.raises(SchemaTooNew, match="9999"):
        await upgrade.upgrade(dsn, Clock(NOON))
    assert await upgrade.get_revision(dsn) == "9999"


async def test_every_partition_is_guarded(database: Database) -> None:
    async with database.connection() as conn:
        assert (await checks.find_violations(conn))["I1 every partition is guarded"] == []
