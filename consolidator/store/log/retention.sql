-- name: list_prunable
-- The sessions with events past retention, and what may spare some of them: what was not learned from, the window of an
-- open session, and what children and checkpoints still read. An agent's own cutoff takes the place of the common one.
with own as (
    select * from unnest(%(agents)s::text[], %(cutoffs)s::timestamptz[]) as own (agent, cutoff)
), old as (
    select e.session_id, coalesce(own.cutoff, %(cutoff)s) as cutoff, max(e.seq) as last,
           min(e.seq) filter (where e.consolidated_at is null) as unlearned, count(*) as events
    from event e join session s on s.id = e.session_id left join own on own.agent = s.agent
    where e.created_at < %(latest)s and e.created_at < coalesce(own.cutoff, %(cutoff)s)
    group by e.session_id, own.cutoff
)
select s.id, s.pruned_to, s.head, old.cutoff, old.last, old.unlearned, old.events,
       s.status = 'open' and s.last_event_at >= old.cutoff as open,
       read_floor(s.id, old.cutoff, %(window)s, %(now)s) as read_floor
from old join session s on s.id = old.session_id
order by s.id

-- name: list_retention_days
select a.name as agent, coalesce(a.retention_days, t.retention_days) as days from agent a left join agent t on t.name = a.tier
where coalesce(a.retention_days, t.retention_days) is not null order by a.name

-- name: list_expired
-- Open sessions past their time to live, the longest expired first, and what may spare them.
select id, expires_at, lease_owner is not null and lease_until > %(now)s as is_held,
       (pending or attention <> '{}'::jsonb) and expires_at > %(grace)s as is_awaited
from session
where expires_at is not null and status = 'open' and expires_at <= %(now)s and origin is null and recorded_by is null
  and (expires_at, id) > (%(at)s, %(last_id)s)
order by expires_at, id limit %(batch)s

-- name: lock_expired
-- Which of them are so still; one that a person or a harness touches at this moment is left for the next night.
select id from session
where id = any(%(ids)s) and status = 'open' and expires_at <= %(now)s
  and (lease_owner is null or lease_until <= %(now)s)
  and (expires_at <= %(grace)s or not pending and attention = '{}'::jsonb)
order by id collate "C" for update skip locked

-- name: get_latest_times
-- What the clock is checked against. A run that is running now is no sign: the clock that started it may be wrong.
select now() as database_clock,
       greatest((select max(last_event_at) from session),
                (select max(finished_at) from run where status = 'done')) as activity,
       (select coalesce(sum(head - pruned_to), 0) from session)::bigint as events

-- name: begin_pruning
-- Begin to prune what was ingested before a cutoff; return the name under which `mark_pruned` goes on. Without
-- `override` the database holds its own brakes against it, whatever this process thinks the time is. Only the owner
-- of the log overrides them, or prunes without a run of retention.
select begin_pruning(%(run_id)s, %(cutoff)s, %(override)s)

-- name: prune_session
-- Marks a prefix as gone before it is deleted, with its blob references, unless the session moved since it was looked at.
select prune_session(%(pruning)s, %(id)s, %(upto)s, %(window)s)

-- name: get_pruned_seqs
select id, pruned_to as seq from session where id = any(%(ids)s)

-- name: list_last_events
-- The last event of each session in a day; read from the whole log, since another replica may be dropping that day.
select e.session_id as id, max(e.seq) as seq from event e
where e.created_at >= %(begin)s and e.created_at < %(end)s group by e.session_id

-- name: list_sessions_before
select distinct e.session_id from event e where e.created_at < %(cutoff)s order by e.session_id

-- name: delete_events
-- A bounded batch of a marked prefix.
select delete_pruned_events(%(session_id)s, %(cutoff)s, %(batch)s)

-- name: has_live_chunks
-- Whether a day has chunks of a message whose first event is still there.
select exists (
    select from generation_chunk c join session s on s.id = c.session_id
    where c.created_at >= %(begin)s and c.created_at < %(end)s and c.started_seq > s.pruned_to
) as has_live_chunks

-- name: list_sessions_with_stale_output
-- Sessions with chunks or deliveries of messages whose first event is gone.
select s.id, s.pruned_to as seq from session s
where s.pruned_to > 0 and (
    exists (select from generation_chunk c where c.session_id = s.id and c.started_seq <= s.pruned_to)
    or exists (select from delivery d where d.session_id = s.id and d.started_seq <= s.pruned_to)
) order by s.id

-- name: delete_output
-- Delete at most `batch` chunks and as many deliveries of messages that began in what is pruned; count them.
select delete_pruned_output(%(session_id)s, %(batch)s)

-- name: collect_blobs
select collect_blobs(%(grace)s, %(batch)s)

-- name: list_expired_turns
-- Sessions with turns in recall that have outlived their events.
select s.id, s.memory, s.pruned_to from session s
where s.pruned_to > 0 and exists (
    select from episode e where e.session_id = s.id and e.seq <= s.pruned_to
      and (%(before)s::timestamptz is null or e.occurred_at < %(before)s)
) order by s.id

-- name: count_orphan_blobs
-- The number of blobs that would be collected if the sessions were pruned to these limits.
select count(*) as blobs from blob b
where b.touched_at < %(grace)s and not exists (
    select from blob_ref r left join unnest(%(ids)s::text[], %(uptos)s::bigint[]) as gone (id, upto) on gone.id = r.session_id
    where r.sha256 = b.sha256 and r.seq > coalesce(gone.upto, 0)
)

-- name: forget_claims
select forget_claims(%(cutoff)s)

-- name: forget_api_requests
delete from api_request where created_at < %(cutoff)s

-- name: forget_idempotency_keys
delete from idempotency where created_at < %(cutoff)s
