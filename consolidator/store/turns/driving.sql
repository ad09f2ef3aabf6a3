-- name: list_due
-- Pending sessions that a driver with these tools can take now, the longest quiet first: nobody holds them, or the
-- lease has run out, or a process of this machine holds them, which may have ended. Reruns are driven by who asked.
select id, lease_owner as owner, wake_failures as failures from session
where pending and status = 'open' and origin is null and recorded_by is null
  and (wake_after is null or wake_after <= %(now)s)
  and (lease_owner is null or lease_until <= %(now)s or starts_with(lease_owner, %(machine)s))
  and trigger_type is distinct from 'spawn_agent'  -- its parent's call drives it
  and (model is not null or %(has_model)s)
  and coalesce(config -> 'tools', '[]'::jsonb) <@ %(tools)s::jsonb
  and not id = any(%(excluded)s::text[]) and not config ? 'rerun'
order by last_event_at, id limit %(limit)s

-- name: list_without_tools
-- Pending sessions that use tools which are not among these; those of which no error says so come first.
select id, key, error, array(select jsonb_array_elements_text(config -> 'tools') except
                      select jsonb_array_elements_text(%(tools)s::jsonb) order by 1) as missing
from session
where pending and status = 'open' and origin is null and recorded_by is null
  and not config ? 'rerun' and jsonb_typeof(config -> 'tools') = 'array' and not config -> 'tools' <@ %(tools)s::jsonb
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
