-- name: move_heads
-- A session's head is its lock and its version.
update session
set head = head + loaded.count,
    due = true,
    last_event_at = greatest(last_event_at, %(now)s),
    last_occurred_at = greatest(last_occurred_at, coalesce(loaded.occurred, %(now)s)),
    status = case when loaded.ends then 'ended' else status end,
    completed_at = case when loaded.ends then coalesce(completed_at, loaded.occurred, %(now)s) else completed_at end
from unnest(%(sessions)s::text[], %(counts)s::bigint[], %(occurred)s::timestamptz[], %(ends)s::boolean[])
     as loaded (session_id, count, occurred, ends)
where id = loaded.session_id
returning id as session_id, head - loaded.count as base, last_event_at as now,
          coalesce(chain_hash, sha256(convert_to(id, 'UTF8'))) as chain_hash

-- name: set_chain_hashes
update session set chain_hash = loaded.chain_hash
from unnest(%(sessions)s::text[], %(hashes)s::bytea[]) as loaded (session_id, chain_hash)
where id = loaded.session_id
returning case when followed_until > clock_timestamp() then pg_notify('consolidator_followed', id) end

-- name: append
-- The one way to append: it moves the head and writes the events in one statement. The hashes are computed before the
-- session's row is written, so the row is locked first.
with locked as (
    select id, head, last_event_at, coalesce(chain_hash, sha256(convert_to(id, 'UTF8'))) as chain_hash from session
    where id = %(session)s
      and (%(expected)s::bigint is null or head = %(expected)s)
      and (%(epoch)s::bigint is null or lease_epoch = %(epoch)s)
      and (not %(counts_task)s or open_task is not distinct from %(open_task)s::text)
      and (%(key)s::text is null
           or not exists (select from idempotency where session_id = %(session)s and key = %(key)s))
    for no key update
), chained as materialized (
    select id, head as base, greatest(last_event_at, %(now)s) as now,
           chain_events(chain_hash, %(contents)b::bytea, head, greatest(last_event_at, %(now)s)) as hashes
    from locked
), moved as (
    update session
    set head = chained.base + %(count)s,
        due = true,
        last_event_at = chained.now,
        last_occurred_at = greatest(last_occurred_at, coalesce(%(occurred)s, %(now)s)),
        status = case when %(ends)s then 'ended' else status end,
        completed_at = case when %(ends)s then coalesce(completed_at, chained.now) else completed_at end,
        open_task = case when %(counts_task)s then %(task_after)s::text else open_task end,
        chain_hash = chained.hashes[%(count)s]
    from chained where session.id = chained.id
    returning chained.base, chained.now, chained.hashes,
              case when followed_until > clock_timestamp() then pg_notify('consolidator_followed', session.id) end
), remembered as (
    insert into idempotency (session_id, key, first_seq, last_seq, created_at)
    select %(session)s, %(key)s, base + 1, base + %(count)s, now from moved where %(key)s::text is not null
), written as (
    insert into event (session_id, seq, event_type, data, created_at, task_id, tool_name, hash, principal)
    select %(session)s, base + new.n, new.type, new.data::jsonb, now, new.task, new.tool, hashes[new.n], new.principal
    from moved cross join
         unnest(%(types)s::text[], %(datas)b::text[], %(tasks)s::text[], %(tools)s::text[],
                %(principals)s::text[]) with ordinality as new (type, data, task, tool, principal, n)
    returning seq
)
select min(seq), max(seq) from written

-- name: append_one
-- The same for one event without a key, which is written most: it costs the server half as much. Only followed sessions
-- notify: at a commit that does, PostgreSQL lets no other one commit.
with moved as (
    update session
    set head = head + 1,
        due = true,
        last_event_at = greatest(last_event_at, %(now)s),
        last_occurred_at = greatest(last_occurred_at, coalesce(%(occurred)s, %(now)s)),
        status = case when %(ends)s then 'ended' else status end,
        completed_at = case when %(ends)s then coalesce(completed_at, %(now)s) else completed_at end,
        open_task = case when %(counts_task)s then %(task_after)s::text else open_task end,
        chain_hash = sha256(coalesce(chain_hash, sha256(convert_to(id, 'UTF8'))) || %(content)b || int8send(head + 1)
                            || timestamptz_send(greatest(last_event_at, %(now)s)))
    where id = %(session)s
      and (%(expected)s::bigint is null or head = %(expected)s)
      and (%(epoch)s::bigint is null or lease_epoch = %(epoch)s)
      and (not %(counts_task)s or open_task is not distinct from %(open_task)s::text)
    returning head as seq, last_event_at as now, chain_hash,
              case when followed_until > clock_timestamp() then pg_notify('consolidator_followed', id) end
)
insert into event (session_id, seq, event_type, data, created_at, task_id, tool_name, hash, principal)
select %(session)s, seq, %(type)s, %(data)s::jsonb, now, %(task)s, %(tool)s, chain_hash, %(principal)s from moved
returning seq, seq

-- name: refusal
-- Why nothing was appended: an answered key, an unknown session, another head, another epoch, or another open task.
select s.head, s.lease_epoch, s.open_task, i.first_seq, i.last_seq
from session s
left join idempotency i on i.session_id = s.id and i.key = %(key)s
where s.id = %(session)s

-- name: read
-- A window of one session in order of seq; the bounds on created_at let the planner skip partitions.
select e.id, e.session_id, e.seq, e.event_type, e.data, e.created_at, e.consolidated_at, e.task_id, e.tool_name,
       e.principal
from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.created_at >= %(low)s and e.created_at <= %(high)s
order by e.seq
limit %(limit)s

-- name: read_open_end
-- The last settled event of a session, which tells whether a kept log is still this one, and those after it. With the
-- three before that they meet what was kept when the last turn's model was asked: an answer, its start and its route
-- came since. A join with the session would read all of its events, and all days, where few statistics are there yet.
select e.id, e.session_id, e.seq, e.event_type, e.data, e.created_at, e.consolidated_at, e.task_id, e.tool_name,
       e.principal
from event e
where e.session_id = %(session)s and e.seq >= (select settled_to - 3 from session where id = %(session)s)
  and e.created_at >= session_time(%(session)s, false) and e.created_at <= session_time(%(session)s, true)
order by e.seq

-- name: stamp
-- Moves a watermark over a span and marks its events up to %(stamped_to)s as learned from, once, except those in %(dead)s.
-- The function refuses if this transaction has not stored what was learned.
select stamp_events(%(run)s, %(session)s, %(after)s, %(upto)s, %(stamped_to)s, %(low)s, %(high)s, %(dead)s::bigint[], %(now)s)

-- name: stamp_awaited
-- Marks what waited for a model, except dead letters, where this transaction has noted that nothing waits for it any more.
select stamp_awaited_events(%(run_id)s, %(session)s, %(after)s, %(upto)s, %(low)s, %(high)s, %(now)s)

-- name: outline
-- What a session did, without what was said: each event with its first words.
select e.seq, e.event_type, coalesce(e.tool_name, e.data ->> 'tool') as tool, e.data ->> 'call_id' as call_id,
       e.data ->> 'status' as status, e.created_at as at, e.data ->> 'occurred_at' as occurred,
       left(coalesce(e.data ->> 'text', case when e.event_type = 'ToolCall' then coalesce(
           e.data #>> '{arguments,command}', e.data #>> '{arguments,file_path}', e.data #>> '{arguments,path}', e.data #>> '{arguments,pattern}',
           e.data ->> 'arguments')
       end, e.data ->> 'message', ''), 200) as words
from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.created_at >= %(low)s and e.created_at <= %(high)s
  and e.event_type in ('UserMessage', 'AssistantResponse', 'ToolCall', 'ToolResult', 'Error')
order by e.seq
limit %(limit)s
