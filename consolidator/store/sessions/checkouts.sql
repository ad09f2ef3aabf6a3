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

-- name: projects
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
