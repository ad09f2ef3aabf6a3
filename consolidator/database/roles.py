"""The roles of a database: its owner upgrades it, the writer runs the service, the reader answers queries.

What the writer may not do is not granted to it: it cannot change, delete or stamp an event but through the owner's
functions, which check it (`migrations/functions.sql`). Roles belong to a server, grants to a database.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

import psycopg
from psycopg import sql

SCHEMA = "consolidator"
WRITER, READER = "consolidator_writer", "consolidator_reader"
Access = Literal["owner", "writer", "reader"]
_GRANTS = (Path(__file__).parent / "roles.sql").read_text(encoding="utf-8")
_MARK = "consolidator: grants " + hashlib.sha256(_GRANTS.encode()).hexdigest()[:16]
_ROLES_EXIST = "select to_regrole(%s) is not null and to_regrole(%s) is not null"
# A restored database has the mark without the grants: so the last of these is looked at, too.
_GET_MARK = (
    "select obj_description(to_regnamespace('consolidator'), 'pg_namespace'), "
    "has_schema_privilege('consolidator_writer', 'consolidator', 'usage') "
    "and has_any_column_privilege('consolidator_writer', 'consolidator.event', 'insert')"
)
_GET_ACCESS = """
select n.oid is not null as exists,
       n.oid is null or pg_has_role(current_user, n.nspowner, 'usage') as owns,
       n.oid is not null and has_schema_privilege(n.oid, 'usage') as may_use,
       coalesce((select has_table_privilege(c.oid, 'select') from pg_class c
                 where c.relnamespace = n.oid and c.relname = 'alembic_version'), false) as may_read,
       coalesce((select has_table_privilege(c.oid, 'insert') from pg_class c
                 where c.relnamespace = n.oid and c.relname = 'session'), false) as may_write,
       pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on' as read_only
from (select 1) as one left join pg_namespace n on n.nspname = 'consolidator'
"""


def get_access(conn: psycopg.Connection) -> Access | None:
    """Return what the login of a connection may do; None where the schema is there, and nothing was granted."""
    row = conn.execute(_GET_ACCESS).fetchone()
    assert row is not None
    exists, owns, may_use, may_read, may_write, read_only = row
    if not exists:
        return "owner"
    if not may_use or not may_read:
        return "owner" if owns else None
    if read_only or not may_write:
        return "reader"
    return "owner" if owns else "writer"


def roles_exist(conn: psycopg.Connection) -> bool:
    """Tell whether the server has the roles."""
    row = conn.execute(_ROLES_EXIST, [WRITER, READER]).fetchone()
    return row is not None and bool(row[0])


def create_roles(conn: psycopg.Connection) -> None:
    """Create the roles that are missing, without a login: logins become members of them."""
    for name in (WRITER, READER):
        if conn.execute("select from pg_roles where rolname = %s", [name]).rowcount == 0:
            conn.execute(sql.SQL("create role {} nologin").format(sql.Identifier(name)))


def create_login(conn: psycopg.Connection, name: str, password: str) -> None:
    """Have a role log in with a password; the server, and its log, see only the password's hash."""
    verifier = conn.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    role = sql.Identifier(name)
    if conn.execute("select from pg_roles where rolname = %s", [name]).rowcount == 0:
        conn.execute(sql.SQL("create role {}").format(role))
    options = sql.SQL("alter role {} login nosuperuser nocreatedb nocreaterole noreplication nobypassrls password {}")
    conn.execute(options.format(role, sql.Literal(verifier)))


def grants_are_current(conn: psycopg.Connection) -> bool:
    """Tell whether the grants of this version were made in this database, or there are no roles to grant to."""
    if not roles_exist(conn):
        return True
    row = conn.execute(_GET_MARK).fetchone()
    return row == (_MARK, True)


def grant(conn: psycopg.Connection) -> None:
    """Grant the roles what they need in this database; the login owns the schema. Does nothing without the roles."""
    if roles_exist(conn):
        conn.execute(_GRANTS.encode())
        conn.execute(sql.SQL("comment on schema {} is {}").format(sql.Identifier(SCHEMA), sql.Literal(_MARK)))
