-- name: facts
select id, agent || ': ' || sentence as line, jsonb_build_array(valid_to, sessions, evidence) as content
from fact where superseded_at is null order by id

-- name: procedures
select id, agent || ': ' || title || ' (' || support || ' sessions)' as line, body as content from procedure
where retired_at is null and starts_with(audience, 'all') order by id

-- name: solutions
select id, agent || ': ' || (body ->> 'line') as line, body as content from solution
where retired_at is null and starts_with(audience, 'all') order by id

-- name: lessons
select id, project || ': ' || line as line, body as content from lesson where retired_at is null order by id
