-- name: first_fact
-- When memory came to believe its first fact.
select min(recorded_at) as first from fact

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
