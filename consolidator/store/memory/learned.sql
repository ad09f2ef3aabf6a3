-- name: latest_night
-- When the latest night that learned something started.
select max(r.started_at) as since from run r
where r.job in ('consolidation', 'backfill', 'retry') and coalesce(
    (r.report ->> 'learned')::bigint, (select sum(c.learned) from claim c where c.run_id = r.id)
) > 0

-- name: night_sums
-- What the nights since then saw, and what came of it. A run that has ended has its sums in its report; retention
-- deletes its claims.
select count(*) as nights, coalesce(sum(coalesce((r.report ->> 'sessions')::bigint, c.sessions)), 0)::bigint as sessions,
       coalesce(sum(coalesce((r.report ->> 'seen')::bigint, c.seen)), 0)::bigint as seen,
       coalesce(sum(coalesce((r.report ->> 'learned')::bigint, c.learned)), 0)::bigint as learned,
       coalesce(sum(coalesce((r.report ->> 'nothing')::bigint, c.nothing)), 0)::bigint as nothing,
       coalesce(sum(coalesce((r.report ->> 'deferred')::bigint, c.deferred)), 0)::bigint as deferred,
       coalesce(sum(coalesce((r.report ->> 'dead')::bigint, c.dead)), 0)::bigint as dead
from run r cross join lateral (
    select count(distinct unit) filter (where seen > 0) as sessions, sum(seen) as seen,
           sum(learned) as learned, sum(nothing) as nothing, sum(deferred) as deferred, sum(dead) as dead
    from claim where run_id = r.id and not r.report ? 'seen'
) c
where r.job in ('consolidation', 'backfill', 'retry') and r.started_at >= %(since)s

-- name: facts
-- Facts that are believed since then, but for those that replaced another fact: `changed` has them.
select fact.*, new.total from (
    select fact.id, count(*) over () as total from fact
    where fact.recorded_at >= %(since)s and fact.superseded_at is null
      and not exists (
          select from fact before
          where before.superseded_by = fact.id and before.valid_to is not null and before.superseded_at >= %(since)s
            and {before_visible})
      and {fact_visible}
      and (%(agent)s::text is null or fact.agent = %(agent)s)
      and (%(project)s::text is null or fact.project = %(project)s or %(project_alone)s)
    -- What holds beyond one session goes first: see `learned_sections`.
    order by (fact.sessions > 1 or fact.trust = 'person' or fact.kind = 'constraint') desc, fact.sessions desc,
             fact.recorded_at desc, fact.id limit %(limit)s
) new join fact using (id)
order by (fact.sessions > 1 or fact.trust = 'person' or fact.kind = 'constraint') desc, fact.sessions desc,
         fact.recorded_at desc, fact.id

-- name: changed
-- Facts that replaced another fact since then, with the replaced fact.
select fact.*, new.instead_of, before.sentence as before, new.total from (
    select fact.id, before.id as instead_of, count(*) over () as total
    from fact before join fact on fact.id = before.superseded_by
    where before.superseded_at >= %(since)s and before.valid_to is not null
      and {before_visible}
      and {fact_visible}
      and (%(agent)s::text is null or fact.agent = %(agent)s)
      and (%(project)s::text is null or fact.project = %(project)s or %(project_alone)s)
    order by before.superseded_at desc, fact.id limit %(limit)s
) new join fact using (id) join fact before on before.id = new.instead_of
order by before.superseded_at desc, fact.id

-- name: procedures
select p.*, new.total from (
    select p.id, count(*) over () as total from procedure p
    where p.learned_at >= %(since)s and p.retired_at is null and p.worth > 0
      and (%(audiences)s::text[] is null and starts_with(p.audience, 'all') or p.audience = any(%(audiences)s))
      and (%(agent)s::text is null or p.agent = %(agent)s)
      and (%(project)s::text is null or p.project = %(project)s or p.project is null and not %(project_alone)s)
    order by p.worth desc, p.rank desc, p.id limit %(limit)s
) new join procedure p using (id)
order by p.worth desc, p.rank desc, p.id

-- name: solutions
select s.*, new.total from (
    select s.id, count(*) over () as total from solution s
    where s.learned_at >= %(since)s and s.retired_at is null and jsonb_array_length(s.body -> 'fixes') > 0
      and (%(audiences)s::text[] is null and starts_with(s.audience, 'all') or s.audience = any(%(audiences)s))
      and (%(agent)s::text is null or s.agent = %(agent)s)
      and (%(project)s::text is null or s.project = %(project)s or s.project is null and not %(project_alone)s)
    order by s.confirmed desc, s.sessions desc, s.occurrences desc, s.id limit %(limit)s
) new join solution s using (id)
order by s.confirmed desc, s.sessions desc, s.occurrences desc, s.id

-- name: save_failed_again
-- Keeps which errors a run read of, though a fix had worked in two sessions that were read before. Only sessions that it
-- read can hold such an error. A family counts the errors that have no confirmed fix of their own.
with read_session as (
    select unit as id from claim where run_id = %(run)s and kind = 'session'
), this_run as (
    select started_at from run where id = %(run)s
)
insert into failed_again (run_id, agent, solution_id, times, in_sessions)
select %(run)s, s.agent, s.id, again.times, again.in_sessions
from this_run cross join solution s cross join lateral (
    select count(*) filter (where r.is_new and r.occurred_at > r.known_since) as times,
           count(distinct r.session_id) filter (where r.is_new and r.occurred_at > r.known_since) as in_sessions,
           count(distinct r.session_id) filter (where r.is_known) as fixed_in
    from (
        select r.*, min(r.occurred_at) filter (where r.is_known) over () as known_since
        from (
            select r.session_id, (r.record ->> 'occurred_at')::timestamptz as occurred_at, stamp.is_new,
                   r.status = 'resolved' and not stamp.is_new as is_known
            from error_record r cross join lateral (
                select r.session_id in (select id from read_session) and exists (
                    select from session o cross join lateral (
                        select from event e
                        where e.session_id = o.id and e.seq = r.seq and e.consolidated_at >= this_run.started_at
                          and e.created_at >= o.created_at and e.created_at <= o.last_event_at
                        offset 0  -- a subquery by itself reads only the days of the session
                    ) e where o.id = r.session_id
                ) as is_new
                offset 0  -- once, though it is used twice
            ) stamp
            where r.agent = s.agent and r.status <> 'noise'
              and (r.fingerprint = s.fingerprint or r.family = s.fingerprint and not exists (
                  select from solution own
                  where own.agent = s.agent and own.fingerprint = r.fingerprint and own.confirmed and own.retired_at is null
              ))
        ) r
    ) r
) again
where exists (select from read_session) and s.confirmed and s.retired_at is null and s.updated_at >= this_run.started_at
  and starts_with(s.audience, 'all') and again.times > 0 and again.fixed_in >= 2
on conflict (run_id, agent, solution_id) do update set times = excluded.times, in_sessions = excluded.in_sessions

-- name: failed_again
-- Errors that the nights since then read of, though a fix was known when each of them began.
select s.*, again.times, again.in_sessions, count(*) over () as total
from (
    select f.agent, f.solution_id, sum(f.times)::bigint as times, sum(f.in_sessions)::bigint as in_sessions
    from run join failed_again f on f.run_id = run.id where run.started_at >= %(since)s group by f.agent, f.solution_id
) again join solution s on s.id = again.solution_id
where s.confirmed and s.retired_at is null and starts_with(s.audience, 'all')
  and (%(agent)s::text is null or s.agent = %(agent)s)
  and (%(project)s::text is null or s.project = %(project)s or s.project is null)
order by again.times desc, s.sessions desc, s.id limit %(limit)s

-- name: waiting
-- How much waits for a person, whenever it came.
select (select count(*) from candidate where quarantined is not null and rejected is null) as to_review,
       (select count(*) from fact where flagged is not null and superseded_at is null) as flagged,
       (select count(*) from dead_letter where settled_at is null) as dead_letters,
       (select count(*) from session where attention <> '{}'::jsonb) as calls
