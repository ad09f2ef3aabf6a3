-- name: dense
select s.id || ': ' || count(e.seq) || ' events for ' || s.pruned_to + 1 || '..' || s.head as problem
from session s left join event e on e.session_id = s.id and e.seq > s.pruned_to
group by s.id, s.head, s.pruned_to
having count(e.seq) <> s.head - s.pruned_to or count(distinct e.seq) <> count(e.seq) or max(e.seq) > s.head
limit 20

-- name: stamped
select s.id || ': event ' || e.seq || ' is behind the watermark, unstamped, and no dead letter says why' as problem
from session s join event e on e.session_id = s.id and e.seq > s.pruned_to and e.seq <= s.consolidated_to
where e.consolidated_at is null and not (s.awaits_model and e.seq > s.extracted_to)
  and not exists (select from dead_letter d where d.session_id = s.id and d.seq = e.seq and d.settled_at is null)
limit 20

-- name: early
select s.id || ': event ' || e.seq || ' is stamped ahead of the watermark' as problem
from session s join event e on e.session_id = s.id and e.seq > s.consolidated_to
where e.consolidated_at is not null
limit 20

-- name: blobs
select r.session_id || ': event ' || r.seq || ' refers to a blob, but is gone' as problem
from blob_ref r join session s on s.id = r.session_id
where r.seq <= s.pruned_to or r.seq > s.head
limit 20

-- name: dangling
-- Reading such an event fails, or will fail once the blob, which blob_ref does not protect, is collected.
select e.session_id || ': event ' || e.seq || ' refers to a blob that is not kept for it: ' || (ref.value ->> 'ref')
       as problem
from event e
join session s on s.id = e.session_id and e.seq > s.pruned_to
cross join lateral jsonb_each(
    case when jsonb_typeof(e.data -> 'data_ref') = 'object' then e.data -> 'data_ref' end
) as ref (key, value)
where not exists (
    select from blob_ref r join blob b on b.sha256 = r.sha256
    where r.session_id = e.session_id and r.seq = e.seq
      and 'blob://sha256/' || encode(r.sha256, 'hex') = ref.value ->> 'ref'
)
limit 20

-- name: guarded
-- Each trigger of each partition is there, always on, and calls the function that it should.
select c.relname || ' lacks the trigger ' || g.name as problem
from (values ('event', 'event_immutable', 'refuse_event_change'), ('event', 'event_stamped_once', 'refuse_event_change'),
             ('event', 'event_kept', 'refuse_event_delete'), ('event', 'event_not_truncated', 'refuse_event_truncate'),
             ('generation_chunk', 'chunk_immutable', 'refuse_companion_change'),
             ('generation_chunk', 'chunk_kept', 'refuse_companion_delete'),
             ('generation_chunk', 'chunk_not_truncated', 'refuse_event_truncate')) as g (parent, name, function)
join pg_inherits i on i.inhparent = g.parent::regclass
join pg_class c on c.oid = i.inhrelid
where not exists (
    select from pg_trigger t join pg_proc p on p.oid = t.tgfoid
    where t.tgrelid = c.oid and t.tgname = g.name and p.proname = g.function and t.tgenabled = 'A'
)
order by 1 limit 20

-- name: ledger
select r.id || ' (' || r.job || '): a unit ended without its counts' as problem
from run r join claim c on c.run_id = r.id
where r.status = 'done' and c.status in ('open', 'leased')
limit 20

-- name: evidence
select f.id || ': cites a candidate that is not there' as problem
from fact f cross join unnest(f.evidence) as cited
where not exists (select from candidate c where c.id = cited and c.rejected is null)
limit 20

-- name: sizes
-- Return how large the database is.
select pg_size_pretty(pg_database_size(current_database())) as size,
       (select count(*) from session)::text as sessions,
       (select coalesce(sum(head - pruned_to), 0) from session)::text as events,
       (select coalesce(sum(head - consolidated_to), 0) from session)::text as unconsolidated,
       version() as server


-- name: last_runs
-- The latest run of each job that a night does; a job has one run a night, found by its scheduled time.
select job.name as job, run.status, run.started_at, run.finished_at, run.report
from unnest(%(jobs)s::text[]) as job (name)
cross join lateral (
    select * from run where run.job = job.name order by run.scheduled_at desc limit 1
) run

-- name: queue
-- Sessions that a driver has to look at, and how long the longest of them has waited; it counts no more than the limit.
select count(*) as due, min(due.last_event_at) as since,
       count(*) filter (where due.wake_failures > 0) as failing,
       count(*) filter (where due.lease_until > %(now)s) as driven
from (
    select last_event_at, wake_failures, lease_until from session
    where pending and status = 'open' and origin is null and recorded_by is null
    order by id limit %(limit)s
) due

-- name: waiting
-- What waits: for a person, for a night, for somebody to look at it. Each counts no more than the limit.
select (select count(*) from (select from session where attention <> '{}'::jsonb limit %(limit)s) counted) as calls,
       (select count(*) from (select from session where due limit %(limit)s) counted) as sessions,
       (select count(*) from (select from dead_letter where settled_at is null limit %(limit)s) counted) as dead_letters,
       (select count(*) from (select from spend where settled_at is null limit %(limit)s) counted) as open_calls
