-- name: start
-- One row for each job and scheduled time, however many replicas start it.
insert into run (id, job, scheduled_at, trigger, started_at, heartbeat_at, owner, arguments)
values (%(id)s, %(job)s, %(scheduled_at)s, %(trigger)s, %(now)s, %(now)s, %(owner)s, %(arguments)s)
on conflict (job, scheduled_at) do nothing

-- name: at_scheduled_time
select * from run where job = %(job)s and scheduled_at = %(scheduled_at)s

-- name: get
select * from run where id = %(id)s

-- name: is_unfinished
select exists (select from run where id = %(run)s and status in ('running', 'interrupted'))

-- name: unfinished
-- The latest unfinished run of a job with these arguments.
select * from run
where job = %(job)s and arguments = %(arguments)s and status in ('running', 'interrupted')
order by started_at desc limit 1

-- name: add_units
-- Add units to a run; existing ones stay as they are, but with `reopen` those that are done start again.
insert into claim (run_id, kind, unit, phase)
select %(run_id)s, %(kind)s, unit, %(phase)s from unnest(%(names)s::text[]) as unit
on conflict (run_id, kind, unit) do update
set status = 'open', owner = null, lease_until = null, attempts = 0
where %(reopen)s and claim.status = 'done'
  and exists (select from run where id = %(run_id)s and status in ('running', 'interrupted'))

-- name: claim
-- The next units that are free, or whose lease has expired; the claim is bounded and waits for no lock. Units that were
-- tried before are claimed last and alone: one of them may be what killed its workers.
update claim set status = 'leased', owner = %(owner)s, lease_until = %(until)s, attempts = attempts + 1
where (run_id, kind, unit) in (
    select run_id, kind, unit from claim
    where run_id = %(run)s and phase = %(phase)s and (%(units)s::text[] is null or unit = any(%(units)s))
      and (status = 'open' or (status = 'leased' and lease_until < %(now)s)) and (attempts > 0) = %(tried)s
    order by unit limit %(limit)s for update skip locked
)
returning kind, unit, attempts

-- name: unfinished_units
select unit from claim where run_id = %(run)s and phase = %(phase)s and status in ('open', 'leased')
order by attempts > 0, unit limit %(limit)s

-- name: release_others
update claim set status = 'open', owner = null, lease_until = null
where run_id = %(run)s and phase = %(phase)s and unit = any(%(units)s) and status = 'leased' and owner <> %(owner)s

-- name: renew_leases
-- A claim that is locked is about to be ended by its worker: to wait for it could be a deadlock.
update claim set lease_until = %(until)s
where (run_id, kind, unit) in (
    select run_id, kind, unit from claim
    where run_id = %(run)s and owner = %(owner)s and status = 'leased' for update skip locked
)

-- name: heartbeat
update run set heartbeat_at = %(now)s where id = %(run)s

-- name: record_progress
-- Only while the owner holds the unit: a replica that lost its lease commits nothing.
update claim
set seen = seen + %(learned)s + %(nothing)s + %(deferred)s + %(dead)s, learned = learned + %(learned)s,
    nothing = nothing + %(nothing)s, deferred = deferred + %(deferred)s, dead = dead + %(dead)s,
    status = case when %(done)s then 'done' else status end, error = null
where run_id = %(run)s and kind = %(kind)s and unit = %(unit)s and owner = %(owner)s and status = 'leased'

-- name: return_unit
-- Frees a unit for another attempt, or ends it as dead after the last one.
update claim
set status = case when %(error!)s::text is not null and attempts >= %(max_attempts)s then 'dead' else 'open' end,
    attempts = case when %(error!)s::text is not null then attempts else attempts - 1 end,
    owner = null, lease_until = null, error = coalesce(%(error!)s::text, error)
where run_id = %(run)s and kind = %(kind)s and unit = %(unit)s and owner = %(owner)s and status = 'leased'
returning status

-- name: count_dead_events
-- Counts what a dead unit leaves unlearned, so that the ledger balances.
update claim set seen = seen + %(events)s, dead = dead + %(events)s
where run_id = %(run)s and kind = %(kind)s and unit = %(unit)s

-- name: leased_units
select kind, unit, attempts from claim where run_id = %(run)s and owner = %(owner)s and status = 'leased'

-- name: list_holders
select owner, count(*) as units, max(lease_until) as until
from claim where run_id = %(run)s and status = 'leased' and owner is not null group by owner order by owner

-- name: release_units
-- Frees the units of a process that is dead, or that stops, before their leases expire.
update claim set status = 'open', owner = null, lease_until = null,
    attempts = case when %(count_attempt)s then attempts else attempts - 1 end
where run_id = %(run_id)s and owner = %(owner)s and status = 'leased'

-- name: notes
select unit, note from claim where run_id = %(run)s and kind = %(kind)s and note is not null order by unit

-- name: mark_interrupted
update run set status = 'interrupted'
where id = %(run)s and status = 'running' and not exists (
    select from claim where run_id = %(run)s and status = 'leased' and lease_until >= %(now)s  -- by another replica
)

-- name: set_note
update claim set note = %(note!)s where run_id = %(run)s and kind = %(kind)s and unit = %(unit)s

-- name: count_unfinished
-- Counts no further than the limit.
select count(*) from (
    select from claim where run_id = %(run_id)s and phase = %(phase)s and status in ('open', 'leased') limit %(limit)s
) unfinished

-- name: sums
-- A session that occurs in units of several kinds is counted once.
select count(distinct unit) filter (where seen > 0) as sessions,
       count(*) filter (where phase = 0) as units, count(*) filter (where status = 'dead') as dead_units,
       coalesce(sum(seen), 0)::bigint as seen, coalesce(sum(learned), 0)::bigint as learned,
       coalesce(sum(nothing), 0)::bigint as nothing, coalesce(sum(deferred), 0)::bigint as deferred,
       coalesce(sum(dead), 0)::bigint as dead
from claim where run_id = %(run_id)s

-- name: try_lock_job
-- Take the lock of a job that one replica does alone; return whether it was free. The connection holds it until
-- `unlock_job`, or until it ends.
select pg_try_advisory_lock(hashtextextended('consolidator.job:' || %(job)s, 0))

-- name: unlock_job
select pg_advisory_unlock(hashtextextended('consolidator.job:' || %(job)s, 0))

-- name: finish
update run
set status = %(status)s, finished_at = %(now)s, report = %(report)s, error = %(error!)s,
    deaths = case when %(died)s then deaths + 1 else 0 end
where id = %(run)s and status in ('running', 'interrupted')

-- name: resume
update run set status = 'running', owner = %(owner)s, heartbeat_at = %(now)s, finished_at = null
where id = %(run)s and status <> 'done'

-- name: last_scheduled
-- The latest scheduled time that is no longer due; a run that died of a bug is due again until `max_attempts`.
select max(scheduled_at) from run
where job = %(job)s and trigger = 'schedule'
  and (status = 'done' or (status = 'failed' and deaths not between 1 and %(max_attempts)s - 1))

-- name: last_ended
select * from run where job = %(job)s and status in ('done', 'failed')
order by finished_at desc, scheduled_at desc limit 1

-- name: list_runs
-- A run that has ended keeps its sums in its report; its claims go with retention.
select run.*,
       coalesce((run.report ->> 'seen')::bigint, c.seen, 0)::bigint as seen,
       coalesce((run.report ->> 'learned')::bigint, c.learned, 0)::bigint as learned,
       coalesce((run.report ->> 'nothing')::bigint, c.nothing, 0)::bigint as nothing,
       coalesce((run.report ->> 'deferred')::bigint, c.deferred, 0)::bigint as deferred,
       coalesce((run.report ->> 'dead')::bigint, c.dead, 0)::bigint as dead,
       coalesce((run.report ->> 'units')::bigint, c.units) as units
from (
    select * from run
    where (%(job)s::text is null or job = %(job)s)
      and (%(at)s::timestamptz is null or (started_at, id) < (%(at)s, %(last_id)s))
    order by started_at desc, id desc limit %(limit)s
) run cross join lateral (
    select sum(seen) as seen, sum(learned) as learned, sum(nothing) as nothing, sum(deferred) as deferred,
           sum(dead) as dead, count(*) filter (where phase = 0) as units
    from claim where run_id = run.id and not run.report ? 'seen'
) c
order by run.started_at desc, run.id desc

-- name: list_units
-- Return a run's units phase by phase, first those that are not done or have dead events.
select * from claim where run_id = %(run_id)s order by phase, status = 'done' and dead = 0, unit limit %(limit)s

-- name: list_dead_letters
-- Return dead letters, the latest first: all, or those of one id or run, or of one session.
select d.*, s.origin from dead_letter d left join session s on s.id = d.session_id
where (%(run_or_letter_id)s::text is null or d.id = %(run_or_letter_id)s or d.run_id = %(run_or_letter_id)s)
  and (%(session)s::text is null or d.session_id = %(session)s) and (%(include_settled)s or d.settled_at is null)
order by d.created_at desc, d.id limit %(limit)s

-- name: sessions_with_dead_letters
select distinct session_id from dead_letter
where (%(run_or_letter_id)s::text is null or id = %(run_or_letter_id)s or run_id = %(run_or_letter_id)s) and settled_at is null
order by session_id

-- name: add_dead_letter
insert into dead_letter (id, run_id, session_id, seq, extractor, error, created_at)
values (%(id)s, %(run)s, %(session)s, %(seq)s, %(extractor)s, %(error!)s, %(now)s)
on conflict (session_id, seq) where settled_at is null do nothing

-- name: settle_dead_letters
update dead_letter set settled_at = %(now)s, settlement = %(settlement)s
where session_id = %(session)s and seq = any(%(seqs)s) and settled_at is null

-- name: abandon_unfinished
-- Another run of the job starts from the beginning, so its unfinished runs are not resumed.
update run set status = 'failed', finished_at = %(now)s, error = 'replaced by run ' || %(run)s
where job = %(job)s and id <> %(run)s and status in ('running', 'interrupted')

-- name: close_silent_runs
-- Unscheduled runs without a heartbeat. No schedule starts them again, so the runs of `jobs` have failed; the others
-- are interrupted, and the same command resumes them.
update run set status = case when job = any(%(jobs)s) then 'failed' else 'interrupted' end,
    finished_at = case when job = any(%(jobs)s) then %(now)s::timestamptz end,
    error = case when job = any(%(jobs)s) then 'its process stopped without ending it' end
where status = 'running' and trigger <> 'schedule' and heartbeat_at < %(since)s

-- name: lock
-- Held by the connection of a living process; the database releases it when the process or its machine is gone.
select pg_advisory_lock(hashtextextended('consolidator.executor:' || %(executor)s, 0))

-- name: try_lock
select pg_try_advisory_lock(hashtextextended('consolidator.executor:' || %(executor)s, 0))

-- name: unlock
select pg_advisory_unlock(hashtextextended('consolidator.executor:' || %(executor)s, 0))

-- name: notice_dead_peers
-- Ends this session soon after its client's machine is gone, so that its locks are free.
select set_config('tcp_keepalives_idle', %(seconds)s, false), set_config('tcp_keepalives_interval', %(seconds)s, false),
    set_config('tcp_keepalives_count', '3', false)

-- name: end_silent
-- Ends the session that holds a process's lock and has said nothing for a while: the process is frozen.
select pg_terminate_backend(a.pid)
from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.database = a.datid and a.datname = current_database()
  and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('consolidator.executor:' || %(executor)s, 0)
  and a.state_change < clock_timestamp() - make_interval(secs => %(seconds)s)

-- name: add_foreign
-- Adds up over the windows of a session.
update claim
set note = (coalesce(substring(note from '^[0-9]+'), '0')::bigint + %(count)s) || ' messages in other languages'
where run_id = %(run_id)s and kind = 'session' and unit = %(session)s

-- name: count_foreign
-- Return how many messages of a run's sessions are in languages that no rule reads.
select coalesce(sum(substring(note from '^[0-9]+')::bigint), 0)::bigint as count
from claim where run_id = %(run_id)s and kind = 'session' and note is not null
