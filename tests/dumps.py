"""Everything that a database holds as text, compressed or not, to look for what may not be there."""

from __future__ import annotations

import json
import zlib
from typing import Any

from psycopg import sql

from consolidator.database import Database
from tests.nights import ask

TABLES = """
    select relname as name from pg_class
    where relkind in ('r', 'p') and not relispartition and relnamespace = current_schema()::regnamespace order by 1
"""


async def dump(database: Database, *, but: tuple[str, ...] = ()) -> dict[str, str]:
    """Return each table's rows as one text, `but` some tables."""
    found = {}
    for table in await ask(database, TABLES):
        if table["name"] not in but:
            async with database.connection() as conn:
                query = sql.SQL("select * from {}").format(sql.Identifier(table["name"]))
                rows = await (await conn.execute(query)).fetchall()
            found[table["name"]] = "\n".join("\t".join(map(told, row)) for row in rows)
    return found


def told(value: Any) -> str:
    """Return a column's value as text; of bytes what they say, and what they unpack to."""
    if isinstance(value, bytes | memoryview):
        raw = bytes(value)
        try:
            return raw.decode("latin-1") + zlib.decompress(raw).decode("utf-8", "replace")
        except zlib.error:
            return raw.decode("utf-8", "replace")
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)
