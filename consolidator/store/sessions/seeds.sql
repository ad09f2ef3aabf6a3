-- name: add
insert into seed (session_id, ordinal, role, content, is_new, occurred_at, details)
values (%(session)s, %(ordinal)s, %(role!)s, %(content!)s, %(is_new)s, %(occurred_at)s, coalesce(%(details)s, '{}'::jsonb))
on conflict do nothing

-- name: read
select * from seed where session_id = %(session)s order by ordinal

-- name: read_latest
-- The latest messages of the earlier thread, as many as a number of characters holds; at least one.
select session_id, ordinal, role, content, is_new, occurred_at, details, total
from (
    select *, sum(length(content)) over (order by ordinal desc) - length(content) as after, count(*) over () as total
    from seed where session_id = %(session)s and role <> 'system'
) as counted
where after < %(characters)s
order by ordinal
