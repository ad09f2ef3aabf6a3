-- name: open
-- Creates a session, or fills in what became known since it was created.
insert into session (id, origin, key, conversation_id, agent, channel, peer, project, parent_id, parent_seq, past_id,
                     past_seq, root_id, kind, simulated, model, details, status, base_seq, head, consolidated_to, pruned_to, created_at, last_event_at,
                     last_occurred_at)
values (%(id)s, %(origin)s, %(key)s, %(conversation_id)s, %(agent)s, %(channel)s, %(peer)s, %(project)s, %(parent_id)s,
        %(parent_seq)s, %(past_id)s, %(past_seq)s, %(root_id)s, %(kind)s, %(simulated)s, %(model)s, %(details)s, %(status)s, %(base_seq)s, %(pruned_to)s,
        %(pruned_to)s, %(pruned_to)s, %(now)s, %(now)s, '0001-01-01 00:00:00+00')
on conflict (id) do update
set model = coalesce(session.model, excluded.model), project = coalesce(session.project, excluded.project),
    status = case when excluded.status = 'ended' then 'ended' else session.status end
where session.model is null and excluded.model is not null or session.project is null and excluded.project is not null
   or session.status <> 'ended' and excluded.status = 'ended'

-- name: set_parent
select set_parent(%(id)s, %(parent_id)s, %(kind)s)

-- name: get
select * from session where id = %(id)s

-- name: get_current
select * from session where key = %(key)s and current and recorded_by is null

-- name: find_recorded
-- The sessions that some of a client's keys name; what the key `lately` names only if it went on after `since`. A key
-- may be that of the response which a session ends with.
select key, id from session where key = any(%(keys)s) and current and recorded_by = %(recorded_by)s
  and (key <> %(lately)s or last_event_at >= %(since)s)
union all
select trigger_id, id from session
where trigger_type = 'response' and trigger_id = any(%(keys)s) and current and recorded_by = %(recorded_by)s

-- name: set_response
-- A client's next request may name a session by the response that it ends with.
update session set trigger_type = 'response', trigger_id = %(key)s where id = %(id)s

-- name: forget_keys
-- The same words are said anew: what was answered to them is no answer any more.
delete from idempotency where session_id = %(id)s

-- name: rename_key
-- A client's session goes by another key, which no other session has.
update session s set key = %(key)s where key = %(old)s and current and recorded_by = %(recorded_by)s
  and not exists (select from session o where o.key = %(key)s and o.current and o.recorded_by = %(recorded_by)s)

-- name: get_each
select * from session where id = any(%(ids)s)

-- name: first_messages
-- The first messages of sessions, and what memory was told there, cut: of the first events of their own, written in the first days. The text of a large
-- one is in a blob.
select m.* from session s cross join lateral (
    select e.session_id, e.principal, e.data - 'text' - 'statement' as data,
           left(e.data ->> case when e.event_type = 'UserMessage' then 'text' else 'statement' end, %(characters)s) as text,
           e.event_type <> 'UserMessage' as is_statement,
           substring(b.body from 1 for %(characters)s) as blob_head
    from event e
    left join blob b on b.sha256 = decode(substr(e.data #>> '{data_ref,text,ref}', length('blob://sha256/') + 1), 'hex')
    where e.session_id = s.id and e.seq > s.base_seq and e.seq <= s.base_seq + %(events)s
      and e.created_at >= s.created_at and e.created_at <= least(s.last_event_at, s.created_at + interval '7 days')
      and (e.event_type = 'UserMessage'
           or e.event_type = 'PolicyDecision' and e.data ->> 'decision' = 'fact_stated' and e.data ? 'statement')
    order by e.seq limit %(messages)s
) as m
where s.id = any(%(ids)s)

-- name: list_ids
select id from session order by parent_id is not null, coalesce(details #>> '{exported,id}', id) collate "C"

-- name: find
-- Sessions by id, by foreign name with or without its format, or by a prefix of these; exact matches first.
select id, case when id = %(word)s then 3 when origin = %(word)s then 2 when name = %(word)s then 1 else 0 end as exactness
from (select *, substr(origin, strpos(origin, ':') + 1) as name from session) as named
where id like %(like)s or origin like %(like)s or name like %(like)s
order by exactness desc, last_event_at desc
limit 3

-- name: list_due
-- Sessions with events that were not learned from, and how many.
select id, agent, head - consolidated_to as events from session where due order by agent, id

-- name: list_heads
-- How far the logs of all sessions are, or only of those with events that were not learned from.
select id, head from session where %(everything)s or due order by id

-- name: list_current
-- The sessions that their keys name now, here or in the index of the program that they came from.
select id from session where current and recorded_by is null or details @> '{"is_current": true}'

-- name: lock_watermark
-- Locks a session whose watermark no other process has moved since it was read; the stamp moves it.
select id from session where id = %(session)s and consolidated_to = %(after)s for no key update

-- name: lock
select id, head from session where id = any(%(ids)s) order by id collate "C" for update

-- name: lock_shared
-- Protect sessions from erasure until the transaction ends; return those that exist.
select id from session where id = any(%(ids)s) order by id collate "C" for key share

-- name: end_current
-- A key whose session has ended names no session. What a client records has keys of its own.
update session set current = false
where key = %(key)s and current and status = 'ended' and recorded_by is not distinct from %(recorded_by)s

-- name: conversation
-- The conversation that a session of ours continues: the one that is named, else that of the key's last run. A fork
-- that began a conversation is a run of that one.
case when %(recorded_by)s::text is null then coalesce(%(conversation_id)s, (
    select earlier.conversation_id from session earlier
    where earlier.key = %(key)s and earlier.recorded_by is null and not earlier.hidden
      and not (earlier.kind = 'fork' and earlier.conversation_id = earlier.id)
    order by earlier.created_at desc, earlier.id desc limit 1
), %(id)s) end

-- name: open_current
-- The one session that a key names now, created if there is none.
with created as (
    insert into session (id, key, agent, channel, peer, project, root_id, current, recorded_by, conversation_id, created_at,
                         last_event_at, last_occurred_at)
    values (%(id)s, %(key)s, %(agent)s, %(channel)s, %(peer)s, %(project)s, %(id)s, true, %(recorded_by)s,
            -- include: conversation
            , %(now)s, %(now)s, '0001-01-01 00:00:00+00')
    on conflict do nothing returning id
)
select id from created union all
select id from session where key = %(key)s and current and recorded_by is not distinct from %(recorded_by)s limit 1

-- name: clear_current_of_key
update session set current = false where key = %(key)s and current and recorded_by is null

-- name: create
-- A new session, which its key names from now on; nothing where another transaction has just made the key name another.
insert into session (id, key, agent, channel, peer, project, root_id, current, conversation_id, created_at, last_event_at,
                     last_occurred_at)
values (%(id)s, %(key)s, %(agent)s, %(channel)s, %(peer)s, %(project)s, %(id)s, %(key)s::text is not null,
        -- include: conversation
        , %(now)s, %(now)s, '0001-01-01 00:00:00+00')
on conflict do nothing

-- name: lock_client_key
-- Two calls with the same idempotency key come one after the other, also when the first ends its session.
select pg_advisory_xact_lock(hashtextextended(%(recorded_by)s || ':' || %(idempotency)s, 0))

-- name: find_answered
-- The session in which a client's idempotency key was answered.
select s.id from session s join idempotency i on i.session_id = s.id and i.key = %(idempotency)s
where s.key = %(key)s and s.recorded_by = %(recorded_by)s
order by i.created_at limit 1

-- name: mark_started
-- A session's first event needs no answer.
update session set settled_to = %(seq)s, delivered_to = %(seq)s where id = %(id)s and settled_to < %(seq)s

-- name: configure
update session
set model = coalesce(%(model)s, model), max_cost = coalesce(%(max_cost)s, max_cost), config = %(config)s
where id = %(id)s

-- name: describe
-- What a session is for, and until when; null leaves a column as it is, and labels and metadata are added.
update session
set context_window = coalesce(%(context_window)s, context_window), trigger_type = coalesce(%(trigger_type)s, trigger_type),
    trigger_id = coalesce(%(trigger_id)s, trigger_id), labels = labels || %(labels)s::jsonb,
    details = case when %(metadata)s::jsonb = '{}'::jsonb then details
                   else details || jsonb_build_object(
                       'metadata', coalesce(details -> 'metadata', '{}'::jsonb) || %(metadata)s::jsonb) end,
    expires_at = coalesce(%(now)s::timestamptz + make_interval(secs => %(ttl_seconds)s::integer), expires_at)
where id = %(id)s

-- name: set_error
-- The error in which the last turn ended.
update session set error = %(error!)s where id = %(id)s

-- name: retire
-- An ended session is not its key's current one, and waits for nothing.
update session set current = false, pending = false, attention = '{}'::jsonb, hidden = hidden or %(hide)s
where id = %(session_id)s

-- name: lock_key
-- Of two transactions that make a session current, the second must see the first one's result.
select id from session where key = (select key from session where id = %(id)s) order by id collate "C" for update

-- name: clear_other_current
-- The session that the key names now is no longer current.
with chosen as (
    select id, key from session
    where id = %(id)s and status = 'open' and not hidden and origin is null and recorded_by is null
), cleared as (
    update session s set current = false from chosen
    where s.key = chosen.key and s.current and s.recorded_by is null and s.id <> chosen.id
)
select id from chosen

-- name: mark_recorded
-- What an import adds to is not driven any more.
select mark_recorded(%(id)s, %(by)s)

-- name: set_current
update session set current = key is not null where id = %(id)s

-- name: clear_current
update session set current = false where id = %(id)s


-- name: selected
-- A person's sessions are those whose lineage root has that peer. Without `kind`, a conversation's sessions are its runs:
-- a sub-agent's is one within a run.
select s.* from session s left join session root on root.id = s.root_id
where (%(agent)s::text is null or s.agent = %(agent)s)
  and (%(project)s::text is null or s.project = %(project)s)
  and (%(peer)s::text is null or s.peer = %(peer)s)
  and (%(key)s::text is null or s.key = %(key)s)
  and (%(conversation)s::text is null or s.conversation_id = %(conversation)s)
  and (%(parent)s::text is null or s.parent_id = %(parent)s)
  and (%(root)s::text is null or s.root_id = %(root)s)
  and (%(trigger_type)s::text is null or s.trigger_type = %(trigger_type)s)
  and (%(trigger_id)s::text is null or s.trigger_id = %(trigger_id)s)
  and (%(kind)s::text is null and (%(conversation)s::text is null or s.kind <> 'sub-agent') or s.kind = %(kind)s)
  and (%(labels)s::jsonb is null or s.labels <> '{}' and s.labels @> %(labels)s)  -- as the index says
  and (%(since)s::timestamptz is null or s.last_occurred_at >= %(since)s)
  and (%(hidden)s or not s.hidden)
  and (%(person)s::text is null or coalesce(case when root.id is null then s.peer else root.peer end, '') = %(person)s)
  and case %(status)s::text
      when 'open' then s.status = 'open'
      when 'ended' then s.status = 'ended'
      when 'running' then s.status = 'open' and s.lease_owner is not null and s.lease_until > %(now)s
      when 'waiting' then s.status = 'open' and s.attention <> '{}'
      when 'pending' then s.status = 'open' and s.pending
      when 'failed' then s.error is not null
      else true end

-- name: latest
-- By day, in the order of an index; with it few sessions are sorted, those of some days.
-- include: selected
  and (%(at)s::timestamptz is null
       or (s.last_occurred_at, s.id) < (%(at)s, %(last_id)s) and s.last_day <= (%(at)s at time zone 'UTC')::date)
order by s.last_day desc, s.last_occurred_at desc, s.id desc limit %(limit)s

-- name: created
-- include: selected
  and (%(at)s::timestamptz is null or (s.created_at, s.id) < (%(at)s, %(last_id)s))
order by s.created_at desc, s.id desc limit %(limit)s

-- name: runs
-- include: selected
  and (%(at)s::timestamptz is null or (s.created_at, s.id) > (%(at)s, %(last_id)s))
order by s.created_at, s.id limit %(limit)s
