-- name: acquire
-- Takes a session up where nobody holds it, or its holder let the lease run out or is known to be gone. The new epoch
-- fences whoever held it before.
update session set lease_epoch = lease_epoch + 1, lease_owner = %(owner)s, lease_until = %(until)s
where id = %(id)s
  and (lease_owner is null or lease_until <= %(now)s or lease_owner = %(gone)s)
returning *

-- name: holder
select lease_owner, lease_until, lease_epoch, head, pending, status from session where id = %(id)s

-- name: renew
update session set lease_until = %(until)s where id = %(id)s and lease_epoch = %(epoch)s returning id

-- name: look
-- Whether the lease is still held, and whether somebody steered after what the harness has seen.
select s.lease_epoch = %(epoch)s as held, s.head > %(seen)s and exists (
    select from event e where e.session_id = s.id and e.seq > %(seen)s and e.created_at >= %(low)s
      and e.event_type = 'UserMessage' and e.data ->> 'mode' = 'steer'
) as steered
from session s where s.id = %(id)s

-- name: release
-- Gives the session back.
update session set lease_owner = null, lease_until = null where id = %(id)s and lease_epoch = %(epoch)s returning id

-- name: settle
-- Gives the session back with what is known of it; nobody has to look at it again where nothing came meanwhile.
update session
set lease_owner = null, lease_until = null, settled_to = greatest(settled_to, %(settled)s),
    delivered_to = greatest(delivered_to, %(delivered)s), pending = %(pending)s or head > %(head)s
where id = %(id)s and lease_epoch = %(epoch)s
returning head

-- name: pend
-- Something came for a harness to look at; said after it was appended, so that no giving back comes between the two.
update session set pending = true where id = %(id)s and status = 'open' returning id

-- name: pending
-- Sessions that a wake has to look at: the longest quiet first.
select id from session where pending and status = 'open' order by last_event_at, id limit %(limit)s

-- name: heed
-- What a person has to say something about, call by call, and what was said: a cache of the log.
update session set attention = (attention - %(settled)s::text[]) || %(asked)s::jsonb where id = %(id)s

-- name: asking
-- The session in which a call waits for a person's word; its row is locked.
select id, attention -> %(call)s as asked, lease_epoch from session
where attention <> '{}'::jsonb and attention ? %(call)s and status = 'open' for update

-- name: attentive
select id, key, agent, attention, last_event_at from session where attention <> '{}'::jsonb and not hidden
order by last_event_at desc, id limit %(limit)s

-- name: patch
-- A tool's change of the session's state; the log has each, the row their sum.
update session set state = state || %(patch)s::jsonb where id = %(id)s

-- name: totals
-- What a turn took.
update session set turns = turns + %(turns)s where id = %(id)s

-- name: began
-- A session's first event asks nobody for anything.
update session set settled_to = %(seq)s, delivered_to = %(seq)s where id = %(id)s and settled_to < %(seq)s

-- name: configure
update session
set model = coalesce(%(model)s, model), max_cost = coalesce(%(max_cost)s, max_cost), config = %(config)s
where id = %(id)s

-- name: retire
-- An ended session is nobody's current one, and waits for nothing.
update session set current = false, pending = false, attention = '{}'::jsonb, hidden = hidden or %(hide)s
where id = %(id)s

-- name: lock_key
-- Of two that make a session current at once, the second must see what the first made so.
select id from session where key = (select key from session where id = %(id)s) order by id collate "C" for update

-- name: lay_aside
-- The session that a key names now makes room for another of the same key.
with chosen as (select id, key from session where id = %(id)s and status = 'open' and not hidden), gone as (
    update session s set current = false from chosen where s.key = chosen.key and s.current and s.id <> chosen.id
)
select id from chosen

-- name: take_up
update session set current = key is not null where id = %(id)s

-- name: aside
update session set current = false where id = %(id)s
