"""The schema: made from its page, the same as the migrations make it, and compared with the page by `db verify`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg import sql
from psycopg.conninfo import make_conninfo

import consolidator.migrations
from consolidator.clock import Clock
from consolidator.database import Database, schema, upgrade
from consolidator.errors import DatabaseError
from consolidator.store import checks
from tests.conftest import NOON

# Everything of a schema, as PostgreSQL describes it: columns, constraints, indexes, triggers, functions, sequences.
CATALOG = """
select format('%s.%s %s %s %s %s', attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull,
              pg_get_expr(adbin, adrelid), attstorage)
from pg_attribute join pg_class c on c.oid = attrelid
left join pg_attrdef on adrelid = attrelid and adnum = attnum
where relnamespace = current_schema()::regnamespace and attnum > 0 and not attisdropped and relkind in ('r', 'p')
union all select format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) from pg_constraint
where connamespace = current_schema()::regnamespace and contype <> 'n'
union all select indexdef from pg_indexes where schemaname = current_schema()
union all select pg_get_triggerdef(t.oid) || tgenabled::text from pg_trigger t join pg_class c on c.oid = tgrelid
where relnamespace = current_schema()::regnamespace and not tgisinternal
union all select pg_get_functiondef(oid) || coalesce(proacl::text, '') from pg_proc
where pronamespace = current_schema()::regnamespace
union all select format('%s %s %s', relname, reloptions, obj_description(oid, 'pg_class')) from pg_class
where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'S')
"""


@pytest.fixture
def empty_dsn(server_dsn: str) -> Iterator[str]:
    """A database without a schema."""
    name = "consolidator_empty"
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            yield make_conninfo(server_dsn, dbname=name)
        finally:
            conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def read_catalog(dsn: str) -> set[str]:
    """Return what PostgreSQL says of each part of our schema."""
    with psycopg.connect(dsn, options="-c search_path=consolidator") as conn:
        return {str(text) for (text,) in conn.execute(CATALOG.encode()).fetchall()}


async def test_the_migrations_make_what_the_page_says(dsn: str, empty_dsn: str) -> None:
    """K9."""
    with upgrade.locked(empty_dsn) as connection:
        upgrade.migrate(connection)
    await asyncio.to_thread(upgrade.upgrade, empty_dsn, Clock(NOON))  # grants, and makes the partitions
    assert read_catalog(empty_dsn) ^ read_catalog(dsn) == set()


async def test_a_database_is_what_the_page_says(database: Database) -> None:
    async with database.connection() as conn:
        assert await schema.find_drift(conn) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("alter table fact drop column sentence", "fact.sentence: the column is missing"),
        ("alter table fact add column mood text", "fact.mood: this version knows no such column"),
        ("alter table claim alter column note type varchar", "claim.note: the type is character varying, not text"),
        ("alter table run alter column owner drop not null", "run.owner: null is allowed here"),
        ("drop index session_due", "the index session_due is missing"),
        ("alter domain event_kind drop constraint event_kind", "the constraint event_kind is missing"),
        ("alter table session alter column status type text", "session.status: the type is text, not session_status"),
        ("alter table session drop constraint session_due", "the constraint session_due is missing"),
    ],
)
async def test_what_differs_from_the_page_is_named(dsn: str, change: str, sentence: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, options="-c search_path=consolidator") as conn:
        await conn.execute(change.encode())
        assert sentence in await schema.find_drift(conn)


def test_each_migrations_file_is_named_after_its_revision() -> None:
    folder = Path(consolidator.migrations.__file__).parent / "versions"
    config = Config()
    config.set_main_option("script_location", str(folder.parent))
    config.set_main_option("path_separator", "os")
    revisions = [
        (script.revision, Path(script.path).name[:4]) for script in ScriptDirectory.from_config(config).walk_revisions()
    ]
    assert [revision for revision, _ in revisions] == [name for _, name in revisions]
    assert [revision for revision, _ in reversed(revisions)] == [f"{n:04}" for n in range(1, len(revisions) + 1)]
    assert upgrade.newest_revision() == revisions[0][0]


async def test_four_that_start_at_once_make_the_schema_once(empty_dsn: str, dsn: str) -> None:
    await asyncio.gather(*(asyncio.to_thread(upgrade.upgrade, empty_dsn, Clock(NOON)) for _ in range(4)))
    assert await asyncio.to_thread(upgrade.get_revision, empty_dsn) == upgrade.newest_revision()
    assert read_catalog(empty_dsn) == read_catalog(dsn)


@pytest.mark.parametrize("revision", ["9999", "0042"])  # of a newer version, and of one from before the first release
async def test_a_database_of_an_unknown_version_is_refused_and_left_alone(dsn: str, revision: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute(f"update consolidator.alembic_version set version_num = '{revision}'".encode())
    with pytest.raises(DatabaseError, match=rf"{revision}.* an unreleased one made it"):
        await asyncio.to_thread(upgrade.upgrade, dsn, Clock(NOON))
    assert await asyncio.to_thread(upgrade.get_revision, dsn) == revision


async def test_a_database_whose_page_was_another_is_named(database: Database) -> None:
    async with database.connection() as conn:
        await conn.execute("alter table consolidator.fact drop column sentence")
    with pytest.raises(DatabaseError, match="an unreleased version made this database"):
        async with database.connection() as conn:
            await conn.execute("select sentence from fact")


async def test_every_partition_is_guarded(database: Database) -> None:
    async with database.connection() as conn:
        assert (await checks.find_violations(conn))["I1 every partition is guarded"] == []
