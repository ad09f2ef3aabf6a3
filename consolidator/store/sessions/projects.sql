-- name: is_known
select exists (
    select from session s where s.project = %(project)s and (%(agent)s::text is null or s.agent = %(agent)s)
      and (%(peer)s::text is null or coalesce(s.peer, '') = %(peer)s)
) as is_known

-- name: projects
-- Every project, from one index entry to the next, so that many sessions of few projects cost little.
with recursive known as (
    (select project from session where project is not null order by project limit 1)
    union all
    select (select s.project from session s where s.project > k.project order by s.project limit 1)
    from known k where k.project is not null
)
select project from known k where project is not null and exists (
    select from session s where s.project = k.project and (%(agent)s::text is null or s.agent = %(agent)s)
      and (%(peer)s::text is null or coalesce(s.peer, '') = %(peer)s)
)

-- name: latest_agent
select agent from session
where kind = 'root' and channel is distinct from %(channel)s and (%(project)s::text is null or project = %(project)s)
order by created_at desc, id desc limit 1

-- name: known
select wanted.project from unnest(%(projects)s::text[]) as wanted (project)
where exists (select from session s where s.project = wanted.project)

-- name: shared_with
select distinct project from session
where agent = %(agent)s and memory = %(shared)s and project is not null
