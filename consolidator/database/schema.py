"""The schema's page of SQL: makes an empty database from it, and compares a database with it.

The page is read as text, one column a line, so that a comparison needs no right to create anything.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import AsyncConnection

import consolidator.migrations

if TYPE_CHECKING:
    from sqlalchemy import Connection

_PAGE = Path(consolidator.migrations.__file__).parent
_TABLE = re.compile(r"^create table (\w+) \(\n(.*?)^\)", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(
    r'^    (?!constraint |primary key)(\w+) ([a-z_ ]+?(?:\[\])?)(?: collate "C")?( not null| primary key|,|  --|$)'
)
_INDEX = re.compile(r"^create (?:unique )?index (\w+)", re.MULTILINE)
_CONSTRAINT = re.compile(r"^    constraint (\w+)", re.MULTILINE)
_FUNCTION = re.compile(r"^create function (\w+)\(.*?\$\$(.*?)\$\$;", re.MULTILINE | re.DOTALL)
_REVISION = """
create table alembic_version (version_num varchar(32) constraint alembic_version_pkc primary key);
insert into alembic_version (version_num) values ('{revision}')
"""
# What of the schema differs from the page's columns (table, name, type, not null), indexes and constraints.
_FIND_DRIFT = """
with page as (
    select * from unnest(%(tables)s::text[], %(columns)s::text[], %(types)s::text[], %(required)s::bool[])
        as page (relation, name, type, required)
), here as (
    select c.relname as relation, a.attname as name, a.atttypid as type, a.attnotnull as required
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'consolidator'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and c.relname <> 'alembic_version' and c.relname !~ '^(event|generation_chunk)_[0-9]{8}$'
)
select format('%%s.%%s: %%s', relation, name, case
    when here.name is null then 'the column is missing'
    when page.name is null then 'this version knows no such column'
    when here.type is distinct from to_regtype(page.type)
    then 'the type is ' || here.type::regtype || ', not ' || page.type
    else case when here.required then 'null is refused here' else 'null is allowed here' end end)
from page full join here using (relation, name)
where here.name is null or page.name is null or here.type is distinct from to_regtype(page.type)
   or here.required <> page.required
union all
select 'the index ' || name || ' is missing' from unnest(%(indexes)s::text[]) as name
where to_regclass('consolidator.' || name) is null
union all
select 'the constraint ' || name || ' is missing' from unnest(%(constraints)s::text[]) as name
where not exists (select from pg_constraint where connamespace = 'consolidator'::regnamespace and conname = name)
order by 1
"""


def create(connection: Connection, revision: str) -> None:
    """Make everything in an empty schema that the search path names, and note its revision."""
    for text in (_read("schema.sql"), _read("functions.sql"), _REVISION.format(revision=revision)):
        connection.exec_driver_sql(text, execution_options={"no_parameters": True})


async def find_drift(conn: AsyncConnection) -> list[str]:
    """Return how a database's schema differs from this version's, one sentence a difference."""
    page = list(columns())
    values = {
        **{name: [column[place] for column in page] for place, name in enumerate(("tables", "columns", "types"))},
        "required": [column[3] for column in page],
        "indexes": _INDEX.findall(_read("schema.sql")),
        "constraints": _CONSTRAINT.findall(_read("schema.sql")),
    }
    cursor = await conn.execute(_FIND_DRIFT.encode(), values)
    return [sentence for (sentence,) in await cursor.fetchall()]


def columns() -> Iterator[tuple[str, str, str, bool]]:
    """Yield each column of the page: table, name, type, and whether it is not null."""
    for table, body in _TABLE.findall(_read("schema.sql")):
        for line in body.split("\n"):
            if match := _COLUMN.match(line):
                name, kind, end = match.groups()
                yield table, name, kind, end in (" not null", " primary key")


@cache
def describe_columns(table: str) -> dict[str, str]:
    """Return the comments of a table's columns, by column; each stands on its column's line, or on one before it."""
    comments, above = {}, ""
    for line in dict(_TABLE.findall(_read("schema.sql")))[table].split("\n"):
        _, _, comment = line.partition("-- ")
        if match := _COLUMN.match(line):
            comments[match[1]] = comment or above
        above = comment if line.lstrip().startswith("--") else ""
    return {column: comment for column, comment in comments.items() if comment}


@cache
def function_hashes() -> dict[str, str]:
    """Return the SHA-256 of each function's body, as hex digits, by the function's name."""
    bodies = _FUNCTION.findall(_read("functions.sql"))
    return {name: hashlib.sha256(body.encode()).hexdigest() for name, body in bodies}


@cache
def _read(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")
