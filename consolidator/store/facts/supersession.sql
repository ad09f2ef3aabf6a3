-- name: chain
-- A fact with those that took its place one after the other, and those whose place it took, the nearest first; the
-- sets are without repetitions, so that a circle of facts ends, too.
with recursive later as (
    select id, superseded_by from fact where id = %(id)s
    union
    select f.id, f.superseded_by from later l join fact f on f.id = l.superseded_by
),
earlier as (
    select id from fact where id = %(id)s
    union
    select f.id from earlier e join fact f on f.superseded_by = e.id
),
linked as (
    (select id from later limit %(limit)s)
    union
    (select id from earlier limit %(limit)s)
)
select f.id, f.sentence, f.valid_from, f.valid_to, f.recorded_at, f.superseded_at, f.superseded_by, f.superseded_reason,
       f.superseded_at is not null and exists (select from tombstone t where t.fact_id = f.id) as is_withdrawn
from fact f join linked on linked.id = f.id
order by f.valid_from, f.recorded_at, f.id

-- name: versions
-- What was believed of facts until they said something else, or held at other times.
select fact_id, until, sentence, valid_from, valid_to, superseded_at, superseded_by, superseded_reason from fact_version
where fact_id = any(%(ids)s) order by fact_id, until
