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
where kind in ('root', 'fork') and channel is distinct from 'memory'
  and (%(project)s::text is null or project = %(project)s)
order by last_day desc, last_occurred_at desc, id desc limit 1  -- what is imported at once was not created in its order

-- name: shared_with
select distinct project from session
where agent = %(agent)s and memory = %(shared)s and project is not null

-- name: overview
-- Every project with its agents, the latest first.
select s.project, array_agg(distinct s.agent) as agents, count(*) as sessions, max(s.last_occurred_at) as last_at,
       (select count(*) from lesson l where l.person = '' and l.project = s.project and l.retired_at is null and l.kind <> 'call') as lessons,
       (select count(*) from fact f where f.project = s.project and f.superseded_at is null) as facts
from session s where s.project is not null and s.recorded_by is null and s.channel is distinct from 'memory'
  and (%(project)s::text is null or s.project = %(project)s)
group by s.project order by last_at desc, s.project limit %(limit)s

-- name: nights
-- What the latest nights last wrote about a project, the latest first.
select r.id, r.started_at, sum(written.lessons)::bigint as lessons, sum(written.facts)::bigint as facts,
       sum(written.solutions)::bigint as solutions
from (
    select run_id, 1 as lessons, 0 as facts, 0 as solutions from lesson
    where person = '' and project = %(project)s and retired_at is null and kind <> 'call'
    union all
    select run_id, 0, 1, 0 from fact where project = %(project)s and superseded_at is null
    union all
    select run_id, 0, 0, 1 from solution where agent = any(%(agents)s) and project = %(project)s and retired_at is null
) written join run r on r.id = written.run_id
group by r.id, r.started_at order by r.started_at desc limit %(limit)s


-- name: add
-- A directory stays the checkout that it was first known to be, and a repository the project of its first checkout.
insert into checkout (directory, repository, project)
values (%(directory!)s, %(repository!)s, coalesce(
    (select project from checkout where repository = %(repository!)s limit 1), %(directory!)s
))
on conflict (directory) do nothing

-- name: lock
-- Of two imports that know the first checkouts of a repository, the second must see the first one's.
select pg_advisory_xact_lock(hashtextextended('consolidator.checkouts', 0))

-- name: projects_of_directories
-- The projects of directories: of their repository, else the directory itself if a session worked in it.
select wanted.directory, coalesce(c.project, wanted.directory) as project
from unnest(%(directories!)s::text[]) as wanted (directory) left join checkout c on c.directory = wanted.directory
where c.directory is not null or exists (select from session s where s.project = wanted.directory)

-- name: project_of_repository
select project from checkout where repository = %(repository)s limit 1

-- name: others
-- The further directories of projects.
select project, directory from checkout where directory <> project and (%(project)s::text is null or project = %(project)s)
order by project, directory

-- name: is_owners
-- What a program opened by the name of a project, or another person's, stays where it is.
and (s.origin is not null or s.channel = 'memory') and s.peer is null
and not exists (select from session root where root.id = s.root_id and root.peer is not null)

-- name: strayed_memories
select distinct s.memory collate "C" as memory from session s join checkout c on c.directory = s.project
where c.project <> c.directory
  -- include: is_owners
order by 1

-- name: unite
-- What the owner's logs taught in a directory belongs to the project of its repository; the merges that follow make of it
-- what they would have made, had it been there from the beginning.
with moved as (
    update session s set project = c.project from checkout c
    where s.project = c.directory and c.project <> c.directory
      -- include: is_owners
    returning s.id, s.memory, c.directory, c.project
), places as (
    select distinct memory, directory, project from moved
), digests as (
    update digest d set project = m.project from moved m where d.session_id = m.id
), records as (
    update error_record r set project = m.project, merged = false from moved m where r.session_id = m.id
), candidates as (
    update candidate k
    set project = p.project, owner = case k.level when 'project' then p.project else k.owner end, reconciled = false
    from places p where k.agent = p.memory and k.project = p.directory and k.session_id in (select id from moved)
), remaining as (
    update candidate k set reconciled = false from places p
    where k.agent = p.memory and k.level = 'project' and k.owner = p.directory
      and k.session_id not in (select id from moved)
), facts as (
    update fact f set project = p.project from places p
    where f.agent = p.memory and f.project = p.directory and not exists (
        select from candidate k where k.id = any(f.evidence) and k.session_id not in (select id from moved))
), tombstones as (
    update tombstone t set project = p.project from places p where t.agent = p.memory and t.project = p.directory
), searched as (
    update corpus k set project = p.project from places p
    where k.agent = p.memory and k.project = p.directory and k.peer is null
)
insert into scope (agent, project, peer, version)
select distinct memory, unnest(array[directory, project]), '', 1 from places
on conflict (agent, project, peer) do update set version = scope.version + 1

-- name: forget
-- Nothing is left to say of a directory whose project no session is in.
delete from checkout c where not exists (select from session s where s.project in (c.project, c.directory))
