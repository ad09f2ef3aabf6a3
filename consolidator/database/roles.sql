-- Grants the two roles what they need, and nothing else, in this database; run by the owner of the schema, after every
-- upgrade. Whatever is not named here can be written by the writer: memory can be derived again, the log cannot.
do $$
declare
    -- Written by functions of the owner alone.
    owned constant text[] := '{alembic_version, erasure, pruning, seal, sealed_session, sealed_message, session_lineage}';
    -- Only added to, but for the columns that are granted below.
    kept constant text[] := '{event, generation_chunk, delivery, blob, blob_ref, session, run, claim, dead_letter, imported_key,
        agent_version, seed}';
    -- What the reader has no use for: the hashes of tokens.
    hidden constant text[] := '{credential}';
    granted constant text[] := '{create_event_partition, create_chunk_partition, session_time, chain_events, hash_output, hash_messages, is_owner_login, stamp_events,
        stamp_settled_events, stamp_awaited_events, mark_recorded, seal_chains, begin_pruning, prune_session, delete_pruned_events, delete_pruned_output,
        drop_log_partition, read_floor, inherit_past, set_past, place_keys, set_parent, move_to_root, finish_partition_drops, collect_blobs, forget_claims, erase_session, install_pgvector,
        create_vector_index, drop_vector_indexes}';
    part record;
    columns text;
begin
    if to_regrole('consolidator_writer') is null or to_regrole('consolidator_reader') is null then
        return;
    end if;
    revoke all on schema consolidator from public, consolidator_writer, consolidator_reader;
    revoke all on all tables in schema consolidator from public, consolidator_writer, consolidator_reader;
    revoke all on all sequences in schema consolidator from public, consolidator_writer, consolidator_reader;
    revoke all on all functions in schema consolidator from public, consolidator_writer, consolidator_reader;
    grant usage on schema consolidator to consolidator_writer, consolidator_reader;
    grant usage on all sequences in schema consolidator to consolidator_writer;
    for part in
        select relname from pg_class
        where relnamespace = 'consolidator'::regnamespace and relkind in ('r', 'p') and not relispartition
    loop
        if not part.relname = any(hidden) then
            execute format('grant select on consolidator.%I to consolidator_reader', part.relname);
        end if;
        execute format('grant select on consolidator.%I to consolidator_writer', part.relname);
        if not part.relname = any(owned || kept) then
            execute format('grant insert, update, delete on consolidator.%I to consolidator_writer', part.relname);
        elsif part.relname = any(kept) and part.relname <> 'event' then
            execute format('grant insert on consolidator.%I to consolidator_writer', part.relname);
        end if;
    end loop;
    -- An event comes in unstamped, with the number that the sequence gives it.
    select string_agg(quote_ident(attname), ', ') into columns from pg_attribute
    where attrelid = 'consolidator.event'::regclass and attnum > 0 and not attisdropped
      and attname not in ('id', 'consolidated_at');
    execute format('grant insert (%s) on consolidator.event to consolidator_writer', columns);
    -- An append moves the head; where learning, pruning and the hash chain began is not the writer's to say, nor who
    -- a session is of and where it comes from.
    select string_agg(quote_ident(attname), ', ') into columns from pg_attribute
    where attrelid = 'consolidator.session'::regclass and attnum > 0 and not attisdropped
      and attname not in ('id', 'base_seq', 'consolidated_to', 'pruned_to', 'pruned_hash', 'unchained_to', 'created_at',
          'recorded_by', 'origin', 'key', 'conversation_id', 'agent', 'memory', 'channel', 'peer', 'parent_id', 'parent_seq',
          'past_id', 'past_seq',
          'root_id', 'kind', 'simulated');
    execute format('grant update (%s) on consolidator.session to consolidator_writer', columns);
    grant update (touched_at) on consolidator.blob to consolidator_writer;
    grant update (status, owner, heartbeat_at, finished_at, report, error, deaths)
        on consolidator.run to consolidator_writer;
    grant update (status, owner, lease_until, attempts, seen, learned, nothing, deferred, dead, error, note)
        on consolidator.claim to consolidator_writer;
    grant update (settled_at, settlement) on consolidator.dead_letter to consolidator_writer;
    grant truncate on consolidator.posting, consolidator.corpus, consolidator.embedding to consolidator_writer;
    for part in
        select p.oid::regprocedure as function from pg_proc p
        where p.pronamespace = 'consolidator'::regnamespace and p.proname = any(granted)
    loop
        execute format('grant execute on function %s to consolidator_writer', part.function);
    end loop;
    -- Types and operators of pgvector, where it lives in this schema.
    for part in
        select p.oid::regprocedure as function from pg_proc p
        join pg_depend d on d.objid = p.oid and d.classid = 'pg_proc'::regclass and d.deptype = 'e'
        where p.pronamespace = 'consolidator'::regnamespace
    loop
        execute format('grant execute on function %s to public', part.function);
    end loop;
    if (select pg_has_role(current_user, datdba, 'usage') from pg_database where datname = current_database()) then
        execute format('revoke temporary, create on database %I from public, consolidator_writer, consolidator_reader',
                       current_database());
    end if;
    -- A reader that holds an advisory lock would stop nights and upgrades.
    if (select rolsuper from pg_roles where rolname = current_user) then
        for part in
            select p.oid::regprocedure as function from pg_proc p
            where p.pronamespace = 'pg_catalog'::regnamespace
              and (p.proname ~ '^pg_(try_)?advisory_' or p.proname ~ '^lo_|^lo(read|write)$')
        loop
            execute format('revoke execute on function %s from public', part.function);
            if part.function::text ~ 'advisory' then
                execute format('grant execute on function %s to consolidator_writer', part.function);
            end if;
        end loop;
    end if;
end $$
