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
select fact.*, count(*) over () as total from fact
where fact.recorded_at >= %(since)s and fact.superseded_at is null
  and not exists (
      select from fact before
      where before.superseded_by = fact.id and before.valid_to is not null and before.superseded_at >= %(since)s
        and {before_visible})
  and {fact_visible}
  and (%(agent)s::text is null or fact.agent = %(agent)s)
  and (%(project)s::text is null or fact.project = %(project)s or %(project_alone)s)
order by fact.sessions desc, fact.recorded_at desc, fact.id limit %(limit)s

-- name: changed
-- Facts that replaced another fact since then, with the replaced fact.
select fact.*, before.id as instead_of, before.sentence as before, count(*) over () as total
from fact before join fact on fact.id = before.superseded_by
where before.superseded_at >= %(since)s and before.valid_to is not null
  and {before_visible}
  and {fact_visible}
  and (%(agent)s::text is null or fact.agent = %(agent)s)
  and (%(project)s::text is null or fact.project = %(project)s or %(project_alone)s)
order by before.superseded_at desc, fact.id limit %(limit)s

-- name: procedures
select p.*, count(*) over () as total from procedure p
where p.learned_at >= %(since)s and p.retired_at is null and p.worth > 0
  and (%(audiences)s::text[] is null and starts_with(p.audience, 'all') or p.audience = any(%(audiences)s))
  and (%(agent)s::text is null or p.agent = %(agent)s)
  and (%(project)s::text is null or p.project = %(project)s or p.project is null and not %(project_alone)s)
order by p.worth desc, p.rank desc, p.id limit %(limit)s

-- name: solutions
select s.*, count(*) over () as total from solution s
where s.learned_at >= %(since)s and s.retired_at is null and jsonb_array_length(s.body -> 'fixes') > 0
  and (%(audiences)s::text[] is null and starts_with(s.audience, 'all') or s.audience = any(%(audiences)s))
  and (%(agent)s::text is null or s.agent = %(agent)s)
  and (%(project)s::text is null or s.project = %(project)s or s.project is null and not %(project_alone)s)
order by s.confirmed desc, s.sessions desc, s.occurrences desc, s.id limit %(limit)s

-- name: waiting
-- How much waits for a person, whenever it came.
select (select count(*) from candidate where quarantined is not null and rejected is null) as to_review,
       (select count(*) from fact where flagged is not null and superseded_at is null) as flagged,
       (select count(*) from dead_letter where settled_at is null) as dead_letters,
       (select count(*) from session where attention <> '{}'::jsonb) as calls
