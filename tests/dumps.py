"""Dumps a database as text, compressed columns unpacked, so that tests can search it for what must not be there."""

from __future__ import annotations

import json
import zlib
from typing import Any

from psycopg import sql

from consolidator.database import Database
from tests.nights import query_rows

TABLES = """
    select relname as name from pg_class
    where relkind in ('r', 'p') and not relispartition and relnamespace = current_schema()::regnamespace order by 1
"""


async def dump(database: Database, *, but: tuple[str, ...] = ()) -> dict[str, str]:
    """Return each table's rows as one text, `but` some tables."""
    texts = {}
    for table in await query_rows(database, TABLES):
        if table["name"] not in but:
            async with database.connection() as conn:
                query = sql.SQL("select * from {}").format(sql.Identifier(table["name"]))
                rows = await (await conn.execute(query)).fetchall()
            texts[table["name"]] = "\n".join("\t".join(map(column_text, row)) for row in rows)
    return texts


def column_text(value: Any) -> str:
    """Return a column's value as text; bytes also as what they decompress to."""
    if isinstance(value, bytes | memoryview):
        raw = bytes(value)
        try:
            return raw.decode("latin-1") + zlib.decompress(raw).decode("utf-8", "replace")
        except zlib.error:
            return raw.decode("utf-8", "replace")
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)
