-- name: list_prunable
-- The sessions with events past retention, and what may spare some of them: what was not learned from, the window of an
-- open session, and a live fork, which reads its parent's log, and through a forked parent that parent's parent's.
with recursive live as (
    select parent_id as id from session
    where kind in ('fork', 'resume', 'branch') and status = 'open' and last_event_at >= %(cutoff)s
    union
    select s.parent_id from session s join live on s.id = live.id and s.kind in ('fork', 'resume', 'branch')
), old as (
    select e.session_id, max(e.seq) as last, min(e.seq) filter (where e.consolidated_at is null) as unlearned,
           count(*) as events
    from event e where e.created_at < %(cutoff)s group by e.session_id
)
select s.id, s.pruned_to, s.head, old.last, old.unlearned, old.events,
       s.status = 'open' and s.last_event_at >= %(cutoff)s as open,
       exists (select from live where live.id = s.id) as read_by_child
from old join session s on s.id = old.session_id
order by s.id

-- name: get_latest_times
-- What the clock is checked against. A run that is running now is no sign: the clock that started it may be wrong.
select now() as database_clock,
       greatest((select max(last_event_at) from session),
                (select max(finished_at) from run where status = 'done')) as activity,
       (select coalesce(sum(head - pruned_to), 0) from session)::bigint as events

-- name: mark_pruned
-- Marks a prefix as gone before it is deleted: readers begin after `pruned_to`, so a crash in between leaves no gap.
-- The conditions hold against a session that was written to since it was looked at.
-- The last hash that goes stays with the session: what is left is verified against it.
update session set pruned_to = %(upto)s,
    pruned_hash = (select e.hash from event e where e.session_id = %(id)s and e.seq = %(upto)s)
where id = %(id)s and pruned_to < %(upto)s and consolidated_to >= %(upto)s
  and (status <> 'open' or last_event_at < %(cutoff)s or head - %(window)s >= %(upto)s)

-- name: drop_blob_references
delete from blob_ref r using session s where s.id = %(id)s and r.session_id = s.id and r.seq <= s.pruned_to

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
delete from event where (session_id, seq, created_at) in (
    select e.session_id, e.seq, e.created_at from event e
    where e.session_id = %(id)s and e.seq <= %(upto)s and e.created_at < %(cutoff)s
    order by e.seq limit %(batch)s
)

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

-- name: delete_chunks
delete from generation_chunk where (session_id, message_id, seq, created_at) in (
    select c.session_id, c.message_id, c.seq, c.created_at from generation_chunk c
    where c.session_id = %(id)s and c.started_seq <= %(upto)s
    order by c.started_seq limit %(batch)s
)

-- name: delete_deliveries
delete from delivery where (session_id, message_id, channel, upto_seq) in (
    select d.session_id, d.message_id, d.channel, d.upto_seq from delivery d
    where d.session_id = %(id)s and d.started_seq <= %(upto)s
    order by d.started_seq limit %(batch)s
)

-- name: collect_blobs
-- Blobs that no event refers to and that no writer has named for a while.
delete from blob where sha256 in (
    select b.sha256 from blob b
    where b.touched_at < %(grace)s and not exists (select from blob_ref r where r.sha256 = b.sha256)
    order by b.sha256 limit %(batch)s for update skip locked
)

-- name: list_expired_turns
-- Sessions with turns in recall that have outlived their events.
select s.id, s.agent, s.pruned_to from session s
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
-- The claims of runs that ended long ago; the run keeps their sums, and what could not be learned from has dead letters.
delete from claim where run_id in (select id from run where status in ('done', 'failed') and finished_at < %(cutoff)s)

-- name: forget_api_requests
delete from api_request where created_at < %(cutoff)s

-- name: forget_idempotency_keys
delete from idempotency where created_at < %(cutoff)s
