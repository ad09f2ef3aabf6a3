-- name: latest_night
-- When the latest night that learned something started. What an installation learns from a history is no night of its
-- own: it is part of what came before, unless no night came.
select coalesce(max(r.started_at) filter (where r.trigger <> 'install'), min(r.started_at)) as since from run r
where r.job in ('consolidation', 'backfill', 'retry') and r.trigger <> 'watch' and coalesce(
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
      and (%(agents)s::text[] is null or fact.agent = any(%(agents)s) or fact.agent = 'all agents' and coalesce(fact.project, '') = any(%(shared_in)s))
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
      and (%(agents)s::text[] is null or fact.agent = any(%(agents)s) or fact.agent = 'all agents' and coalesce(fact.project, '') = any(%(shared_in)s))
      and (%(project)s::text is null or fact.project = %(project)s or %(project_alone)s)
    order by before.superseded_at desc, fact.id limit %(limit)s
) new join fact using (id) join fact before on before.id = new.instead_of
order by before.superseded_at desc, fact.id

-- name: procedures
select p.*, new.total from (
    select p.id, count(*) over () as total from procedure p
    where p.learned_at >= %(since)s and p.retired_at is null and p.worth > 0
      and (%(audiences)s::text[] is null and starts_with(p.audience, 'all') or p.audience = any(%(audiences)s))
      and (%(agents)s::text[] is null or p.agent = any(%(agents)s) or p.agent = 'all agents' and coalesce(p.project, '') = any(%(shared_in)s))
      and (%(project)s::text is null or p.project = %(project)s or p.project is null and not %(project_alone)s)
    order by p.worth desc, p.rank desc, p.id limit %(limit)s
) new join procedure p using (id)
order by p.worth desc, p.rank desc, p.id

-- name: lessons
-- Of the peer who is named, else of the owner; for a viewer of one agent those that no other agent had a part in.
select l.*, count(*) over () as total from lesson l
where l.person = coalesce(%(peer)s::text, '') and l.learned_at >= %(since)s and l.retired_at is null and l.harm is null
  and l.score > 0 and (%(project)s::text is null or l.project = %(project)s)
  and (%(agents)s::text[] is null or 'all agents' = any(%(agents)s) or l.body -> 'agents' <@ to_jsonb(%(agents)s::text[]))
order by l.score desc, l.id limit %(limit)s

-- name: solutions
select s.*, new.total from (
    select s.id, count(*) over () as total from solution s
    where s.learned_at >= %(since)s and s.retired_at is null and jsonb_array_length(s.body -> 'fixes') > 0
      and (s.confirmed or s.headline <> '')
      and (%(audiences)s::text[] is null and starts_with(s.audience, 'all') or s.audience = any(%(audiences)s))
      and (%(agents)s::text[] is null or s.agent = any(%(agents)s) or s.agent = 'all agents' and coalesce(s.project, '') = any(%(shared_in)s))
      and (%(project)s::text is null or s.project = %(project)s or s.project is null and not %(project_alone)s)
    order by s.confirmed desc, s.sessions desc, s.occurrences desc, s.id limit %(limit)s
) new join solution s using (id)
order by s.confirmed desc, s.sessions desc, s.occurrences desc, s.id

-- name: save_failed_again
-- Keeps which errors a run read of, though a fix had worked in two sessions that were read before. Only sessions that it
-- read can hold such an error; that a fix had worked is looked for in the latest errors of the others.
with read_session as (
    select unit as id from claim where run_id = %(run_id)s and kind = 'session'
), read_record as materialized (
    select r.agent, r.fingerprint, r.session_id, r.seq, r.status, (r.record ->> 'occurred_at')::timestamptz as occurred_at
    from read_session join error_record r on r.session_id = read_session.id where r.status <> 'noise'
), published as (
    select s.id, s.agent, s.fingerprint, run.started_at from run join solution s on s.updated_at >= run.started_at
    where run.id = %(run_id)s and s.confirmed and s.retired_at is null and starts_with(s.audience, 'all')
), matched as (
    select s.id, s.agent, s.fingerprint, s.started_at, r.session_id, r.seq, r.status, r.occurred_at
    from published s join read_record r on r.agent = s.agent and r.fingerprint = s.fingerprint
), met as materialized (
    select m.*, exists (
        select from session o cross join lateral (
            select from event e
            where e.session_id = o.id and e.seq = m.seq and e.consolidated_at >= m.started_at
              and e.created_at >= o.created_at and e.created_at <= o.last_event_at
            offset 0  -- a subquery by itself reads only the days of the session
        ) e where o.id = m.session_id
    ) as is_new
    from matched m
), failed as (
    select distinct id, agent, fingerprint from met where is_new
), fixed as (
    select id, session_id, occurred_at from met where status = 'resolved' and not is_new
    union all
    select f.id, k.session_id, k.occurred_at::timestamptz
    from failed f cross join lateral (
        select r.session_id, r.status, r.record ->> 'occurred_at' as occurred_at from error_record r
        where r.agent = f.agent and r.fingerprint = f.fingerprint and r.status <> 'noise'
          and r.session_id not in (select id from read_session)
        order by (r.record ->> 'occurred_at') desc, r.session_id desc, r.seq desc limit %(latest)s
    ) k where k.status = 'resolved'
), known as (
    select id, min(occurred_at) as since from fixed group by id having count(distinct session_id) >= 2
)
insert into failed_again (run_id, agent, solution_id, times, in_sessions)
select %(run_id)s, m.agent, m.id, count(*), count(distinct m.session_id)
from met m join known k on k.id = m.id and m.occurred_at > k.since
where m.is_new group by m.agent, m.id
on conflict (run_id, agent, solution_id) do update set times = excluded.times, in_sessions = excluded.in_sessions

-- name: failed_again
-- Errors that the nights since then read of, though a fix was known when each of them began.
select s.*, again.times, again.in_sessions, count(*) over () as total
from (
    select f.agent, f.solution_id, sum(f.times)::bigint as times, sum(f.in_sessions)::bigint as in_sessions
    from run join failed_again f on f.run_id = run.id where run.started_at >= %(since)s group by f.agent, f.solution_id
) again join solution s on s.id = again.solution_id
where s.confirmed and s.retired_at is null and starts_with(s.audience, 'all')
  and (%(agents)s::text[] is null or s.agent = any(%(agents)s) or s.agent = 'all agents' and coalesce(s.project, '') = any(%(shared_in)s))
  and (%(project)s::text is null or s.project = %(project)s or s.project is null)
order by again.times desc, s.sessions desc, s.id limit %(limit)s

-- name: waiting
-- How much waits for a person, whenever it came.
select (select count(*) from candidate where quarantined is not null and rejected is null) as to_review,
       (select count(*) from fact where flagged is not null and superseded_at is null) as flagged,
       (select count(*) from dead_letter where settled_at is null) as dead_letters,
       (select count(*) from session where attention <> '{}'::jsonb) as calls

-- name: taught
-- What a session is evidence of, with the event that proves it: lessons and fixes of its project, and facts.
select l.id, l.line as title, (proof ->> 1)::bigint as seq
from lesson l cross join jsonb_array_elements(l.body -> 'evidence') as proof
where l.project = %(project)s and l.person = %(person)s and l.retired_at is null and l.harm is null and l.kind <> 'call'
  and l.body -> 'evidence' @> jsonb_build_array(jsonb_build_array(%(session)s::text)) and proof ->> 0 = %(session)s
union all
select s.id, s.body ->> 'line', (proof ->> 'seq')::bigint
from solution s cross join jsonb_array_elements(s.body -> 'evidence') as proof
where s.agent = any(%(agents)s) and s.project = %(project)s and s.retired_at is null
  and jsonb_array_length(s.body -> 'fixes') > 0 and proof ->> 'session_id' = %(session)s
union all
select f.id, f.sentence, c.seq
from candidate c join fact f on c.id = any(f.evidence) and f.agent = c.agent and f.superseded_at is null
     and f.subject = coalesce(c.as_subject, c.subject) and f.predicate = coalesce(c.as_predicate, c.predicate)
where c.session_id = %(session)s and c.active
order by seq, id limit %(limit)s


-- name: first_fact
-- When memory came to believe its first fact.
select min(recorded_at) as first from fact

-- name: run_facts
-- Facts that came to be believed in a span of time, also those that were replaced since.
select id, sentence as title, superseded_at is not null as is_over, count(*) over () as total from fact
where recorded_at between %(begin)s and %(end)s order by sessions desc, recorded_at, id limit %(limit)s

-- name: run_procedures
select id, title, retired_at is not null as is_over, count(*) over () as total from procedure
where learned_at between %(begin)s and %(end)s and worth > 0 order by worth desc, rank desc, id limit %(limit)s

-- name: run_solutions
select id, headline as title, retired_at is not null as is_over, count(*) over () as total from solution
where learned_at between %(begin)s and %(end)s and jsonb_array_length(body -> 'fixes') > 0
order by confirmed desc, sessions desc, occurrences desc, id limit %(limit)s

-- name: run_lessons
select id, line as title, retired_at is not null as is_over, count(*) over () as total from lesson
where learned_at between %(begin)s and %(end)s and forgotten_at is null and kind <> 'call' order by score desc, id limit %(limit)s

-- name: by_day
-- How much of what is remembered came on each day of a time zone.
select (at at time zone %(zone)s)::date as day, count(*) as learned
from (
    select recorded_at as at from fact where recorded_at >= %(since)s
    union all select learned_at from lesson where learned_at >= %(since)s and forgotten_at is null and kind <> 'call'
    union all select learned_at from procedure where learned_at >= %(since)s and worth > 0
    union all select learned_at from solution where learned_at >= %(since)s and jsonb_array_length(body -> 'fixes') > 0
) as remembered
group by 1

-- name: by_week
-- By Monday: in how many sessions a known failure's situation came, told and untold, and the failure came back; the same
-- of how commands are run; and what hooks told in tokens.
with chance as (
    select week.key::date as monday, lesson.kind = any(%(commands)s) as is_command,
           sum((week.value ->> 0)::bigint) as told, sum((week.value ->> 1)::bigint) as told_failed,
           sum((week.value ->> 2)::bigint) as untold, sum((week.value ->> 3)::bigint) as untold_failed
    from lesson cross join jsonb_each(lesson.body -> 'worth' -> 'weeks') as week
    where lesson.forgotten_at is null and week.key >= %(since)s::date::text group by 1, 2
), spent as (
    select date_trunc('week', created_at at time zone 'UTC')::date as monday, sum(tokens) as tokens,
           count(distinct session_id) as sessions
    from injection where created_at >= %(since)s and fix ->> 'correction' is distinct from 'shadow' group by 1
), weeks as (select monday from chance union select monday from spent)
select weeks.monday,
       coalesce(failure.told, 0)::bigint as told, coalesce(failure.told_failed, 0)::bigint as told_failed,
       coalesce(failure.untold, 0)::bigint as untold, coalesce(failure.untold_failed, 0)::bigint as untold_failed,
       coalesce(run.told + run.untold, 0)::bigint as runs,
       coalesce(run.told_failed + run.untold_failed, 0)::bigint as runs_failed,
       coalesce(spent.tokens, 0)::bigint as tokens, coalesce(spent.sessions, 0)::bigint as sessions
from weeks left join chance failure on failure.monday = weeks.monday and not failure.is_command
left join chance run on run.monday = weeks.monday and run.is_command
left join spent on spent.monday = weeks.monday
order by weeks.monday
