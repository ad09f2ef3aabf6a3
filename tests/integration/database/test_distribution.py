"""The log can be spread over machines by session: each of its tables has that key in its primary key and its queries.

`docs/database.md` says what that is for, and what becomes of memory, which is spread by agent.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from consolidator import store
from consolidator.database import Database
from consolidator.store import queries

DISTRIBUTION_KEYS = {
    "session": "id",
    **dict.fromkeys(
        ("event", "generation_chunk", "delivery", "blob_ref", "idempotency", "seed", "session_lineage", "session_view",
         "checkpoint", "spend"),
        "session_id",
    ),
}  # fmt: skip
WITHOUT_THE_KEY = {
    "named by a key, an origin or a trigger, once when a session is opened: what a directory would answer": """
        sessions/sessions.get_current sessions/sessions.end_current
        sessions/sessions.clear_current_of_key
        log/items.find_recorded sessions/sessions.find_recorded sessions/sessions.rename_key
        sessions/lineage.find_called sessions/lineage.find_named_branch
    """,
    "asked by a driver, a night or retention for sessions with work: a list by index on every machine": """
        turns/lease.list_without_tools turns/lease.list_failing turns/lease.list_pending
        turns/lease.find_waiting_sessions
        sessions/lineage.list_unfinished sessions/lineage.list_unfinished_steers
        sessions/lineage.list_abandoned sessions/sessions.list_due
        log/retention.list_expired log/retention.get_latest_times log/retention.list_last_events
        log/retention.list_sessions_before log/retention.forget_idempotency_keys sessions/checkpoints.delete_expired
        nights/model_calls.unread_sessions nights/model_calls.list_waiting sessions/projects.strayed_memories
    """,
    "asked by a person: a list, a count or a check of the whole log": """
        checks.sizes log/verification.list_native turns/lease.list_attention sessions/sessions.list_ids
        sessions/projects.is_known sessions/projects.projects sessions/projects.latest_agent
        sessions/projects.projects_of_directories sessions/projects.forget sessions/projects.shared_with
        sessions/projects.overview turns/spend.sum_costs
        sessions/sessions.list_heads sessions/sessions.list_current
        sessions/sessions.latest sessions/sessions.created sessions/sessions.runs
        log/seals.find_broken_beginnings log/seals.find_foreign_pasts log/seals.find_broken_output
        memory/derived.sessions_of_peer memory/learned.waiting checks.queue
        checks.waiting
    """,
    "named by an id of its own, which does not tell the session": """
        sessions/checkpoints.get sessions/checkpoints.delete turns/spend.settle turns/spend.get_call
    """,
}
PRIMARY_KEYS_WITHOUT_IT = {"checkpoint", "spend"}  # named by an id of their own, as above
UNIQUE_WITHOUT_IT = {"session_origin", "session_key_current", "session_key_recorded"}  # the directory, as above
EXCEPTIONS = {name for names in WITHOUT_THE_KEY.values() for name in names.split()}
PARAMETER = re.compile(r"%\((\w+)!?\)[sbt]")
INCLUDE, NAME = re.compile(r"-- include: (\w+)"), re.compile(r"-- name: (\w+)")
LOAD = re.compile(r"load\(\"([\w/]+)\"((?:, \"[\w/]+\")*)\)")
INDICES = """
select table_class.relname, index_class.relname, indisprimary,
       array(select attname from pg_attribute where attrelid = indrelid and attnum = any(indkey::int2[]))
from pg_index
join pg_class table_class on table_class.oid = indrelid
join pg_class index_class on index_class.oid = indexrelid
where indisunique and table_class.relnamespace = 'consolidator'::regnamespace and not table_class.relispartition
"""


def static_queries() -> Iterator[tuple[str, str]]:
    """Yield every query of a .sql file, by the file's and its own name; parts that others include are read in these."""
    folder = Path(store.__file__).parent
    modules = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    loaded = {file: re.findall(r"[\w/]+", before) for file, before in LOAD.findall(modules)}
    texts = {
        path.relative_to(folder).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.sql"))
    }
    assert set(texts) == set(loaded)
    parts = set(INCLUDE.findall("".join(texts.values())))
    for file, text in texts.items():
        own = set(NAME.findall(text)) - parts
        for name, query in queries.load(file, *loaded[file]).items():
            if name in own and not query.startswith("copy "):  # which names its columns, not its rows
                yield f"{file}.{name}", query


def tables_without_key(query: str) -> set[str]:
    """Return the tables of the log that a query names and does not restrict by their key."""
    text = re.sub(r"\{\w*\}", "true", PARAMETER.sub(r":p_\1", query).replace("%%", "%"))
    tree = sqlglot.parse_one(text, dialect="postgres")
    ctes = {cte.alias for cte in tree.find_all(exp.CTE)}
    restricted = {
        (column.table, column.name)
        for comparison in tree.find_all(exp.EQ, exp.In)
        for column in comparison.find_all(exp.Column)
    }
    for join in tree.find_all(exp.Join):
        restricted |= {("", column.name) for column in join.args.get("using") or []}
    for insert in tree.find_all(exp.Insert):
        if isinstance(insert.this, exp.Schema):
            restricted |= {(insert.this.this.alias_or_name, column.name) for column in insert.this.expressions}
    named = {(table.name, table.alias_or_name) for table in tree.find_all(exp.Table) if table.name not in ctes}
    return {
        table
        for table, alias in named
        if (key := DISTRIBUTION_KEYS.get(table)) and not {(alias, key), ("", key)} & restricted
    }


@pytest.fixture(autouse=True)
def _quiet_parser() -> Iterator[None]:
    """Keep the parser from logging that it takes `lock table` as it is."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_each_query_of_the_log_names_the_session_but_for_those_listed() -> None:
    without = {name: tables for name, query in static_queries() if (tables := tables_without_key(query))}
    unlisted = {name: sorted(tables) for name, tables in without.items() if name not in EXCEPTIONS}
    assert not unlisted, f"restrict these by their session, or list them with a reason: {unlisted}"
    assert set(without) >= EXCEPTIONS, f"these need no exception: {sorted(EXCEPTIONS - set(without))}"


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("select * from event where session_id = %(session)s and seq > %(after)s", set()),
        ("select * from event e join session s on s.id = e.session_id where e.seq > 3", set()),
        ("select * from event where seq > %(after)s", {"event"}),
        ("with event as (select 1) select * from event", set()),
        ("insert into seed (session_id, ordinal) values (%(session)s, 1)", set()),
        ("update session set head = 1 where key = %(key)s", {"session"}),
        ("delete from spend using session where call_id = %(call)s and session.id = %(id)s", {"spend"}),
    ],
)
def test_the_reader_of_queries_finds_what_is_not_restricted(query: str, tables: set[str]) -> None:
    assert tables_without_key(query) == tables


async def test_each_table_of_the_log_has_its_key_in_what_is_unique(database: Database) -> None:
    async with database.connection() as conn:
        rows = await (await conn.execute(INDICES)).fetchall()
    of_log = [row for row in rows if row[0] in DISTRIBUTION_KEYS]
    assert {row[0] for row in of_log if row[2]} == set(DISTRIBUTION_KEYS)
    without = [row for row in of_log if DISTRIBUTION_KEYS[row[0]] not in row[3]]
    assert {row[0] for row in without if row[2]} == PRIMARY_KEYS_WITHOUT_IT
    assert {row[1] for row in without if not row[2]} == UNIQUE_WITHOUT_IT
