"""I1, I17: what the writer may not do is refused by grants, however it asks; the reader writes nothing at all."""

from __future__ import annotations

import asyncio
import stat
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from consolidator.clock import FrozenClock
from consolidator.database import Database, open_database, roles, upgrade
from consolidator.database.embedded.server import EmbeddedServer
from consolidator.errors import DatabaseError
from consolidator.service.database import verify_database
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.settings import Settings
from tests.conftest import Logins
from tests.support import call_and_result, log_events, run_job, user_message

LARGE = "x" * 40_000
NO_GRANT, NO_INTEGRITY = psycopg.errors.InsufficientPrivilege, psycopg.errors.IntegrityConstraintViolation
REFUSED = (
    NO_GRANT,
    NO_INTEGRITY,
    psycopg.errors.SyntaxErrorOrAccessRuleViolation,
    psycopg.errors.InvalidParameterValue,
    psycopg.errors.FeatureNotSupported,  # a language that the server does not have
)
PART = "event_20260302"
RUN = (
    "insert into run (id, job, scheduled_at, started_at, heartbeat_at, owner) "
    "values ('mine', 'consolidation', now(), now(), now(), 'me')"
)
EVIDENCE = (
    "select md5(string_agg(e::text, ' ' order by session_id, seq)) from consolidator.event e",
    "select md5(string_agg(c::text, ' ' order by c::text)) from consolidator.generation_chunk c",
    "select md5(string_agg(d::text, ' ' order by d::text)) from consolidator.delivery d",
    "select md5(string_agg(b::text, ' ' order by b::text)) from consolidator.blob b",
    "select md5(string_agg(r::text, ' ' order by r::text)) from consolidator.blob_ref r",
    "select md5(string_agg(s::text, ' ' order by number)) from consolidator.seal s",
    "select md5(string_agg(s::text, ' ' order by s::text)) from consolidator.sealed_session s",
    "select md5(string_agg(r::text, ' ' order by id)) from consolidator.run r",
    "select md5(string_agg(r::text, ' ' order by id)) from consolidator.erasure r",
    "select md5(string_agg(r::text, ' ' order by id)) from consolidator.pruning r",
    "select md5(string_agg(concat_ws(' ', id, pruned_to, consolidated_to, unchained_to, pruned_hash, recorded_by, "
    "created_at, base_seq, parent_id, parent_seq, past_id, past_seq, root_id, kind, simulated, "
    "origin, key, agent, channel, peer), "
    "' ' order by id)) from consolidator.session s",
    "select md5(string_agg(l::text, ' ' order by l::text)) from consolidator.session_lineage l",
    "select md5(string_agg(prosrc || prosecdef::text, ' ' order by proname)) from pg_proc "
    "where pronamespace = 'consolidator'::regnamespace",
    "select md5(string_agg(concat(tgrelid, tgname, tgenabled), ' ' order by tgrelid, tgname)) from pg_trigger",
    "select md5(string_agg(concat(relname, relacl, relowner), ' ' order by relname)) from pg_class "
    "where relnamespace = 'consolidator'::regnamespace",
)

# name -> statements that the writer runs, the last of which (or one before) has to be refused
ATTACKS = {
    # the log itself
    "stamp everything": ["update event set consolidated_at = now()"],
    "stamp one event": ["update event set consolidated_at = now() where session_id = 'new' and seq = 1"],
    "unstamp": ["update event set consolidated_at = null"],
    "rewrite": ["""update event set data = '{"text": "forged"}'"""],
    "delete": ["delete from event"],
    "delete what was learned from": ["delete from event where consolidated_at is not null"],
    "the word that allowed erasing": ["set consolidator.erase = 'new'", "delete from event where session_id = 'new'"],
    "a partition by name": [f"delete from {PART}"],
    "update a partition by name": [f"update {PART} set consolidated_at = now()"],
    "insert into a partition": [f"insert into {PART} (session_id, seq, event_type, data, created_at) "
                                "values ('new', 9, 'Error', '{}', '2026-03-02')"],
    "truncate": ["truncate event"],
    "truncate a partition": [f"truncate {PART}"],
    "truncate by cascade": ["truncate session cascade"],
    "insert a stamped event": ["insert into event (session_id, seq, event_type, data, created_at, consolidated_at) "
                               "values ('new', 9, 'Error', '{}', '2026-03-02', now())"],
    "insert with an id": ["insert into event (id, session_id, seq, event_type, data, created_at) "
                          "values (1, 'new', 9, 'Error', '{}', '2026-03-02')"],
    "copy stamped events": ["copy event (session_id, seq, event_type, created_at, consolidated_at) from stdin"],
    "change by conflict": ["insert into event (session_id, seq, event_type, data, created_at) "
                           "values ('new', 1, 'Error', '{}', '2026-03-02 12:00:00+00') "
                           "on conflict (session_id, seq, created_at) do update set data = excluded.data"],
    "merge": ["merge into event e using (select 1) as one on e.session_id = 'new' when matched then delete"],
    "lock rows for update": ["select * from event for update"],
    "lock the table": ["select 1", "lock table event in access exclusive mode"],
    "reset the sequence": ["select setval('event_id_seq', 1)"],
    "delete within a query": ["with gone as (delete from event returning *) select count(*) from gone"],
    "delete by a prepared statement": ["prepare gone as delete from event", "execute gone"],
    "delete to measure it": ["explain analyze delete from event"],
    "a cursor that locks": ["select 1", "declare mine cursor for select * from event for update"],
    "another numbering": ["update session set base_seq = head where id = 's'"],
    "another name": ["update session set id = 'renamed' where id = 'new'"],
    "forget a past": ["delete from session_lineage"],
    "rewrite a past": ["update session_lineage set ancestor_id = 's'"],
    "another's log as its own past": ["insert into session_lineage values ('new', 0, 's', 0, 3, 0)"],
    "a past as copied": ["copy session_lineage from stdin"],
    "a past by conflict": ["insert into session_lineage values ('new', 0, 's', 0, 3, 0) "
                           "on conflict (session_id, position) do update set ancestor_id = 's'"],
    "a past by merge": ["merge into session_lineage l using (select 1) as one on l.session_id = 'new' "
                        "when not matched then insert values ('new', 0, 's', 0, 3, 0)"],
    "truncate pasts": ["truncate session_lineage"],
    "a past of another's": ["do $$ begin if set_past('new', 's', 1) = 0 then "
                            "raise insufficient_privilege; end if; end $$"],
    "a past as a column": ["update session set past_id = 's', past_seq = 1"],
    "another place of an item": ["update imported_key set session_id = 's'"],
    "a past of no parent": ["do $$ begin if inherit_past('new') = 0 then raise insufficient_privilege; end if; end $$"],
    "another parent": ["update session set parent_id = 's', parent_seq = 3 where id = 'new'"],
    "another point of its parent": ["update session set parent_seq = 3"],
    "another parent by conflict": ["insert into session (id, agent, root_id, parent_id, created_at, last_event_at, "
                                   "last_occurred_at) values ('new', 'coder', 's', 's', now(), now(), now()) "
                                   "on conflict (id) do update set parent_id = 's'"],
    "another parent, as imported": ["update session set origin = 'x:new' where id = 'new'"],
    "another parent by the function": ["do $$ begin perform set_parent('new', 's', 'fork'); if (select parent_id from "
                                       "session where id = 'new') is null then raise insufficient_privilege; end if; "
                                       "end $$"],
    "another root": ["update session set root_id = 's' where id = 'new'"],
    "another root by the function": ["do $$ begin if not exists (select from move_to_root('new', 's')) then "
                                     "raise insufficient_privilege; end if; end $$"],
    "another kind": ["update session set kind = 'sub-agent' where id = 'new'"],
    "evidence that never happened": ["update session set simulated = false"],
    "hide as simulated": ["update session set simulated = true where id = 's'"],
    "another person": ["update session set peer = 'mallory'"],
    "another agent": ["update session set agent = 'mallory'"],
    "another channel": ["update session set channel = 'mail'"],
    "another key": ["update session set key = 'coder:mail:mallory'"],
    "another conversation": ["update session set conversation_id = 's'"],
    "empty the history of agents": ["truncate agent_version"],
    "change an agent's history without its guard": ["alter table agent_version disable trigger all"],
    "rewrite an erasure": ["update erasure set reason = ''"],
    "rewrite a pruning": ["update pruning set overridden = true"],
    # its guards
    "disable triggers": ["alter table event disable trigger all"],
    "disable a partition's trigger": [f"alter table {PART} disable trigger event_kept"],
    "drop a trigger": [f"drop trigger event_kept on {PART}"],
    "replay replication": ["set session_replication_role = replica"],
    "replace a guard": ["create or replace function refuse_event_delete() returns trigger language plpgsql as "
                        "$$ begin return old; end $$"],
    "replace a function of the owner": ["create or replace function is_of_this_transaction(row_xmin xid) "
                                        "returns boolean language sql as $$ select true $$"],
    "take its security off": ["alter function erase_session(text, text, bigint, text, timestamptz) security invoker"],
    "point a function elsewhere": ["alter function forget_claims(timestamptz) set search_path = pg_temp"],
    "drop a function": ["drop function stamp_settled_events(text, text, bigint[], timestamptz)"],
    "add a rule": ["create rule gone as on insert to event do instead nothing"],
    "add a trigger": ["create trigger mine before insert on event for each row execute function refuse_event_change()"],
    "row security": ["alter table event enable row level security"],
    "drop a partition": [f"drop table {PART}"],
    "detach a partition": [f"alter table event detach partition {PART}"],
    "detach a partition beside others": [f"alter table event detach partition {PART} concurrently"],
    "drop a partition that is not pruned": ["do $$ begin if not drop_log_partition('event', '2026-03-02') then "
                                            "raise insufficient_privilege; end if; end $$"],
    "drop a table by the function": ["do $$ begin if not drop_log_partition('session', '2026-03-02') then "
                                     "raise insufficient_privilege; end if; end $$"],
    "drop by injection": ["do $$ begin if not drop_log_partition('event; drop table seal; --', '2026-03-02') then "
                          "raise insufficient_privilege; end if; end $$"],
    "drop the schema": ["drop schema consolidator cascade"],
    "rename a table": ["alter table event rename to event_old"],
    "a view in its place": ["create view consolidator.mine as select 1"],
    "a table of its own": ["create table consolidator.mine (x int)"],
    "a function of its own": ["create function consolidator.mine() returns int language sql as 'select 1'"],
    "a schema of its own": ["create schema mine"],
    # stamps
    "stamp alone": ["select stamp_events('r', 'new', 0, 2, 2, '1970-01-01', '9999-01-01', '{}', now())"],
    "stamp after an unrelated row": [
        "insert into setting (name, value) values ('x', 'y')",
        "select stamp_events('r', 'new', 0, 2, 2, '1970-01-01', '9999-01-01', '{}', now())",
    ],
    "stamp with a digest alone": [
        "insert into digest (session_id, agent, last_at, version) values ('new', 'coder', now(), 'v')",
        "select stamp_events('r', 'new', 0, 2, 2, '1970-01-01', '9999-01-01', '{}', now())",
    ],
    "stamp by the run of another session": [
        "insert into digest (session_id, agent, last_at, version) values ('new', 'coder', now(), 'v')",
        "insert into run (id, job, scheduled_at, started_at, heartbeat_at, owner) "
        "values ('mine', 'consolidation', now(), now(), now(), 'me')",
        "insert into claim (run_id, kind, unit, seen, nothing) values ('mine', 'session', 's', 2, 2)",
        "select stamp_events('mine', 'new', 0, 2, 2, '1970-01-01', '9999-01-01', '{}', now())",
    ],
    "stamp by a run that counted less": [
        "insert into digest (session_id, agent, last_at, version) values ('new', 'coder', now(), 'v')",
        "insert into run (id, job, scheduled_at, started_at, heartbeat_at, owner) "
        "values ('mine', 'consolidation', now(), now(), now(), 'me')",
        "insert into claim (run_id, kind, unit, seen, nothing) values ('mine', 'session', 'new', 1, 1)",
        "select stamp_events('mine', 'new', 0, 2, 2, '1970-01-01', '9999-01-01', '{}', now())",
    ],
    "stamp by a run of another job": [
        "insert into digest (session_id, agent, last_at, version) values ('new', 'coder', now(), 'v')",
        "insert into run (id, job, scheduled_at, started_at, heartbeat_at, owner) "
        "values ('mine', 'import', now(), now(), now(), 'me')",
        "insert into claim (run_id, kind, unit, seen, nothing) values ('mine', 'session', 'new', 2, 2)",
        "select stamp_events('mine', 'new', 0, 2, 2, '1970-01-01', '9999-01-01', '{}', now())",
    ],
    "stamp beyond the head": ["select stamp_events('r', 'new', 0, 99, 99, '1970-01-01', '9999-01-01', '{}', now())"],
    "stamp further than was learned": [
        "insert into digest (session_id, agent, last_at, version) values ('new', 'coder', now(), 'x')",
        "insert into run (id, job, scheduled_at, started_at, heartbeat_at, owner) "
        "values ('mine', 'consolidation', now(), now(), now(), 'me')",
        "insert into claim (run_id, kind, unit, seen, nothing) values ('mine', 'session', 'new', 1, 1)",
        "select stamp_events('mine', 'new', 0, 1, 2, '1970-01-01', '9999-01-01', '{}', now())",
    ],
    "stamp as read by a model": [
        RUN,
        "select stamp_awaited_events('mine', 'new', 0, 2, '1970-01-01', '9999-01-01', now())",
    ],
    "stamp as read by a model, after moving its mark": [
        RUN,
        "update session set extracted_to = 2, awaits_model = true where id = 'new'",
        "select stamp_awaited_events('mine', 'new', 0, 2, '1970-01-01', '9999-01-01', now())",
    ],
    "stamp as waiting for no model": [
        RUN,
        "update session set awaits_model = false where id = 'new'",
        "select stamp_awaited_events('mine', 'new', 0, 2, '1970-01-01', '9999-01-01', now())",
    ],
    "stamp as read by a model without a run": [
        "update session set awaits_model = false where id = 's'",
        "select stamp_awaited_events('r', 's', 0, 3, '1970-01-01', '9999-01-01', now())",
    ],
    "stamp as read by a model in an import": [
        RUN.replace("consolidation", "import"),
        "update session set awaits_model = false where id = 's'",
        "select stamp_awaited_events('mine', 's', 0, 3, '1970-01-01', '9999-01-01', now())",
    ],
    "stamp as read what another transaction marked": [
        RUN,
        "select stamp_awaited_events('mine', 's', 0, 3, '1970-01-01', '9999-01-01', now())",
    ],
    "say that nobody recorded it": ["update session set recorded_by = null"],
    "say that another recorded it": ["update session set recorded_by = 'me' where id = 'new'"],
    "stamp as settled": ["select stamp_settled_events('r', 'new', '{1}', now())"],
    "stamp as settled long ago": [
        "insert into dead_letter (id, run_id, session_id, seq, extractor, error, created_at, settled_at) "
        "values ('d', 'r', 'new', 1, 'x', 'x', now(), now())",
        "select stamp_settled_events('r', 'new', '{1}', now())",
    ],
    "move the watermark": ["update session set consolidated_to = head"],
    # pruning and erasing
    "mark as pruned": ["update session set pruned_to = head"],
    "forget where the chain began": ["update session set unchained_to = head"],
    "change the hash that the rest is verified against": ["update session set pruned_hash = '\\x00'"],
    "delete a session": ["delete from session where id = 'new'"],
    "delete an erasure": ["delete from erasure"],
    "log an erasure alone": ["insert into erasure (id, session_id, events, derived, reason, erased_at) "
                             "values ('e', 'new', 0, 0, '', now())"],
    "prune without a run": ["select begin_pruning(null, '2026-03-03', false)"],
    "prune by an invented run": ["select begin_pruning('mine', '2026-03-03', false)"],
    "prune past the brakes": ["select begin_pruning(null, '2026-03-03', true)"],
    "prune with a clock ahead": [
        "insert into run (id, job, scheduled_at, started_at, heartbeat_at, owner) "
        "values ('mine', 'retention', now(), now(), now(), 'me')",
        "select begin_pruning('mine', now() + interval '9 years', false)",
    ],
    "prune all of the log": [
        "insert into run (id, job, scheduled_at, started_at, heartbeat_at, owner) "
        "values ('mine', 'retention', now(), now(), now(), 'me')",
        "select prune_session(begin_pruning('mine', '2026-03-03', false), 's', 3, 0)",
    ],
    "prune what was not learned from": [
        "insert into run (id, job, scheduled_at, started_at, heartbeat_at, owner) "
        "values ('mine', 'retention', now(), now(), now(), 'me')",
        "do $$ begin if prune_session(begin_pruning('mine', '2026-03-03', false), 'new', 2, 0) = 0 then "
        "raise insufficient_privilege; end if; end $$",
    ],
    "write a pruning down": ["insert into pruning (id, cutoff, overridden, login, begun_at) "
                             "values ('p', now(), true, 'me', now())"],
    # what goes with the log
    "delete chunks": ["delete from generation_chunk"],
    "rewrite chunks": ["update generation_chunk set delta = 'forged'"],
    "delete deliveries": ["delete from delivery"],
    "move a delivery": ["update delivery set upto_seq = 99"],
    "rewrite a blob": ["update blob set body = 'forged'"],
    "replace a blob": ["insert into blob (sha256, media_type, size, body, touched_at) select sha256, media_type, size, "
                       "'forged', touched_at from blob on conflict (sha256) do update set body = excluded.body"],
    "delete a blob": ["delete from blob"],
    "drop a reference to a blob": ["delete from blob_ref"],
    "delete a seal": ["delete from seal"],
    "rewrite a seal": ["update seal set root = '\\x00'"],
    "insert a seal": ["insert into seal (number, sealed_at) values (9, now())"],
    "forget a sealed chain": ["delete from sealed_session"],
    "record another chain": ["insert into sealed_session (session_hash, seq, hash) values ('\\x00', 1, '\\x00')"],
    "delete a run": ["delete from run"],
    "rename a run's job": ["update run set job = 'import', arguments = '{}'"],
    "delete claims": ["delete from claim"],
    "delete dead letters": ["delete from dead_letter"],
    "forget what was imported": ["delete from imported_key"],
    "say that the schema is another": ["update alembic_version set version_num = '9999'"],
    # the server
    "become the owner": ["set role consolidator"],
    "become the owner for good": ["set session authorization consolidator"],
    "join another role": ["grant pg_write_all_data to current_user"],
    "grant itself more": ["grant all on event to current_user", "delete from event"],
    "own a table": ["alter table event owner to current_user"],
    "make a superuser": ["create role mine superuser"],
    "read a file": ["select pg_read_file('/etc/passwd')"],
    "list a directory": ["select pg_ls_dir('/')"],
    "import a file": ["select lo_import('/etc/passwd')"],
    "copy to a program": ["copy event to program 'cat'"],
    "copy from a file": ["copy event (session_id) from '/etc/passwd'"],
    "load a library": ["load 'auto_explain'"],
    "an untrusted language": ["create extension plpython3u"],
    "change the server": ["alter system set fsync = off"],
    "read passwords": ["select * from pg_authid"],
    "stop another's work": ["select pg_terminate_backend(pid) from pg_stat_activity where usename = 'consolidator'",
                            "alter role consolidator nologin"],
    "a database of its own": ["create database mine"],
    "vectors by injection": ["select create_vector_index('m', 3, 'turn'' or true')"],
    "a publication": ["create publication mine for table event"],
    "statistics of the owner": ["create statistics mine on session_id, seq from event"],
    "a policy": ["create policy mine on event using (false)"],
    "an event trigger": ["create event trigger mine on ddl_command_end execute function refuse_event_change()"],
    "a comment that says the grants are made": ["comment on schema consolidator is 'x'"],
}  # fmt: skip


@pytest.fixture
async def log(database: Database, clock: FrozenClock, settings: Settings) -> Database:
    """A sealed session "s" of three events, and a session "new" of two that no night has read."""
    await log_events(database, "s", [user_message("one")])
    await log_events(database, "s", call_and_result("c1", "Bash", {"command": "make"}, LARGE))
    clock.advance(timedelta(hours=1))
    await run_job(database, settings)
    await log_events(database, "new", [user_message("three"), user_message("four")])
    return database


def evidence(dsn: str) -> list[object]:
    """Everything that an attack on the log would change, hashed."""
    with psycopg.connect(dsn) as conn:
        return [conn.execute(query.encode()).fetchone() for query in EVIDENCE]


def attack(dsn: str, statements: list[str]) -> None:
    """Run statements in one transaction, as plain SQL; an attack that is not refused is committed."""
    with psycopg.connect(dsn, autocommit=len(statements) == 1) as conn:
        conn.execute("set search_path = consolidator")
        for statement in statements:
            conn.execute(statement.encode())


async def test_what_the_writer_may_not_do_is_refused_and_leaves_the_log_as_it_was(
    log: Database, dsn: str, writer_dsn: str
) -> None:
    """One test for all, since each needs the same log: it names every attack that was not refused."""
    before, came_through = evidence(dsn), []
    for name, statements in ATTACKS.items():
        try:
            attack(writer_dsn, statements)
        except REFUSED:
            pass
        else:
            came_through.append(name)
        if evidence(dsn) != before:
            pytest.fail(f"{name}: the log is another one")
    assert came_through == []
    assert {name: cases for name, cases in (await verify_database(log)).items() if cases} == {}


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("update session set head = head + 1, due = true where id = 's'", "I2 seq is dense"),
        ("update session set chain_hash = sha256('x') where id = 'new'", "I17 events are what was appended"),
        ("update session set head = 1 where id = 'new'", "I17 events are what was appended"),
        (
            "insert into event (session_id, seq, event_type, data, created_at) values ('new', 3, 'UserMessage', "
            """'{"text": "forged"}', '2026-03-02 13:00:00+00')""",
            "I17 events are what was appended",
        ),
    ],
)
async def test_what_the_writer_may_do_to_a_head_is_found(
    log: Database, writer_dsn: str, statement: str, check: str
) -> None:
    attack(writer_dsn, [statement])
    assert (await verify_database(log)).get(check), {k: v for k, v in (await verify_database(log)).items() if v}


async def test_the_callers_own_tables_and_path_change_nothing_in_the_owners_functions(
    log: Database, dsn: str, writer_dsn: str, clock: FrozenClock, settings: Settings
) -> None:
    with psycopg.connect(dsn) as owner:  # a server that lets everybody make temporary tables
        row = owner.execute("select current_database()").fetchone()
        assert row is not None
        owner.execute(f'grant temporary on database "{row[0]}" to public'.encode())
    shadows = [
        "create temporary table erasure (id text, session_id text)",
        "create temporary table digest (session_id text)",
        "create temporary table claim (run_id text, kind text, unit text, seen bigint)",
        "create temporary table run (id text, job text, status text)",
        "create function pg_temp.is_of_this_transaction(xid) returns boolean language sql as 'select true'",
        "create function pg_temp.is_owner_login() returns boolean language sql as 'select true'",
        "insert into digest values ('new')",
        "insert into claim values ('r', 'session', 'new', 2)",
        "insert into run values ('r', 'consolidation', 'running')",
        "set search_path = pg_temp, consolidator, pg_catalog",
    ]
    for last in (
        "select consolidator.stamp_events('r', 'new', 0, 2, 2, '1970-01-01', '9999-01-01', '{}', now())",
        "select consolidator.begin_pruning(null, '2026-03-03', true)",
        "delete from consolidator.event",
    ):
        with pytest.raises(REFUSED):
            attack(writer_dsn, [*shadows, last])


async def test_a_reader_reads_and_writes_nothing(log: Database, dsn: str, reader_dsn: str) -> None:
    with psycopg.connect(reader_dsn) as conn:
        assert conn.execute("select count(*) from consolidator.event").fetchone() == (5,)
    before, came_through = evidence(dsn), []
    with psycopg.connect(dsn) as conn:
        tables = [
            str(name)
            for (name,) in conn.execute(
                "select relname from pg_class where relkind in ('r', 'p') "
                "and relnamespace = 'consolidator'::regnamespace"
            )
        ]
        functions = [
            str(name)
            for (name,) in conn.execute(
                "select p.oid::regprocedure::text from pg_proc p where pronamespace = 'consolidator'::regnamespace "
                "and has_function_privilege('consolidator_reader', p.oid, 'execute') and not exists "
                "(select from pg_depend d where d.objid = p.oid and d.deptype = 'e')"
            )
        ]
    assert functions == []
    for statement in [
        *(f"delete from {table}" for table in tables),
        *(f"insert into {table} default values" for table in tables),
        *(f"truncate {table}" for table in tables),
        *(f"select * from {table} for update" for table in tables),
        "select pg_advisory_lock(1)",
        "select pg_advisory_xact_lock_shared(1)",
        "select lo_create(0)",
        "select nextval('event_id_seq')",
        "select token_hash from credential",
        "update credential set scopes = '{admin}'",
        "update session set peer = 'me'",
        "insert into session_lineage (session_id) values ('new')",
        "select seal_chains('r', now())",
        "select erase_session('e', 'new', 0, '', now())",
        "with gone as (delete from event returning *) select count(*) from gone",
    ]:
        try:
            attack(reader_dsn, [statement])
        except REFUSED:
            pass
        else:
            came_through.append(statement)
    assert came_through == []
    assert evidence(dsn) == before


async def test_the_service_works_as_the_writer_from_log_to_retention(
    dsn: str, writer_dsn: str, clock: FrozenClock, settings: Settings
) -> None:
    database = Database(writer_dsn, clock, owner_dsn=dsn)
    try:
        await log_events(database, "s", [user_message("I prefer tabs")])
        await log_events(database, "s", call_and_result("c1", "Bash", {"command": "make"}, LARGE))
        await log_events(database, "t", [user_message("hello")])
        clock.advance(timedelta(hours=1))
        assert (await run_job(database, settings))["seal"]["sessions"] == 2
        await erase_sessions(database, settings, await plan_erasure(database, session="t"), reason="asked to")
        clock.advance(timedelta(days=40))
        pruned = await run_job(database, settings, "retention")
        assert (pruned["events"], pruned["blobs"]) == (3, 1)
        assert {name: cases for name, cases in (await verify_database(database)).items() if cases} == {}
    finally:
        await database.close()


async def test_without_the_owners_address_the_brakes_hold(
    log: Database, writer_dsn: str, clock: FrozenClock, settings: Settings
) -> None:
    database = Database(writer_dsn, clock)
    try:
        clock.advance(timedelta(days=40))
        with pytest.raises(DatabaseError, match="only the owner"):
            await run_job(database, settings, "retention")
    finally:
        await database.close()
    assert (await verify_database(log))["I2 seq is dense"] == []


async def test_an_older_schema_is_named_to_who_may_not_upgrade_it(
    dsn: str, writer_dsn: str, reader_dsn: str, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await asyncio.to_thread(upgrade.prepare, writer_dsn, clock) == "writer"
    assert await asyncio.to_thread(upgrade.prepare, reader_dsn, clock) == "reader"
    assert await asyncio.to_thread(upgrade.prepare, dsn, clock) == "owner"
    known = upgrade.known_revisions() | {"9998"}
    monkeypatch.setattr(upgrade, "known_revisions", lambda: known)  # a version with one more migration
    for address in (writer_dsn, reader_dsn):
        with pytest.raises(DatabaseError, match="CONSOLIDATOR_OWNER_URL"):
            await asyncio.to_thread(upgrade.prepare, address, clock)


async def test_a_login_without_a_role_is_told_which_one_it_needs(
    dsn: str, server_dsn: str, logins: Logins, clock: FrozenClock
) -> None:
    name = f"test_stranger_{logins.writer[0]}"
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(f"create role {name} login password 'x'".encode())
        try:
            with pytest.raises(DatabaseError, match="consolidator_reader"):
                await asyncio.to_thread(upgrade.prepare, make_conninfo(dsn, user=name, password="x"), clock)
        finally:
            conn.execute(f"drop role {name}".encode())


async def test_who_may_not_create_roles_is_told_what_to_run(
    dsn: str, server_dsn: str, logins: Logins, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"test_maker_{logins.writer[0]}"
    monkeypatch.setattr(roles, "WRITER", f"{name}_writer")  # a server without the roles
    with psycopg.connect(server_dsn, autocommit=True) as conn, psycopg.connect(dsn, autocommit=True) as own:
        conn.execute(f"create role {name} login password 'x'".encode())
        try:
            own.execute(f"grant create on database {own.info.dbname} to {name}".encode())
            own.execute(f"grant execute on function pg_advisory_xact_lock(bigint) to {name}".encode())
            with pytest.raises(DatabaseError, match=f"CREATEROLE run `create role {name}_writer"):
                await asyncio.to_thread(upgrade.create_roles, make_conninfo(dsn, user=name, password="x"))
        finally:
            own.execute(f"drop owned by {name}".encode())
            conn.execute(f"drop role {name}".encode())


async def test_an_embedded_database_without_roles_is_given_them(tmp_path: Path, clock: FrozenClock) -> None:
    """Several processes open it at once."""
    settings = Settings(home=tmp_path / "home", health_port=0)
    async with open_database(settings, clock) as database:
        await log_events(database, "s", [user_message("from before")])
    server = await EmbeddedServer.start(settings.home)
    try:
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            conn.execute("drop owned by consolidator_writer, consolidator_reader")
            conn.execute("drop role consolidator_writer, consolidator_reader")
        passwords = settings.home / "postgres" / "roles.json"
        passwords.unlink()
        await server.stop()

        async def append(number: int) -> str:
            async with open_database(settings, clock) as database:
                await log_events(database, f"n{number}", [user_message("hello")])
                return database.access

        assert await asyncio.gather(*(append(number) for number in range(3))) == ["writer"] * 3
        assert stat.S_IMODE(passwords.stat().st_mode) == 0o600
        async with open_database(settings, clock) as database:
            assert {name: cases for name, cases in (await verify_database(database)).items() if cases} == {}
            async with database.connection() as driver:
                cursor = await driver.execute(
                    "select rolsuper, current_user from pg_roles where rolname = current_user"
                )
                assert await cursor.fetchone() == (False, "consolidator_writer")
    finally:
        await (await EmbeddedServer.start(settings.home)).delete()
