-- The steps of a turn. Each appends events and changes the marks and the money that go with them, in one statement: one
-- round trip, one commit, all or nothing. A statement that is refused changes no row. The parameters of an append are
-- those of events.sql.

-- name: chained
-- A part of each statement: the hashes of the new events, after the locked session's last one.
    select id, head as base, greatest(last_event_at, %(now)s) as now,
           chain_events(chain_hash, %(contents)b::bytea, head, greatest(last_event_at, %(now)s)) as hashes
    from locked

-- name: appended_columns
-- A part of each statement: what an append changes in the session's row.
        head = chained.base + %(count)s,
        due = true,
        last_event_at = chained.now,
        last_occurred_at = greatest(session.last_occurred_at, coalesce(%(occurred)s, %(now)s)),
        open_task = case when %(counts_task)s then %(task_after)s::text else session.open_task end,
        chain_hash = chained.hashes[%(count)s]

-- name: appended_row
-- A part of each statement: what the events need of the changed row; those who follow the session hear of them.
    chained.base, chained.now, chained.hashes,
    case when followed_until > clock_timestamp() then pg_notify('consolidator_followed', session.id) end

-- name: written
-- A part of each statement: the events.
    insert into event (session_id, seq, event_type, data, created_at, task_id, tool_name, hash, principal)
    select %(session)s, base + new.n, new.type, new.data::jsonb, now, new.task, new.tool, hashes[new.n], new.principal
    from moved cross join
         unnest(%(types)s::text[], %(datas)b::text[], %(tasks)s::text[], %(tools)s::text[],
                %(principals)s::text[]) with ordinality as new (type, data, task, tool, principal, n)
    returning seq

-- name: append_message
-- A person's message: the session is open and driven here, a harness must look at it, its end moves on, and an error that
-- said that no driver had its model or its tools no longer stands. Drivers hear of it at the commit, unless an `owner` is
-- named who takes the session, as `acquire` of lease.sql, if nobody holds it.
with locked as (
    select id, head, last_event_at, coalesce(chain_hash, sha256(convert_to(id, 'UTF8'))) as chain_hash,
           %(owner)s::text is not null and (lease_owner is null or lease_until <= %(now)s) as takes
    from session
    where id = %(session)s and status = 'open' and origin is null and recorded_by is null
      and (not %(counts_task)s or open_task is not distinct from %(open_task)s::text)
    for no key update
), chained as materialized (
    -- include: chained
), moved as (
    update session
    set pending = true, wake_after = null,
        lease_epoch = lease_epoch + takes::integer,
        lease_owner = case when takes then %(owner)s else lease_owner end,
        lease_until = case when takes then %(until)s else lease_until end,
        expires_at = coalesce(
            %(now)s + make_interval(secs => (config ->> 'session_ttl_seconds')::double precision), expires_at
        ),
        error = case when error ^@ any(%(driver_errors)s::text[]) then null else error end,
        -- include: appended_columns
    from chained, locked where session.id = chained.id
    returning case when not takes then pg_notify('consolidator_pending', session.id) end,
    -- include: appended_row
), written as (
    -- include: written
)
select min(seq), max(seq), (select takes from locked) from written

-- name: begin_call
-- The start of a model call, with the money for it, as `reserve` of spend.sql: refused where that would pass a cap. What
-- was folded of the session's past for it goes with it.
with payers as materialized (
    -- include: payers
), allowed as (
    select * from payers
    where id = %(session)s and lease_epoch = %(epoch)s
      and (not %(counts_task)s or open_task is not distinct from %(open_task)s::text)
      and not exists (
          select from payers
          where max_cost is not null and (cost + reserved + %(amount)s::numeric <= max_cost) is not true
      )
), locked as (
    select * from allowed
), chained as materialized (
    -- include: chained
), moved as (
    update session
    set reserved = session.reserved + coalesce(%(amount)s::numeric, 0),
        -- include: appended_columns
    from chained where session.id = chained.id
    returning
    -- include: appended_row
), parent_reserves as (
    update session set reserved = session.reserved + coalesce(%(amount)s::numeric, 0)
    from payers where session.id = payers.id and payers.id <> %(session)s and exists (select from allowed)
), set_aside as (
    -- include: insert_call
), folded as (
    insert into session_view (session_id, upto, summary, compaction_seq, compaction, scratchpad_seq, scratchpad)
    select allowed.id, fold.upto, fold.summary, fold.compaction_seq, fold.compaction, fold.scratchpad_seq, fold.scratchpad
    from allowed, jsonb_to_record(%(fold)s::jsonb) as fold (
        upto bigint, summary jsonb, compaction_seq bigint, compaction jsonb, scratchpad_seq bigint, scratchpad text
    )
    where %(fold)s::jsonb is not null
    -- include: keep_further
), written as (
    -- include: written
)
select min(seq), max(seq) from written

-- name: call_ended
-- A part of the next two statements.
with payers as materialized (
    -- include: payers
), locked as (
    select * from payers
    where id = %(session)s and lease_epoch = %(epoch)s
      and (not %(counts_task)s or open_task is not distinct from %(open_task)s::text)
), closed as (
    update spend
    set cost = case when %(input)s::bigint is not null then %(cost)s::numeric
                    when tier is not null then reserved end,
        input_tokens = coalesce(%(input)s::bigint, input_tokens), cached_tokens = %(cached)s,
        output_tokens = coalesce(%(output)s::bigint, output_tokens), settled_at = %(now)s
    where call_id = %(call)s and settled_at is null and exists (select from locked where locked.id = session_id)
    returning model, purpose, reserved, coalesce(cost, 0) as cost, input_tokens as input, cached_tokens as cached,
              output_tokens as output
), chained as materialized (
    -- include: chained
), moved as (
    update session
    set cost = session.cost + coalesce(closed.cost, 0), reserved = session.reserved - coalesce(closed.reserved, 0),
        input_tokens = session.input_tokens + coalesce(closed.input, 0),
        cached_tokens = session.cached_tokens + coalesce(closed.cached, 0),
        output_tokens = session.output_tokens + coalesce(closed.output, 0),
        attention = session.attention || %(requested)s::jsonb,
        answered_by = coalesce(case when closed.purpose = 'step' then closed.model end, session.answered_by),
        turns = session.turns + %(turns)s,
        error = case when %(turns)s > 0 then null else session.error end,
        -- include: appended_columns
    from chained left join closed on true where session.id = chained.id
    returning
    -- include: appended_row
), parent_costs as (
    update session
    set cost = session.cost + closed.cost, reserved = session.reserved - closed.reserved,
        input_tokens = session.input_tokens + closed.input, cached_tokens = session.cached_tokens + closed.cached,
        output_tokens = session.output_tokens + closed.output
    from closed, payers where session.id = payers.id and payers.id <> %(session)s

-- name: end_call
-- The end of a model call, with what it cost: without a reported usage its reserve, and once, as `settle` of spend.sql.
-- Its requests wait for a person; an answer that ends the turn clears the error of an earlier one.
-- include: call_ended
), written as (
    -- include: written
)
select min(seq), max(seq) from written

-- name: end_answer
-- The same with the last chunk of an answer that came whole, before its event: as `append_chunks` of generation.sql.
-- include: call_ended
), last_chunk as (
    insert into generation_chunk (session_id, message_id, seq, started_seq, delta, created_at, after_seq, hash)
    select %(session)s, %(message)s, %(chunk)s, %(started)s, %(delta)s, %(now)s, base,
           hash_output(%(session)s, %(message)s, null, %(delta)s, %(chunk)s, %(started)s, base, %(now)s)
    from moved
), written as (
    -- include: written
)
select min(seq), max(seq) from written

-- name: append_results
-- Results of calls, which no longer wait for a person unless they are `requested`, and their changes of the state.
with locked as (
    select id, head, last_event_at, coalesce(chain_hash, sha256(convert_to(id, 'UTF8'))) as chain_hash from session
    where id = %(session)s and lease_epoch = %(epoch)s
      and (not %(counts_task)s or open_task is not distinct from %(open_task)s::text)
    for no key update
), chained as materialized (
    -- include: chained
), moved as (
    update session
    set attention = (session.attention - %(settled)s::text[]) || %(requested)s::jsonb,
        state = session.state || %(patch)s::jsonb,
        -- include: appended_columns
    from chained where session.id = chained.id
    returning
    -- include: appended_row
), written as (
    -- include: written
)
select min(seq), max(seq) from written
