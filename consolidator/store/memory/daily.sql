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
where learned_at between %(begin)s and %(end)s and forgotten_at is null order by score desc, id limit %(limit)s

-- name: by_day
-- How much of what is remembered came on each day of a time zone.
select (at at time zone %(zone)s)::date as day, count(*) as learned
from (
    select recorded_at as at from fact where recorded_at >= %(since)s
    union all select learned_at from lesson where learned_at >= %(since)s and forgotten_at is null
    union all select learned_at from procedure where learned_at >= %(since)s and worth > 0
    union all select learned_at from solution where learned_at >= %(since)s and jsonb_array_length(body -> 'fixes') > 0
) as remembered
group by 1
