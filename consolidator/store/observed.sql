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
