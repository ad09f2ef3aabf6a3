-- name: save
-- What is not worth telling is in no list: only as such it was there before.
with before as (select retired_at is null and worth > 0 as listed from procedure where id = %(id)s)
insert into procedure (id, agent, project, title, support, rank, worth, body, learned_at, updated_at, run_id, cause, audience)
values (%(id)s, %(agent)s, %(project)s, %(title!)s, %(support)s, %(rank)s, %(worth)s, %(body)s, %(learned_at)s, %(updated_at)s,
        %(run_id)s, %(cause)s, %(audience)s)
on conflict (id) do update
set title = excluded.title, support = excluded.support, rank = excluded.rank, worth = excluded.worth, body = excluded.body,
    updated_at = excluded.updated_at, retired_at = null, run_id = excluded.run_id, cause = excluded.cause,
    audience = excluded.audience
where (procedure.support, procedure.rank, procedure.worth, procedure.body, procedure.audience)
      is distinct from (excluded.support, excluded.rank, excluded.worth, excluded.body, excluded.audience)
   or procedure.retired_at is not null
returning not coalesce((select listed from before), false) as added

-- name: retire_others
-- Of a group: all that the owner sees, or one other audience. What is retired goes on saying whose it was: if somebody else
-- has come to the scope since, it was still learned from one person alone.
with retired as (
    update procedure set retired_at = %(now)s, run_id = %(run_id)s, cause = %(cause)s
    where agent = %(agent)s and project is not distinct from %(project)s and not (id = any(%(kept)s)) and retired_at is null
      and (audience = %(audience)s or starts_with(audience, 'all') and starts_with(%(audience)s, 'all'))
    returning worth
)
select count(*) from retired where worth > 0

-- name: shared
select body, worth from procedure
where agent = %(agent)s and project is null and retired_at is null
  and (audience = %(audience)s or starts_with(audience, 'all') and starts_with(%(audience)s, 'all'))

-- name: save_withheld
insert into withheld_procedure (id, agent, project, audience, title, support, rank, worth, body)
select withheld.id, %(agent)s, %(project)s, %(audience)s, withheld.title, withheld.support, withheld.rank, withheld.worth,
       withheld.body
from unnest(%(ids)s::text[], %(titles)s::text[], %(supports)s::bigint[], %(ranks)s::float8[], %(worths)s::float8[],
            %(bodies)b::jsonb[]) as withheld (id, title, support, rank, worth, body)
on conflict (id) do update
set audience = excluded.audience, title = excluded.title, support = excluded.support, rank = excluded.rank,
    worth = excluded.worth, body = excluded.body
where (withheld_procedure.body, withheld_procedure.rank, withheld_procedure.audience)
      is distinct from (excluded.body, excluded.rank, excluded.audience)

-- name: delete_other_withheld
delete from withheld_procedure
where agent = %(agent)s and project = %(project)s and not (id = any(%(kept)s))
  and (audience = %(audience)s or starts_with(audience, 'all') and starts_with(%(audience)s, 'all'))

-- name: withhold
-- What all projects have come to share is published for the agent, and no longer for each of them.
with withheld as (
    update procedure set retired_at = %(now)s, run_id = %(run_id)s, cause = %(cause)s
    where retired_at is null and (id = any(%(ids)s) or worth <= 0 and id = any(%(worthless)s))
    returning *
), saved as (
    insert into withheld_procedure (id, agent, project, audience, title, support, rank, worth, body)
    select id, agent, project, audience, title, support, rank, worth, body from withheld
)
select count(*) from withheld where worth > 0

-- name: release
-- What all projects share no more is published for each of them that has it.
with released as (
    delete from withheld_procedure where id = any(%(ids)s) or worth > 0 and id = any(%(worthless)s) returning *
), published as (
    insert into procedure (id, agent, project, title, support, rank, worth, body, learned_at, updated_at, run_id, cause,
                           audience)
    select id, agent, project, title, support, rank, worth, body, %(now)s, %(now)s, %(run_id)s, %(cause)s, audience
    from released
    on conflict (id) do update
    set title = excluded.title, support = excluded.support, rank = excluded.rank, worth = excluded.worth,
        body = excluded.body, updated_at = excluded.updated_at, retired_at = null, run_id = excluded.run_id,
        cause = excluded.cause, audience = excluded.audience
    returning worth
)
select count(*) from published where worth > 0

-- name: save_profiles
insert into tool_profile (agent, project, audience, tool, body)
select %(agent)s, %(project)s, %(audience)s, profile.tool, profile.body
from unnest(%(tools)s::text[], %(bodies)b::jsonb[]) as profile (tool, body)
on conflict (agent, project, audience, tool) do update set body = excluded.body
where tool_profile.body is distinct from excluded.body

-- name: delete_other_profiles
delete from tool_profile
where agent = %(agent)s and project = %(project)s
  and (audience = %(audience)s and not (tool = any(%(kept)s))
       or audience <> %(audience)s and starts_with(audience, 'all') and starts_with(%(audience)s, 'all'))

-- name: list_other_audiences
-- The audiences, other than what the owner sees, for which something of an agent is published.
select distinct audience from tool_profile where agent = %(agent)s and not starts_with(audience, 'all')
union select distinct audience from procedure where agent = %(agent)s and not starts_with(audience, 'all')

-- name: delete_audience
with profiles as (delete from tool_profile where agent = %(agent)s and audience = %(audience)s),
     withheld as (delete from withheld_procedure where agent = %(agent)s and audience = %(audience)s)
delete from procedure where agent = %(agent)s and audience = %(audience)s

-- name: list_compiled
-- The tools that a person made of procedures, also of one that is done no more.
select * from procedure where compiled is not null order by id

-- name: set_compiled
update procedure set compiled = %(compiled)s where id = %(id)s
