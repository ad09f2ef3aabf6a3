-- name: acquire
-- Acquires a session that nobody holds, or whose holder let the lease expire or is known to be gone. The new epoch
-- fences the previous holder.
update session set lease_epoch = lease_epoch + 1, lease_owner = %(owner)s, lease_until = %(until)s
where id = %(session_id)s
  and (lease_owner is null or lease_until <= %(now)s or lease_owner = %(dead_owner)s)
returning *

-- name: get_holder
select lease_owner as owner from session where id = %(id)s

-- name: renew
update session set lease_until = %(until)s where id = %(id)s and lease_epoch = %(epoch)s

-- name: poll_steering
-- Whether a person steered or stopped the turn after what the harness has seen; no row if the lease is over.
select s.head > %(seen)s and exists (
    select from event e where e.session_id = s.id and e.seq > %(seen)s and e.created_at >= %(low)s
      and (e.event_type = 'UserMessage' and e.data ->> 'mode' = 'steer'
           or e.event_type = 'PolicyDecision' and e.data ->> 'decision' = 'turn_stopped')
      and (e.principal is null or e.principal = 'user' or e.principal like 'user:%%')
) as steered
from session s where s.id = %(id)s and s.lease_epoch = %(epoch)s

-- name: release
-- Releases the session.
update session set lease_owner = null, lease_until = null where id = %(id)s and lease_epoch = %(epoch)s

-- name: release_held
-- Releases the session from whoever acquired it so, and may not know the epoch.
update session set lease_owner = null, lease_until = null
where id = %(id)s and lease_owner = %(owner)s and lease_until = %(until)s

-- name: release_settled
-- Releases the session with its marks; if nothing came meanwhile, no wake has to look at it again. Unless its sub-agents
-- have been reviewed, it stays while one is at work. What the channel acknowledged last is recorded in any case: it was
-- sent.
with recorded as (
    insert into delivery (session_id, message_id, channel, upto_seq, started_seq, sent_at, hash)
    select id, %(message)s, %(channel)s, %(upto)s, %(started)s, %(now)s,
           hash_output(id, %(message)s, %(channel)s, null, %(upto)s, %(started)s, null, %(now)s)
    from session where id = %(id)s and %(message)s::text is not null
    on conflict do nothing
)
update session
set lease_owner = null, lease_until = null, settled_to = greatest(settled_to, %(settled)s),
    delivered_to = greatest(delivered_to, %(delivered)s), pending = %(pending)s or head > %(head)s,
    wake_failures = case when %(pending)s then wake_failures else 0 end,
    wake_after = case when %(pending)s then wake_after end
where id = %(id)s and lease_epoch = %(epoch)s
  and (%(reviewed)s or not exists (
      select from session child
      where child.parent_id = %(id)s and child.config ? 'unfinished' and child.kind = 'sub-agent'
  ))
returning pending, case when followed_until > clock_timestamp() then pg_notify('consolidator_followed', id) end

-- name: mark_pending
-- Marks that a harness must look at the session; after the append, so that no release comes between the two. Drivers
-- hear of it at the commit, also if the session waits after a failure. What a person does moves the session's end on.
update session
set pending = true, wake_after = null,
    expires_at = coalesce(
        %(now)s::timestamptz + make_interval(secs => (config ->> 'session_ttl_seconds')::double precision), expires_at
    )
where id = %(session_id)s and status = 'open' and origin is null and recorded_by is null
returning pg_notify('consolidator_pending', id)

-- name: list_pending
-- Sessions that a wake must look at, the longest quiet first.
select id from session
where pending and status = 'open' and origin is null and recorded_by is null and not config ? 'rerun'
  and trigger_type is distinct from 'spawn_agent'
order by last_event_at, id limit %(limit)s

-- name: set_attention
-- The calls that wait for a person: a cache of what the log says.
update session set attention = (attention - %(settled)s::text[]) || %(requested)s::jsonb where id = %(session_id)s

-- name: lock_waiting_call
-- Locks the session in which a call waits for a person.
select id as session_id, attention -> %(call_id)s as requested from session
where attention <> '{}'::jsonb and attention ? %(call_id)s and status = 'open' and origin is null and recorded_by is null
  and (%(session_id)s::text is null or id = %(session_id)s)
for update

-- name: find_waiting_sessions
select id from session
where attention <> '{}'::jsonb and attention ? %(call)s and status = 'open' and origin is null and recorded_by is null
order by id

-- name: list_attention
-- A session is the person's who is the peer of its lineage's root.
select s.id, s.key, s.agent, s.attention, s.last_event_at
from session s left join session root on root.id = s.root_id
where s.attention <> '{}'::jsonb and not s.hidden
  and (%(agent)s::text is null or s.agent = %(agent)s) and (%(project)s::text is null or s.project = %(project)s)
  and (%(peer)s::text is null or coalesce(root.peer, s.peer) = %(peer)s)
  and (%(at)s::timestamptz is null or s.last_event_at < %(at)s or s.last_event_at = %(at)s and s.id > %(last_id)s::text)
order by s.last_event_at desc, s.id limit %(limit)s

-- name: patch_state
-- A tool's change of the session's state; the log has each change, the row their sum.
update session set state = state || %(change)s::jsonb where id = %(session_id)s

-- name: add_turns
-- A turn that ended well clears the error of an earlier one.
update session set turns = turns + %(turns)s, error = null where id = %(id)s

-- name: list_due
-- Pending sessions that a driver with these tools can take now, the longest quiet first: nobody holds them, or the
-- lease has run out, or a process of this machine holds them, which may have ended. Reruns are driven by who asked.
select id, lease_owner as owner, wake_failures as failures from session
where pending and status = 'open' and origin is null and recorded_by is null
  and (wake_after is null or wake_after <= %(now)s)
  and (lease_owner is null or lease_until <= %(now)s or starts_with(lease_owner, %(machine)s))
  and trigger_type is distinct from 'spawn_agent'  -- its parent's call drives it
  and (model is not null or %(has_model)s)
  and coalesce(config -> 'tools', '[]'::jsonb) <@ to_jsonb(%(tools)s::text[])
  and not id = any(%(excluded)s::text[]) and not config ? 'rerun'
order by last_event_at, id limit %(limit)s

-- name: list_without_tools
-- Pending sessions that use tools which are not among these; those of which no error says so come first.
select id, key, error, array(select jsonb_array_elements_text(config -> 'tools') except
                      select unnest(%(tools)s::text[]) order by 1) as missing
from session
where pending and status = 'open' and origin is null and recorded_by is null
  and not config ? 'rerun' and jsonb_typeof(config -> 'tools') = 'array' and not config -> 'tools' <@ to_jsonb(%(tools)s::text[])
  and trigger_type is distinct from 'spawn_agent'  -- its parent's call drives it
order by coalesce(starts_with(error, %(noted)s), false), last_event_at, id limit %(limit)s

-- name: note_missing_tools
-- Says of a session that nobody holds which tools it waits for. A wake that is counted has begun elsewhere.
update session set error = %(error)s
where id = %(id)s and pending and status = 'open' and error is distinct from %(error)s
  and (lease_owner is null or lease_until <= %(now)s) and (wake_after is null or wake_after <= %(now)s)

-- name: note_missing_model
-- Says of pending sessions that have no model that they wait for one; returns those of which it was not said before.
update session set error = %(error)s
where pending and id in (
  select id from session
  where pending and status = 'open' and origin is null and recorded_by is null and model is null
    and error is distinct from %(error)s and not config ? 'rerun' and trigger_type is distinct from 'spawn_agent'
    and (lease_owner is null or lease_until <= %(now)s) and (wake_after is null or wake_after <= %(now)s)
  order by last_event_at, id limit %(limit)s)
returning id

-- name: clear_missing
update session set error = null where id = %(id)s and error = %(error)s

-- name: list_failing
-- Pending sessions whose last wakes did not come to an end.
select id, key, wake_failures as failures, wake_after as next_at from session
where pending and wake_failures > 0 and status = 'open' and origin is null and recorded_by is null
order by wake_failures desc, id limit %(limit)s

-- name: begin_wake
-- Counts a wake as failed until it ends well: so does one that kills its process.
update session set wake_failures = least(wake_failures + 1, 1000), wake_after = %(after)s where id = %(id)s

-- name: end_wake
update session set wake_failures = 0, wake_after = null where id = %(id)s and wake_failures > 0

-- name: fail_wake
-- What is settled needs no other wake, however this one ended; a message that came meanwhile does not wait.
update session
set wake_after = case when pending and wake_after is not null then %(after)s::timestamptz end,
    wake_failures = case when pending then greatest(wake_failures, 1) else 0 end
where id = %(id)s

-- name: undo_wake
-- What was handed back or held by another harness has not failed.
update session set wake_failures = greatest(wake_failures - 1, 0), wake_after = null where id = %(id)s

-- name: announce
select pg_notify('consolidator_pending', %(id)s)
