-- What only the log's owner may do, as functions that check it, and the triggers that refuse everything else.
--
-- The role that the service runs as is granted these functions in place of UPDATE and DELETE on the log (see
-- `consolidator/database/roles.sql`). `security definer` ones search our schema first and a caller's temporary tables
-- last, whatever search_path the caller has set. `consolidator db verify` compares each body with this file.

-- The log is append-only: what its triggers refuse --------------------------------------------------------------------

-- Refuses an update of an event: all of it but its first stamp stays as it was written.
create function refuse_event_change() returns trigger language plpgsql as $$
begin
    raise exception 'the log is append-only: % of event % of session % refused', tg_op, old.seq, old.session_id
        using errcode = 'integrity_constraint_violation';
end $$;

-- Refuses TRUNCATE of a table of the log.
create function refuse_event_truncate() returns trigger language plpgsql as $$
begin
    raise exception 'the log is append-only: TRUNCATE of % refused', tg_table_name
        using errcode = 'integrity_constraint_violation';
end $$;

-- An event goes if it is learned from and its session's prefix is marked as pruned, or if its erasure is logged in this
-- transaction.
create function refuse_event_delete() returns trigger language plpgsql as $$
begin
    if old.consolidated_at is not null
       and exists (select from consolidator.session where id = old.session_id and old.seq <= pruned_to)
       or exists (select from consolidator.erasure where session_id = old.session_id
                  and consolidator.is_of_this_transaction(xmin)) then
        return old;
    end if;
    raise exception 'event % of session % has not been learned from and pruned: DELETE refused', old.seq, old.session_id
        using errcode = 'integrity_constraint_violation';
end $$;

-- Refuses an update of a chunk or a delivery.
create function refuse_companion_change() returns trigger language plpgsql as $$
begin
    raise exception 'the log is append-only: % of % of message % of session % refused',
        tg_op, tg_table_name, old.message_id, old.session_id using errcode = 'integrity_constraint_violation';
end $$;

-- Chunks and deliveries live as long as the event that began their message, or their session is erased.
create function refuse_companion_delete() returns trigger language plpgsql as $$
begin
    if exists (select from consolidator.session where id = old.session_id and pruned_to < old.started_seq)
       and not exists (select from consolidator.erasure where session_id = old.session_id
                       and consolidator.is_of_this_transaction(xmin)) then
        raise exception 'message % of session % is still in the log: DELETE of its % refused',
            old.message_id, old.session_id, tg_table_name using errcode = 'integrity_constraint_violation';
    end if;
    return old;
end $$;

-- Refuses a change of an agent's version: what ran under it stays readable.
create function refuse_version_change() returns trigger language plpgsql as $$
begin
    raise exception 'versions of agents are append-only: % of version % of agent % refused',
        tg_op, old.version, old.agent using errcode = 'integrity_constraint_violation';
end $$;

-- Partitions, one a day -----------------------------------------------------------------------------------------------

-- Creates the partition of one day, then attaches it, so that no lock on the log is held while it is built.
create function create_event_partition(day date) returns boolean
language plpgsql security definer set search_path = consolidator, pg_temp set lock_timeout = '30s' as $$
declare
    part text := 'event_' || to_char(day, 'YYYYMMDD');
    low timestamptz := day::timestamp at time zone 'UTC';
    high timestamptz := (day + 1)::timestamp at time zone 'UTC';
begin
    if exists (select from pg_inherits join pg_class on oid = inhrelid
               where inhparent = 'event'::regclass and relname = part) then
        return false;
    end if;
    perform pg_advisory_xact_lock(hashtext('consolidator.partition'));
    -- Whoever waited looks again, by name: to_regclass may answer from before the wait, since no table was locked.
    if exists (select from pg_inherits join pg_class on oid = inhrelid
               where inhparent = 'event'::regclass and relname = part) then
        return false;
    end if;
    execute format('create table if not exists %I (like event including defaults including constraints)', part);
    execute format('alter table %I drop constraint if exists event_day', part);
    execute format('alter table %I add constraint event_day check (created_at >= %L and created_at < %L)',
                   part, low, high);
    execute format('create or replace trigger event_immutable before update of '
                   'id, session_id, seq, event_type, data, created_at, task_id, tool_name, hash, principal on %I '
                   'for each row execute function refuse_event_change()', part);
    execute format('create or replace trigger event_stamped_once before update of consolidated_at on %I for each row '
                   'when (old.consolidated_at is not null or new.consolidated_at is null) '
                   'execute function refuse_event_change()', part);
    execute format('create or replace trigger event_kept before delete on %I '
                   'for each row execute function refuse_event_delete()', part);
    execute format('create or replace trigger event_not_truncated before truncate on %I '
                   'for each statement execute function refuse_event_truncate()', part);
    execute format('alter table %I enable always trigger event_immutable', part);
    execute format('alter table %I enable always trigger event_stamped_once', part);
    execute format('alter table %I enable always trigger event_kept', part);
    execute format('alter table %I enable always trigger event_not_truncated', part);
    execute format('alter table event attach partition %I for values from (%L) to (%L)', part, low, high);
    execute format('alter table %I drop constraint event_day', part);
    return true;
end $$;

-- Creates the partition of one day of chunks, as `create_event_partition` does for events.
create function create_chunk_partition(day date) returns boolean
language plpgsql security definer set search_path = consolidator, pg_temp set lock_timeout = '30s' as $$
declare
    part text := 'generation_chunk_' || to_char(day, 'YYYYMMDD');
    parent regclass := 'generation_chunk'::regclass;
    low timestamptz := day::timestamp at time zone 'UTC';
    high timestamptz := (day + 1)::timestamp at time zone 'UTC';
begin
    if exists (select from pg_inherits join pg_class on oid = inhrelid
               where inhparent = parent and relname = part) then
        return false;
    end if;
    perform pg_advisory_xact_lock(hashtext('consolidator.partition'));
    -- Whoever waited looks again, by name: to_regclass may answer from before the wait, since no table was locked.
    if exists (select from pg_inherits join pg_class on oid = inhrelid
               where inhparent = parent and relname = part) then
        return false;
    end if;
    execute format('create table if not exists %I (like generation_chunk including defaults including constraints)',
                   part);
    execute format('alter table %I drop constraint if exists generation_chunk_day', part);
    execute format('alter table %I add constraint generation_chunk_day check (created_at >= %L and created_at < %L)',
                   part, low, high);
    execute format('create or replace trigger chunk_immutable before update on %I '
                   'for each row execute function refuse_companion_change()', part);
    execute format('create or replace trigger chunk_kept before delete on %I '
                   'for each row execute function refuse_companion_delete()', part);
    execute format('create or replace trigger chunk_not_truncated before truncate on %I '
                   'for each statement execute function refuse_event_truncate()', part);
    execute format('alter table %I enable always trigger chunk_immutable', part);
    execute format('alter table %I enable always trigger chunk_kept', part);
    execute format('alter table %I enable always trigger chunk_not_truncated', part);
    execute format('alter table generation_chunk attach partition %I for values from (%L) to (%L)', part, low, high);
    execute format('alter table %I drop constraint generation_chunk_day', part);
    return true;
end $$;

-- Drops the partition of a day if all of it is pruned; false if it is not, or if it is in use. DETACH CONCURRENTLY
-- cannot run in a function, and a plain DETACH waits for readers while others wait for it: so it gives up soon, before
-- PostgreSQL would look for a deadlock. Until then the partition takes no new rows, so the check holds.
create function drop_log_partition(p_parent text, p_day date) returns boolean
language plpgsql security definer set search_path = consolidator, pg_temp set lock_timeout = '800ms' as $$
declare
    part text := p_parent || '_' || to_char(p_day, 'YYYYMMDD');
    kept boolean;
begin
    if p_parent is null or p_parent not in ('event', 'generation_chunk') or not exists (
        select from pg_inherits join pg_class on oid = inhrelid
        where inhparent = to_regclass('consolidator.' || p_parent) and relname = part and not inhdetachpending
    ) or exists (
        select from pg_inherits where inhparent = to_regclass('consolidator.' || p_parent) and inhdetachpending
    ) then
        return false;
    end if;
    execute format('lock table only %I in share mode', part);
    if p_parent = 'event' then
        execute format('select exists (select from %I e left join session s on s.id = e.session_id '
                       'where e.consolidated_at is null or e.seq > coalesce(s.pruned_to, 0))', part) into kept;
    else
        execute format('select exists (select from %I c join session s on s.id = c.session_id '
                       'where c.started_seq > s.pruned_to)', part) into kept;
    end if;
    if kept then
        return false;
    end if;
    execute format('alter table %I detach partition %I', p_parent, part);
    execute format('drop table %I', part);
    return true;
exception when lock_not_available or undefined_table then  -- another process dropped it meanwhile
    return false;
end $$;

-- Drops partitions that an earlier version left between detaching and dropping.
create function finish_partition_drops() returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp set lock_timeout = '800ms' as $$
declare
    parent regclass;
    part text;
    finished bigint := 0;
begin
    for parent, part in select inhparent::regclass, relname from pg_inherits join pg_class on oid = inhrelid
        where inhparent in ('event'::regclass, 'generation_chunk'::regclass) and inhdetachpending loop
        execute format('alter table %s detach partition %I finalize', parent, part);
    end loop;
    for part in select relname from pg_class where relkind = 'r' and relnamespace = 'consolidator'::regnamespace
        and obj_description(oid, 'pg_class')
            = 'consolidator: everything in here is past retention and learned from; to be dropped'
        and not exists (select from pg_inherits where inhrelid = oid) loop
        execute format('drop table if exists %I', part);
        finished := finished + 1;
    end loop;
    return finished;
exception when lock_not_available then
    return 0;
end $$;

-- When a session began, or when its last event was ingested. In a condition it is evaluated before a query begins, so that
-- days outside are not opened at all; to open each day of a year took longer than to read the end of a log.
create function session_time(p_session text, p_is_last boolean) returns timestamptz language plpgsql stable as $$
begin
    return (select case when p_is_last then last_event_at else created_at end from session where id = p_session);
end $$;

-- The hash chain and its seals ----------------------------------------------------------------------------------------

-- The hashes of new events: each covers the hash before it, its content, its seq and its time. `contents` are the hashes
-- of their contents, one after another.
create function chain_events(previous bytea, contents bytea, head bigint, at timestamptz) returns bytea[]
language plpgsql immutable as $$
declare
    hashes bytea[] := '{}';
    hash bytea := previous;
begin
    for n in 1 .. length(contents) / 32 loop
        hash := sha256(hash || substr(contents, 32 * n - 31, 32) || int8send(head + n) || timestamptz_send(at));
        hashes := hashes || hash;
    end loop;
    return hashes;
end $$;

-- The hash of a chunk (without a channel) or of a delivery (without a delta), as whoever adds it stores it.
create function hash_output(p_session text, p_message text, p_channel text, p_delta text, p_seq bigint,
                            p_started bigint, p_after bigint, p_at timestamptz) returns bytea language sql stable as $$
    select sha256(timestamptz_send(p_at) || convert_to(jsonb_build_array(
        p_session, p_message, p_channel, p_delta, p_seq, p_started, p_after
    )::text, 'UTF8'))
$$;

-- For each message one hash over the chunks and deliveries of it with these numbers, in their order.
create function hash_messages(p_after bigint, p_upto bigint) returns table (
    session_id text, message_id text, started_seq bigint, hash bytea
) language sql stable as $$
    select o.session_id, o.message_id, min(o.started_seq),
           sha256(string_agg(int8send(o.id) || o.hash, ''::bytea order by o.id))
    from (
        select c.session_id, c.message_id, c.started_seq, c.id, hash_output(
            c.session_id, c.message_id, null, c.delta, c.seq, c.started_seq, c.after_seq, c.created_at
        ) as hash from consolidator.generation_chunk c where c.id > p_after and c.id <= p_upto
        union all
        select d.session_id, d.message_id, d.started_seq, d.id, hash_output(
            d.session_id, d.message_id, d.channel, null, d.upto_seq, d.started_seq, null, d.sent_at
        ) from consolidator.delivery d where d.id > p_after and d.id <= p_upto
    ) o
    group by o.session_id, o.message_id
$$;

-- Seals what was recorded since the last seal: a root over the root before it, the chains and the messages, in order.
create function seal_chains(p_run text, p_now timestamptz) returns setof seal
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    previous seal;
    next_number bigint;
    upto bigint;
    chains bytea;
    covered bigint;
    messages bytea;
begin
    perform pg_advisory_xact_lock(hashtext('consolidator.seal'));
    select * into previous from seal order by number desc limit 1;
    next_number := coalesce(previous.number, 0) + 1;
    upto := coalesce(previous.output_to, 0);
    -- Everyone who took a number up to this one has committed: only then is no more to come below it. The end of the
    -- block lets go of the locks; if they are not to be had, the next seal covers what came in.
    begin
        perform set_config('lock_timeout', '800ms', true);
        lock table only generation_chunk, only delivery in share mode;
        select case when is_called then last_value else 0 end into upto from output_id_seq;
        raise sqlstate 'CO001';
    exception when sqlstate 'CO001' or lock_not_available then
    end;
    with sealed as (
        update sealed_session set seal = next_number where sealed_session.seal is null
        returning session_hash, seq, hash
    )
    select count(*), string_agg(session_hash || int8send(seq) || hash, ''::bytea order by session_hash, seq)
    into covered, chains from sealed;
    with sealed as (
        insert into sealed_message (seal, session_hash, message_hash, started_seq, hash)
        select next_number, sha256(convert_to(session_id, 'UTF8')), sha256(convert_to(message_id, 'UTF8')),
               started_seq, hash
        from hash_messages(coalesce(previous.output_to, 0), upto)
        returning session_hash, message_hash, started_seq, hash
    )
    select string_agg(session_hash || message_hash || int8send(started_seq) || hash, ''::bytea
                      order by session_hash, message_hash)
    into messages from sealed;
    if covered > 0 or messages is not null then
        return query insert into seal (number, run_id, sealed_at, sessions, output_to, root)
        values (next_number, p_run, p_now, covered, upto, sha256(
            coalesce(previous.root, ''::bytea) || coalesce(chains, ''::bytea) || int8send(upto)
            || coalesce(messages, ''::bytea)
        ))
        returning *;
    end if;
end $$;

-- Who calls -----------------------------------------------------------------------------------------------------------

-- Whether a row that is visible here was written by this transaction: no other one that is in progress shows any.
create function is_of_this_transaction(row_xmin xid) returns boolean language plpgsql as $$
declare
    mine bigint := pg_current_xact_id_if_assigned()::text::bigint;
    writer bigint;
begin
    if mine is null then
        return false;
    end if;
    writer := ((mine >> 32) << 32) | row_xmin::text::bigint;
    if writer <= mine then
        return writer = mine;
    end if;
    return pg_xact_status(writer::text::xid8) = 'in progress';  -- by one of its savepoints
end $$;

-- Whether the login is the owner of the log: then it may do what the brakes of the functions refuse to others.
create function is_owner_login() returns boolean language sql stable as $$
    select pg_has_role(session_user, nspowner, 'usage') from pg_namespace where nspname = 'consolidator'
$$;

-- Learned from: the only update of an event ---------------------------------------------------------------------------

-- Moves a session's watermark over a span and stamps its events up to p_stamped_to as learned from; the rest waits for
-- a model. What was learned must have been stored in this transaction: the session's digest, and the counts of its unit
-- in a run that has not ended.
create function stamp_events(p_run text, p_session text, p_after bigint, p_upto bigint, p_stamped_to bigint, p_low
                             timestamptz, p_high timestamptz, p_dead bigint[], p_now timestamptz) returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    pruned bigint;
    stamped bigint;
begin
    update session set consolidated_to = p_upto, due = head > p_upto,
        awaits_model = awaits_model or p_stamped_to < p_upto
    where id = p_session and consolidated_to = p_after and p_after < p_upto and p_upto <= head
      and p_stamped_to between p_after and p_upto
    returning pruned_to into pruned;
    if not found then
        raise exception 'session %: its watermark is not at %, or its log does not reach event %',
            p_session, p_after, p_upto using errcode = 'integrity_constraint_violation';
    end if;
    if not exists (
        select from claim c join run r on r.id = c.run_id
        where c.run_id = p_run and c.kind = 'session' and c.unit = p_session and c.seen >= p_upto - p_after
          and r.status in ('running', 'interrupted') and r.job not in ('import', 'retention')
          and is_of_this_transaction(c.xmin)
    ) then
        raise exception 'session %: this transaction counted nothing for it in run %: stamp refused', p_session, p_run
            using errcode = 'integrity_constraint_violation';
    end if;
    -- A digest of an older version stays as it is where the events that it was made of are pruned.
    if not exists (
        select from digest where session_id = p_session and (is_of_this_transaction(xmin) or pruned > 0)
    ) then
        raise exception 'session %: this transaction stored nothing that was learned from it: stamp refused', p_session
            using errcode = 'integrity_constraint_violation';
    end if;
    if exists (
        select from unnest(p_dead) as dead (seq)
        where dead.seq > p_after and dead.seq <= p_upto and not exists (
            select from dead_letter d where d.session_id = p_session and d.seq = dead.seq and d.settled_at is null
        )
    ) then
        raise exception 'session %: an event is left out without a dead letter: stamp refused', p_session
            using errcode = 'integrity_constraint_violation';
    end if;
    update event set consolidated_at = p_now
    where session_id = p_session and seq > p_after and seq <= p_stamped_to and consolidated_at is null
      and created_at >= p_low and created_at <= p_high and not (seq = any(p_dead));
    get diagnostics stamped = row_count;
    -- How far the session was learned from; events from before the hash chain have no hash, and are not sealed.
    insert into sealed_session (session_hash, seq, hash)
    select sha256(convert_to(e.session_id, 'UTF8')), e.seq, e.hash from event e
    where e.session_id = p_session and e.seq = p_upto and e.hash is not null
      and e.created_at >= p_low and e.created_at <= p_high
    on conflict do nothing;
    return stamped;
end $$;

-- Stamps single events whose dead letters this transaction has settled, and counted in a run that has not ended.
create function stamp_settled_events(p_run text, p_session text, p_seqs bigint[], p_now timestamptz) returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    stamped bigint;
begin
    if exists (
        select from unnest(p_seqs) as settled (seq) where not exists (
            select from dead_letter d where d.session_id = p_session and d.seq = settled.seq
            and d.settled_at is not null and is_of_this_transaction(d.xmin)
        )
    ) or not exists (
        select from claim c join run r on r.id = c.run_id
        where c.run_id = p_run and c.kind = 'session' and c.unit = p_session
          and r.status in ('running', 'interrupted') and is_of_this_transaction(c.xmin)
    ) then
        raise exception 'session %: this transaction settled no dead letter of these events: stamp refused', p_session
            using errcode = 'integrity_constraint_violation';
    end if;
    update event e set consolidated_at = p_now from session s
    where s.id = p_session and e.session_id = p_session and e.seq = any(p_seqs) and e.consolidated_at is null
      and e.seq <= s.consolidated_to and not (s.awaits_model and e.seq > s.extracted_to);
    get diagnostics stamped = row_count;
    return stamped;
end $$;

-- Stamps what rules have learned from and a model had not, where this transaction has noted that the model has read it
-- (session.extracted_to) or that none will (session.awaits_model). Dead letters stay as they are.
create function stamp_awaited_events(p_run text, p_session text, p_after bigint, p_upto bigint, p_low timestamptz,
                                     p_high timestamptz, p_now timestamptz) returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    stamped bigint;
begin
    if not exists (
        select from session s
        where s.id = p_session and p_upto <= s.consolidated_to and (p_upto <= s.extracted_to or not s.awaits_model)
          and is_of_this_transaction(s.xmin)
    ) or not exists (
        select from run where id = p_run and status in ('running', 'interrupted') and job not in ('import', 'retention')
    ) then
        raise exception 'session %: this transaction did not end the wait for a model up to event %: stamp refused',
            p_session, p_upto using errcode = 'integrity_constraint_violation';
    end if;
    update event e set consolidated_at = p_now
    where e.session_id = p_session and e.seq > p_after and e.seq <= p_upto and e.consolidated_at is null
      and e.created_at >= p_low and e.created_at <= p_high
      and not exists (select from dead_letter d
                      where d.session_id = p_session and d.seq = e.seq and d.settled_at is null);
    get diagnostics stamped = row_count;
    return stamped;
end $$;

-- Retention and erasure: the only ways in which an event goes ---------------------------------------------------------

-- The last event of a session before what somebody else still reads of its log; null where nobody does. A child that is
-- open and not idle reads its window, what waits for an answer, and what its summary does not cover yet; a checkpoint
-- that has not expired reads what a restore from it would.
create function read_floor(p_session text, p_cutoff timestamptz, p_window bigint, p_now timestamptz) returns bigint
language sql stable as $$
    with child as (
        select l.after_seq, l.upto_seq, l.shift,
               case when c.origin is null and c.recorded_by is null
                    then least(c.head - p_window, c.settled_to, coalesce(v.upto, 0))
                    else c.head - p_window end as read_from
        from session_lineage l join session c on c.id = l.session_id left join session_view v on v.session_id = c.id
        where l.ancestor_id = p_session and c.status = 'open' and c.last_event_at >= p_cutoff
        union all
        select c.base_seq, c.head, 0, coalesce(v.upto, 0)
        from session c left join session_view v on v.session_id = c.id
        where c.id = p_session and c.status = 'open' and c.last_event_at >= p_cutoff
          and c.origin is null and c.recorded_by is null
          and exists (select from session_lineage l where l.session_id = c.id)
    ), restore as (
        select coalesce(l.after_seq, s.base_seq) as after_seq, coalesce(l.upto_seq, k.seq) as upto_seq,
               coalesce(l.shift, 0) as shift, least(k.seq - p_window, coalesce((k.fold ->> 'upto')::bigint, 0)) as read_from
        from (select p_session as id, null::bigint as after_seq, null::bigint as upto_seq, null::bigint as shift
              union all
              select session_id, after_seq, upto_seq, shift from session_lineage where ancestor_id = p_session) l
        join checkpoint k on k.session_id = l.id and (p_now is null or k.expires_at is null or k.expires_at > p_now)
        join session s on s.id = l.id
    )
    select min(greatest(after_seq, read_from - shift))
    from (select * from child union all select * from restore) as reader
    where greatest(after_seq, read_from - shift) < upto_seq
$$;

-- Begins to prune what was ingested before a cutoff, for a run of retention. Only the owner goes past the brakes: a
-- cutoff that the database's own clock has not passed by most of a day, or (prune_session) half of the log in a day.
create function begin_pruning(p_run text, p_cutoff timestamptz, p_override boolean) returns text
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    pruning_id text := gen_random_uuid()::text;
begin
    if not is_owner_login() then
        if p_override then
            raise exception 'only the owner of the log may prune past the brakes'
                using errcode = 'insufficient_privilege';
        end if;
        if not exists (select from run where id = p_run and job = 'retention' and status = 'running') then
            raise exception 'run % is no running retention', p_run using errcode = 'integrity_constraint_violation';
        end if;
        if p_cutoff is null or p_cutoff > now() - interval '23 hours' then
            raise exception 'the database''s clock is at %: nothing from after % is past retention', now(),
                now() - interval '23 hours' using errcode = 'integrity_constraint_violation';
        end if;
    end if;
    insert into pruning (id, run_id, cutoff, log_events, overridden, login, begun_at)
    values (pruning_id, p_run, p_cutoff, case when p_override then 0 else (select count(*) from event) end,
            p_override, session_user, now());
    return pruning_id;
end $$;

-- Marks a prefix as gone before it is deleted: readers begin after `pruned_to`, so a crash in between leaves no gap.
-- The conditions hold against a session that was written to since it was looked at.
-- The last hash that goes stays with the session: what is left is verified against it.
create function prune_session(p_pruning text, p_session text, p_upto bigint, p_window bigint) returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    current pruning;
    old_session session;
    total bigint;
    log_size bigint;
begin
    select * into current from pruning where id = p_pruning;
    if not current.overridden then  -- before the session is locked: one pruning at a time counts what went in a day
        lock table pruning in share row exclusive mode;
    end if;
    if current.id is null then
        raise exception 'no pruning has begun under the name %', p_pruning
            using errcode = 'integrity_constraint_violation';
    end if;
    if current.run_id is not null
       and not exists (select from run where id = current.run_id and status in ('running', 'interrupted')) then
        raise exception 'run % has ended', current.run_id using errcode = 'integrity_constraint_violation';
    end if;
    select * into old_session from session
    where id = p_session and pruned_to < p_upto and consolidated_to >= p_upto
      and (status <> 'open' or last_event_at < current.cutoff or head - p_window >= p_upto)
    for no key update;
    if not found then
        return 0;
    end if;
    if read_floor(p_session, current.cutoff, p_window, null) < p_upto then
        return 0;
    end if;
    if exists (
        select from event e where e.session_id = p_session and e.seq > old_session.pruned_to and e.seq <= p_upto
        and (e.consolidated_at is null or e.created_at >= current.cutoff)
    ) then
        raise exception 'session %: it has events up to % that were not learned from or are not past retention',
            p_session, p_upto using errcode = 'integrity_constraint_violation';
    end if;
    update session set pruned_to = p_upto,
        pruned_hash = (select e.hash from event e where e.session_id = p_session and e.seq = p_upto)
    where id = p_session;
    delete from blob_ref where session_id = p_session and seq <= p_upto;
    update pruning set events = events + p_upto - old_session.pruned_to, sessions = sessions + 1 where id = p_pruning;
    if not current.overridden then
        select sum(events), max(log_events) into total, log_size from pruning
        where not overridden and begun_at > now() - interval '23 hours';
        if total > log_size / 2.0 then
            raise exception '% of % events would be pruned within a day: only the owner may prune more than half',
                total, log_size using errcode = 'integrity_constraint_violation';
        end if;
    end if;
    return p_upto - old_session.pruned_to;
end $$;

-- Deletes a bounded batch of what is marked as pruned.
create function delete_pruned_events(p_session text, p_cutoff timestamptz, p_batch bigint) returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    upto bigint := (select pruned_to from session where id = p_session);
    deleted bigint;
begin
    delete from event where (session_id, seq, created_at) in (
        select e.session_id, e.seq, e.created_at from event e
        where e.session_id = p_session and e.seq <= upto and e.created_at < p_cutoff order by e.seq limit p_batch
    );
    get diagnostics deleted = row_count;
    return deleted;
end $$;

-- Deletes a bounded batch of the chunks and deliveries of messages whose first event is pruned.
create function delete_pruned_output(p_session text, p_batch bigint) returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    upto bigint := (select pruned_to from session where id = p_session);
    chunks bigint;
    deliveries bigint;
begin
    delete from generation_chunk where (session_id, message_id, seq, created_at) in (
        select c.session_id, c.message_id, c.seq, c.created_at from generation_chunk c
        where c.session_id = p_session and c.started_seq <= upto order by c.started_seq limit p_batch
    );
    get diagnostics chunks = row_count;
    delete from delivery where (session_id, message_id, channel, upto_seq) in (
        select d.session_id, d.message_id, d.channel, d.upto_seq from delivery d
        where d.session_id = p_session and d.started_seq <= upto order by d.started_seq limit p_batch
    );
    get diagnostics deliveries = row_count;
    return chunks + deliveries;
end $$;

-- Deletes a bounded batch of blobs that no event refers to and that no writer has named for a while.
create function collect_blobs(p_untouched_since timestamptz, p_batch bigint) returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    deleted bigint;
begin
    delete from blob where sha256 in (
        select b.sha256 from blob b
        where b.touched_at < p_untouched_since and not exists (select from blob_ref r where r.sha256 = b.sha256)
        order by b.sha256 limit p_batch for update skip locked
    );
    get diagnostics deleted = row_count;
    return deleted;
end $$;

-- Deletes the claims of runs that ended long ago; the run keeps their sums, and what could not be learned from has dead
-- letters.
create function forget_claims(p_cutoff timestamptz) returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    deleted bigint;
begin
    delete from claim
    where run_id in (select id from run where status in ('done', 'failed') and finished_at < p_cutoff);
    get diagnostics deleted = row_count;
    return deleted;
end $$;

-- Erases a session's log, and records that first: the guards let go of nothing else. The caller has erased what was
-- derived from it, in the same transaction.
create function erase_session(p_session text, p_id text, p_derived bigint, p_reason text, p_now timestamptz) returns
                              bigint language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    shas bytea[];
    erased bigint;
begin
    perform from session where id = p_session for update;
    select count(*) into erased from event where session_id = p_session;
    insert into erasure (id, session_id, events, derived, reason, erased_at)
    values (p_id, p_session, erased, p_derived, p_reason, p_now);
    with gone as (delete from blob_ref where session_id = p_session returning sha256)
    select array_agg(distinct sha256) into shas from gone;
    -- Blobs that nothing else refers to; one that is locked is just getting another reference.
    delete from blob where sha256 in (
        select b.sha256 from blob b
        where b.sha256 = any(shas) and not exists (select from blob_ref r where r.sha256 = b.sha256)
        order by b.sha256 for update skip locked
    );
    delete from event where session_id = p_session;
    delete from dead_letter where session_id = p_session;
    delete from generation_chunk where session_id = p_session;
    delete from delivery where session_id = p_session;
    delete from idempotency where session_id = p_session;
    delete from session where id = p_session;
    return erased;
end $$;

-- Sessions that others write, and their pasts -------------------------------------------------------------------------

-- Notes who else adds to a session, once: the runtime does not drive it any more.
create function mark_recorded(p_session text, p_by text) returns void
language sql security definer set search_path = consolidator, pg_temp as $$
    update session set recorded_by = p_by where id = p_session and recorded_by is null
$$;

-- Has a session read its parent's past up to the point where it left it, once; an imported one that numbers its own
-- events from 1 has that past at positions of 0 and below. Nothing for a session without a parent, or with one that is
-- not here. Returns how many ranges it reads.
create function inherit_past(p_session text) returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    child session;
    inherited bigint;
begin
    select * into child from session
    where id = p_session and coalesce(past_id, parent_id) <> id and coalesce(past_seq, parent_seq) > 0
      and kind <> 'sub-agent'
      and not exists (select from session_lineage where session_id = p_session)
      and not exists (select from session_lineage where session_id = coalesce(session.past_id, session.parent_id)
                      and ancestor_id = p_session);
    if not found then
        return 0;
    end if;
    insert into session_lineage (session_id, position, ancestor_id, after_seq, upto_seq, shift)
    select p_session, row_number() over (order by past.position) - 1, past.ancestor_id, past.after_seq,
           least(past.upto_seq, coalesce(child.past_seq, child.parent_seq) - past.shift),
           past.shift - case when child.base_seq = 0 then coalesce(child.past_seq, child.parent_seq) else 0 end
    from (
        select position, ancestor_id, after_seq, upto_seq, shift from session_lineage
        where session_id = coalesce(child.past_id, child.parent_id)
        union all
        select 2147483647, id, base_seq, coalesce(child.past_seq, child.parent_seq), 0 from session
        where id = coalesce(child.past_id, child.parent_id)
    ) past
    where least(past.upto_seq, coalesce(child.past_seq, child.parent_seq) - past.shift) > past.after_seq;
    get diagnostics inherited = row_count;
    return inherited;
end $$;

-- Names the memory that a new session teaches: of the owner's sessions in a project, of whatever agent, the shared one,
-- unless agents are kept apart; of all others their agent's own, as of what a credential for one agent records and of
-- what somebody asks memory (`remember` says whose it is). A session that has taught something stays with its memory.
create function name_memory() returns trigger language plpgsql as $$
declare
    root session;
begin
    select * into root from session where id = new.root_id and id <> new.id;
    new.memory = case
        when tg_op = 'UPDATE' and old.consolidated_to > 0 then old.memory
        when coalesce(current_setting('consolidator.share_between_agents', true), '') <> 'off'
             and coalesce(root.peer, new.peer) is null and (new.project is not null or root.memory = 'all agents')
             and not starts_with(coalesce(new.key, ''), new.agent || ':memory:')
             and not exists (select from credential c where c.name = new.recorded_by and c.agent is not null)
        then 'all agents' else new.agent end;
    return new;
end $$;

-- Notes the parent of an imported session that came before it was known; one that is known stays.
create function set_parent(p_session text, p_parent text, p_kind text) returns void
language sql security definer set search_path = consolidator, pg_temp as $$
    update session set parent_id = p_parent, kind = p_kind
    where id = p_session and origin is not null and parent_id is null
$$;

-- Moves an imported session and its descendants to the root that they turned out to have; returns those that moved.
create function move_to_root(p_session text, p_root text) returns table (id text)
language sql security definer set search_path = consolidator, pg_temp as $$
    update session s set root_id = p_root
    where s.root_id = p_session
      and exists (select from session i where i.id = p_session and i.origin is not null)
    returning s.id
$$;

-- Notes in which event each of these items is, once; the importer that adds an item says it in the same transaction.
create function place_keys(p_keys uuid[], p_sessions text[], p_seqs bigint[]) returns void
language sql security definer set search_path = consolidator, pg_temp as $$
    update imported_key k set session_id = place.session_id, seq = place.seq
    from unnest(p_keys, p_sessions, p_seqs) as place (key, session_id, seq)
    where k.key = place.key and k.session_id is null
$$;

-- Has an imported session read another one of the same agent, person and project up to an event, as its own past, once;
-- that is its parent, or whichever log got first what both hold. Returns how many ranges it reads.
create function set_past(p_session text, p_source text, p_seq bigint) returns bigint
language plpgsql security definer set search_path = consolidator, pg_temp as $$
begin
    update session s
    set parent_seq = case when s.parent_id = p_source then p_seq else s.parent_seq end,
        past_id = case when s.parent_id is distinct from p_source then p_source end,
        past_seq = case when s.parent_id is distinct from p_source then p_seq end
    from session t
    where s.id = p_session and t.id = p_source and t.id <> s.id
      and s.origin is not null and s.kind <> 'sub-agent' and s.base_seq = 0
      and s.parent_seq is null and s.past_id is null
      and t.origin is not null and p_seq > t.base_seq and p_seq <= t.head
      and t.agent = s.agent and t.peer is not distinct from s.peer and t.project is not distinct from s.project
      and (select count(*) from session_lineage where session_id = p_source) < 1000;
    return inherit_past(p_session);
end $$;

-- Vectors, where the server has pgvector ------------------------------------------------------------------------------

-- Installs pgvector into our schema, which only an owner of the database may do.
create function install_pgvector() returns void
language plpgsql security definer set search_path = consolidator, pg_temp as $$
begin
    create extension if not exists vector schema consolidator;
end $$;

-- The part of an index's name that stands for a model, the size of its vectors and their type.
create function vector_index_key(p_model text, p_size integer) returns text language sql stable as $$
    select left(encode(sha256(convert_to(p_model || chr(31) || p_size || chr(31) || exists (
        select from pg_type t join pg_extension x on x.extnamespace = t.typnamespace
        where x.extname = 'vector' and t.typname = 'halfvec')::text, 'UTF8')), 'hex'), 12)
$$;

-- Creates the nearest-neighbour index of one model's vectors of a kind; the name tells the model, their size and type.
create function create_vector_index(p_model text, p_size integer, p_kind text) returns void
language plpgsql security definer set search_path = consolidator, pg_temp set maintenance_work_mem = '512MB' as $$
declare
    place text := (select quote_ident(nspname) from pg_extension x join pg_namespace n on n.oid = x.extnamespace
                   where x.extname = 'vector');
    near text := case when exists (
        select from pg_type t join pg_extension x on x.extnamespace = t.typnamespace
        where x.extname = 'vector' and t.typname = 'halfvec'
    ) then 'halfvec' else 'vector' end;
begin
    if p_kind not in ('turn', 'fact') or p_size is null or p_kind is null or p_model is null or place is null then
        raise exception 'no such kind of vectors' using errcode = 'invalid_parameter_value';
    end if;
    execute format(
        'create index if not exists %1$I on embedding using hnsw ((vector::%2$s.%3$s(%4$s)) %2$s.%3$s_cosine_ops) '
        'where model = %5$L and cardinality(vector) = %4$s and kind = %6$L',
        'embedding_near_' || p_kind || '_' || vector_index_key(p_model, p_size), place, near, p_size, p_model, p_kind);
end $$;

-- Drops the nearest-neighbour indexes of other models.
create function drop_vector_indexes(p_model text, p_size integer) returns void
language plpgsql security definer set search_path = consolidator, pg_temp as $$
declare
    name text;
begin
    for name in select indexname from pg_indexes
        where schemaname = 'consolidator' and tablename = 'embedding' and indexname like 'embedding\_near\_%'
          and indexname not like '%\_' || vector_index_key(p_model, p_size) loop
        execute format('drop index if exists %I', name);
    end loop;
end $$;

-- Triggers of tables; those of partitions are made with the partitions ----------------------------------------------

create trigger event_not_truncated before truncate on event
    for each statement execute function refuse_event_truncate();
alter table event enable always trigger event_not_truncated;
create trigger chunk_not_truncated before truncate on generation_chunk
    for each statement execute function refuse_event_truncate();
alter table generation_chunk enable always trigger chunk_not_truncated;
create trigger delivery_immutable before update on delivery
    for each row execute function refuse_companion_change();
alter table delivery enable always trigger delivery_immutable;
create trigger delivery_kept before delete on delivery
    for each row execute function refuse_companion_delete();
alter table delivery enable always trigger delivery_kept;
create trigger delivery_not_truncated before truncate on delivery
    for each statement execute function refuse_event_truncate();
alter table delivery enable always trigger delivery_not_truncated;
create trigger session_memory before insert or update of project on session
    for each row execute function name_memory();
create trigger agent_version_immutable before update or delete on agent_version
    for each row execute function refuse_version_change();
alter table agent_version enable always trigger agent_version_immutable;

revoke execute on all functions in schema consolidator from public;
