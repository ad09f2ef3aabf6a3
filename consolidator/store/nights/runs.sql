-- name: start
-- One row for each job and slot, however many replicas wake up for it.
insert into run (id, job, slot, trigger, started_at, heartbeat_at, owner, arguments)
values (%(id)s, %(job)s, %(slot)s, %(trigger)s, %(now)s, %(now)s, %(owner)s, %(arguments)s)
on conflict (job, slot) do nothing

-- name: at_slot
select * from run where job = %(job)s and slot = %(slot)s

-- name: get
select * from run where id = %(id)s

-- name: unfinished
-- A run of this job with these arguments that was cut short, the latest first.
select * from run
where job = %(job)s and arguments = %(arguments)s and status in ('running', 'interrupted')
order by started_at desc limit 1

-- name: add_units
insert into claim (run_id, unit, phase)
select %(run)s, unit, %(phase)s from unnest(%(units)s::text[]) as unit
on conflict (run_id, unit) do update
set status = 'open', owner = null, lease_until = null, attempts = 0
where %(again)s and claim.status = 'done'
  and exists (select from run where id = %(run)s and status in ('running', 'interrupted'))

-- name: claim
-- The next units that are free, or whose holder has not been heard of; a bounded claim that waits for nobody. Those that
-- were tried before come last and alone: one of them may be what others died of.
update claim set status = 'leased', owner = %(owner)s, lease_until = %(until)s, attempts = attempts + 1
where (run_id, unit) in (
    select run_id, unit from claim
    where run_id = %(run)s and phase = %(phase)s
      and (status = 'open' or (status = 'leased' and lease_until < %(now)s)) and (attempts > 0) = %(tried)s
    order by unit limit %(most)s for update skip locked
)
returning unit, attempts

-- name: renew
update claim set lease_until = %(until)s where run_id = %(run)s and owner = %(owner)s and status = 'leased'

-- name: beat
update run set heartbeat_at = %(now)s where id = %(run)s

-- name: record
-- Adds a step's counts to the unit, only while it is ours: a holder that was given up commits nothing.
update claim
set seen = seen + %(learned)s + %(nothing)s + %(deferred)s + %(dead)s, learned = learned + %(learned)s,
    nothing = nothing + %(nothing)s, deferred = deferred + %(deferred)s, dead = dead + %(dead)s,
    status = case when %(done)s then 'done' else status end, error = null
where run_id = %(run)s and unit = %(unit)s and owner = %(owner)s and status = 'leased'

-- name: account
-- What a step beside the claims came to, added to its unit.
insert into claim (run_id, unit, status, attempts, seen, learned, nothing, dead)
values (%(run)s, %(unit)s, 'done', 1, %(learned)s + %(nothing)s + %(dead)s, %(learned)s, %(nothing)s, %(dead)s)
on conflict (run_id, unit) do update
set seen = claim.seen + excluded.seen, learned = claim.learned + excluded.learned,
    nothing = claim.nothing + excluded.nothing, dead = claim.dead + excluded.dead

-- name: give_back
-- Returns a unit for another try, or ends it as dead when it has been tried enough.
update claim
set status = case when %(spent)s and attempts >= %(most)s then 'dead' else 'open' end,
    attempts = case when %(spent)s then attempts else attempts - 1 end,
    owner = null, lease_until = null, error = coalesce(%(error)s, error)
where run_id = %(run)s and unit = %(unit)s and owner = %(owner)s and status = 'leased'
returning status

-- name: bury
-- Counts what a dead unit leaves unlearned, so that the ledger balances.
update claim set seen = seen + %(events)s, dead = dead + %(events)s where run_id = %(run)s and unit = %(unit)s

-- name: held
select unit from claim where run_id = %(run)s and unit = any(%(units)s) and owner = %(owner)s and status = 'leased'

-- name: leased_by
select distinct owner from claim where run_id = %(run)s and status = 'leased' and owner is not null

-- name: release
-- What is held by a process that is known to be dead, or by one that lets all go, is free before its lease runs out.
update claim set status = 'open', owner = null, lease_until = null,
    attempts = case when %(spent)s then attempts else attempts - 1 end
where run_id = %(run)s and owner = %(owner)s and status = 'leased'

-- name: remarks
select unit, note from claim where run_id = %(run)s and note is not null order by unit

-- name: interrupt
update run set status = 'interrupted'
where id = %(run)s and status = 'running' and not exists (
    select from claim where run_id = %(run)s and status = 'leased' and lease_until >= %(now)s  -- by others at work on it
)

-- name: remark
update claim set note = %(told)s where run_id = %(run)s and unit = %(unit)s

-- name: waiting
-- Units that have not ended; counted no further than anybody asks.
select count(*) as waiting from (
    select from claim where run_id = %(run)s and phase = %(phase)s and status in ('open', 'leased') limit %(most)s
) one

-- name: totals
-- A session that a model has read late, or for a draft, is a session all the same.
select count(distinct regexp_replace(unit, '^(model|draft):', '')) filter (where seen > 0) as sessions,
       count(*) filter (where phase = 0) as units, count(*) filter (where status = 'dead') as dead_units,
       coalesce(sum(seen), 0)::bigint as seen, coalesce(sum(learned), 0)::bigint as learned,
       coalesce(sum(nothing), 0)::bigint as nothing, coalesce(sum(deferred), 0)::bigint as deferred,
       coalesce(sum(dead), 0)::bigint as dead
from claim where run_id = %(run)s

-- name: enter
select pg_try_advisory_lock(hashtextextended('consolidator.job:' || %(job)s, 0)) as entered

-- name: leave
select pg_advisory_unlock(hashtextextended('consolidator.job:' || %(job)s, 0))

-- name: finish
update run
set status = %(status)s, finished_at = %(now)s, report = %(report)s, error = %(error)s,
    deaths = case when %(died)s then deaths + 1 else 0 end
where id = %(run)s and status in ('running', 'interrupted')

-- name: resume
update run set status = 'running', owner = %(owner)s, heartbeat_at = %(now)s, finished_at = null
where id = %(run)s and status <> 'done'

-- name: last_done
-- The latest slot that is not owed any more; a run that died of a bug is owed again, so many times.
select max(slot) as slot from run
where job = %(job)s and trigger = 'schedule'
  and (status = 'done' or (status = 'failed' and deaths not between 1 and %(most)s - 1))

-- name: last_ended
select * from run where job = %(job)s and status in ('done', 'failed') order by finished_at desc, slot desc limit 1

-- name: listing
-- A run that has ended keeps its sums in its report; its claims go with retention.
select run.*,
       coalesce((run.report ->> 'seen')::bigint, c.seen, 0)::bigint as seen,
       coalesce((run.report ->> 'learned')::bigint, c.learned, 0)::bigint as learned,
       coalesce((run.report ->> 'nothing')::bigint, c.nothing, 0)::bigint as nothing,
       coalesce((run.report ->> 'deferred')::bigint, c.deferred, 0)::bigint as deferred,
       coalesce((run.report ->> 'dead')::bigint, c.dead, 0)::bigint as dead,
       coalesce((run.report ->> 'units')::bigint, c.units) as units
from (
    select * from run where %(job)s::text is null or job = %(job)s order by started_at desc, id desc limit %(limit)s
) run cross join lateral (
    select sum(seen) as seen, sum(learned) as learned, sum(nothing) as nothing, sum(deferred) as deferred,
           sum(dead) as dead, count(*) filter (where phase = 0) as units
    from claim where run_id = run.id and not run.report ? 'seen'
) c
order by run.started_at desc, run.id desc

-- name: units
select * from claim where run_id = %(run)s order by phase, status = 'done' and dead = 0, unit limit %(limit)s

-- name: dead_letters
select d.*, s.origin from dead_letter d left join session s on s.id = d.session_id
where (%(id)s::text is null or d.id = %(id)s or d.run_id = %(id)s) and (%(all)s or d.settled_at is null)
order by d.created_at desc, d.id limit %(limit)s

-- name: dead_letter
insert into dead_letter (id, run_id, session_id, seq, extractor, error, created_at)
values (%(id)s, %(run)s, %(session)s, %(seq)s, %(extractor)s, %(error)s, %(now)s)
on conflict (session_id, seq) where settled_at is null do nothing

-- name: settle
update dead_letter set settled_at = %(now)s, settlement = %(settlement)s
where session_id = %(session)s and seq = any(%(seqs)s) and settled_at is null

-- name: begin_anew
-- What was cut short of a job is not taken up again: another run of it has begun from the beginning.
update run set status = 'failed', finished_at = %(now)s, error = 'begun anew as ' || %(run)s
where job = %(job)s and id <> %(run)s and status in ('running', 'interrupted')

-- name: give_up
-- Runs beside the schedule whose heart has stopped: no slot names a job of the nights again; what a command may take up
-- again was cut short.
update run set status = case when job = any(%(jobs)s) then 'failed' else 'interrupted' end,
    finished_at = case when job = any(%(jobs)s) then %(now)s::timestamptz end,
    error = case when job = any(%(jobs)s) then 'its process was not heard of again' end
where status = 'running' and trigger <> 'schedule' and heartbeat_at < %(since)s
