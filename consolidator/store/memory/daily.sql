-- name: by_day
-- What each day brought, in UTC: the days from a moment on, also those on which nothing happened.
with day as (
    select generate_series((%(since)s::timestamptz at time zone 'UTC')::date, (%(now)s::timestamptz at time zone 'UTC')::date,
                           '1 day')::date as day
), night as (
    select (started_at at time zone 'UTC')::date as day, sum((report ->> 'seen')::bigint) as events,
           sum((report ->> 'learned')::bigint) as learned
    from run where job in ('consolidation', 'backfill', 'retry') and started_at >= %(since)s group by 1
), believed as (
    select (recorded_at at time zone 'UTC')::date as day, count(*) as facts from fact where recorded_at >= %(since)s group by 1
), told as (
    select (created_at at time zone 'UTC')::date as day, count(*) as failures,
           count(*) filter (where outcome = 'worked') as fixed
    from injection where moment = 'failure' and created_at >= %(since)s group by 1
), paid as (
    select day, sum(cost) as cost from spend where day >= (%(since)s::timestamptz at time zone 'UTC')::date group by 1
)
select day.day, coalesce(night.events, 0)::bigint as events, coalesce(night.learned, 0)::bigint as learned,
       coalesce(believed.facts, 0)::bigint as facts, coalesce(told.failures, 0)::bigint as failures,
       coalesce(told.fixed, 0)::bigint as fixed, coalesce(paid.cost, 0)::numeric as cost
from day left join night using (day) left join believed using (day) left join told using (day) left join paid using (day)
order by day.day desc

-- name: first_fact
-- When memory came to believe its first fact.
select min(recorded_at) as first from fact

-- name: repeated_failures
-- Errors that were met again though a fix was known, the latest first; `fix` is what was told at the failed call.
select id, session_id, agent, project, cited, fix, outcome, created_at from injection
where moment = 'failure' and created_at >= %(since)s order by created_at desc, id desc limit %(limit)s

-- name: facts
-- Facts that came to be believed in a span of time, also those that were replaced since.
select id, sentence as title, superseded_at is not null as is_over, count(*) over () as total from fact
where recorded_at between %(begin)s and %(end)s order by sessions desc, recorded_at, id limit %(limit)s

-- name: procedures
select id, title, retired_at is not null as is_over, count(*) over () as total from procedure
where learned_at between %(begin)s and %(end)s and worth > 0 order by worth desc, rank desc, id limit %(limit)s

-- name: solutions
select id, headline as title, retired_at is not null as is_over, count(*) over () as total from solution
where learned_at between %(begin)s and %(end)s and jsonb_array_length(body -> 'fixes') > 0
order by confirmed desc, sessions desc, occurrences desc, id limit %(limit)s

-- name: lessons
select id, line as title, retired_at is not null as is_over, count(*) over () as total from lesson
where learned_at between %(begin)s and %(end)s and forgotten_at is null order by score desc, id limit %(limit)s
