-- name: acquire
-- Takes a session up where nobody holds it, or its holder let the lease run out or is known to be gone. The new epoch
-- fences whoever held it before.
update session set lease_epoch = lease_epoch + 1, lease_owner = %(owner)s, lease_until = %(until)s
where id = %(id)s
  and (lease_owner is null or lease_until <= %(now)s or lease_owner = %(gone)s)
returning *

-- name: get_holder
select lease_owner as owner from session where id = %(id)s

-- name: renew
update session set lease_until = %(until)s where id = %(id)s and lease_epoch = %(epoch)s

-- name: poll_steering
-- Whether the lease is still held, and whether somebody steered after what the harness has seen.
select s.lease_epoch = %(epoch)s as held, s.head > %(seen)s and exists (
    select from event e where e.session_id = s.id and e.seq > %(seen)s and e.created_at >= %(low)s
      and e.event_type = 'UserMessage' and e.data ->> 'mode' = 'steer'
) as steered
from session s where s.id = %(id)s

-- name: release
-- Gives the session back.
update session set lease_owner = null, lease_until = null where id = %(id)s and lease_epoch = %(epoch)s

-- name: release_settled
-- Gives the session back with what is known of it; nobody has to look at it again where nothing came meanwhile.
update session
set lease_owner = null, lease_until = null, settled_to = greatest(settled_to, %(settled)s),
    delivered_to = greatest(delivered_to, %(delivered)s), pending = %(pending)s or head > %(head)s
where id = %(id)s and lease_epoch = %(epoch)s
returning head

-- name: mark_pending
-- Something came for a harness to look at; said after it was appended, so that no giving back comes between the two.
update session set pending = true where id = %(id)s and status = 'open'

-- name: list_pending
-- Sessions that a wake has to look at: the longest quiet first.
select id from session where pending and status = 'open' order by last_event_at, id limit %(limit)s

-- name: set_attention
-- What a person has to say something about, call by call, and what was said: a cache of the log.
update session set attention = (attention - %(settled)s::text[]) || %(asked)s::jsonb where id = %(id)s

-- name: lock_waiting_call
-- The session in which a call waits for a person's word; its row is locked.
select id as session_id, attention -> %(call)s as asked from session
where attention <> '{}'::jsonb and attention ? %(call)s and status = 'open' for update

-- name: list_attention
select id, key, agent, attention, last_event_at from session where attention <> '{}'::jsonb and not hidden
order by last_event_at desc, id limit %(limit)s

-- name: patch_state
-- A tool's change of the session's state; the log has each, the row their sum.
update session set state = state || %(patch)s::jsonb where id = %(id)s

-- name: add_turns
-- What a turn took.
update session set turns = turns + %(turns)s where id = %(id)s
