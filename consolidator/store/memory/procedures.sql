-- name: save
insert into procedure (id, agent, project, title, support, rank, worth, body, learned_at, updated_at, run_id, cause)
values (%(id)s, %(agent)s, %(project)s, %(title)s, %(support)s, %(rank)s, %(worth)s, %(body)s, %(learned_at)s, %(updated_at)s, %(run_id)s, %(cause)s)
on conflict (id) do update
set title = excluded.title, support = excluded.support, rank = excluded.rank, worth = excluded.worth, body = excluded.body,
    updated_at = excluded.updated_at, retired_at = null, run_id = excluded.run_id, cause = excluded.cause
where (procedure.support, procedure.rank, procedure.worth, procedure.body)
      is distinct from (excluded.support, excluded.rank, excluded.worth, excluded.body)
   or procedure.retired_at is not null
returning (xmax = 0) as added

-- name: retire_others
update procedure set retired_at = %(now)s, run_id = %(run_id)s, cause = %(cause)s
where agent = %(agent)s and project is not distinct from %(project)s and not (id = any(%(kept)s)) and retired_at is null

-- name: shared
select body, worth from procedure where agent = %(agent)s and project is null and retired_at is null

-- name: save_profiles
insert into tool_profile (agent, project, tool, body)
select %(agent)s, %(project)s, profile.tool, profile.body from unnest(%(tools)s::text[], %(bodies)b::jsonb[]) as profile (tool, body)
on conflict (agent, project, tool) do update set body = excluded.body
where tool_profile.body is distinct from excluded.body

-- name: delete_other_profiles
delete from tool_profile where agent = %(agent)s and project = %(project)s and not (tool = any(%(kept)s))
