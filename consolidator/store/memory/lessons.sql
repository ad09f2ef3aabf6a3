-- name: lock
-- One merge at a time learns about a person's project, whichever agents' merges meet there. Places share a few locks,
-- since the server has room for some thousands, and a night may have news of more.
select pg_advisory_xact_lock(hashtextextended('consolidator.lessons', %(bucket)s))

-- name: traces
-- What a person's latest sessions in a project left, of all agents.
select d.session_id, s.root_id, s.agent, d.trace
from digest d join session s on s.id = d.session_id and not s.simulated
where d.project = %(project)s and d.peer = %(person)s and d.trace <> ''
order by d.last_at desc, d.session_id desc limit %(limit)s

-- name: traces_of
select d.session_id, s.root_id, s.agent, d.trace from digest d join session s on s.id = d.session_id
where d.session_id = any(%(sessions)s) and d.trace <> ''

-- name: save
insert into lesson (id, person, project, kind, key, line, score, harm, body, learned_at, updated_at, run_id, cause)
values (%(id)s, %(person)s, %(project)s, %(kind)s, %(key!)s, %(line!)s, %(score)s, %(harm)s, %(body)s, %(learned_at)s,
        %(updated_at)s, %(run_id)s, %(cause)s)
on conflict (id) do update
set line = excluded.line, score = excluded.score, harm = excluded.harm, body = excluded.body, updated_at = excluded.updated_at,
    retired_at = null, run_id = excluded.run_id, cause = excluded.cause
where lesson.forgotten_at is null and (lesson.retired_at is not null or (lesson.body, lesson.harm) is distinct from (excluded.body, excluded.harm))
returning (xmax = 0) as added

-- name: retire_others
with retired as (
    update lesson set retired_at = %(now)s, updated_at = %(now)s, run_id = %(run_id)s, cause = %(cause)s
    where project = %(project)s and person = %(person)s and retired_at is null and not id = any(%(kept)s)
    returning kind
)
select count(*) from retired where kind <> 'call'

-- name: delete_retired
-- They are not made again from what is left, and may still quote what was erased; what a person forgot holds no text.
delete from lesson where project = %(project)s and person = %(person)s and retired_at is not null and forgotten_at is null

-- name: listing
select * from lesson
where person = %(person)s and retired_at is null and (%(project)s::text is null or project = %(project)s)
  and (%(kinds)s::text[] is null and kind <> 'call' or kind = any(%(kinds)s))
  and (%(agent)s::text is null or body -> 'agents' ? %(agent)s)
  and (%(agent_alone)s::text is null or body -> 'agents' <@ jsonb_build_array(%(agent_alone)s::text))
  and (%(pattern)s::text is null or line ilike %(pattern)s or key ilike %(pattern)s)
order by score desc, id limit %(limit)s

-- name: of_machine
-- What projects showed of a person's machine, each once: rules of its shell, and what always fails, unless it worked in
-- another project. What two projects showed is told at a start. A machine is known by the folder of its projects; of its
-- shells each client may have another one.
with known as (
    select id, key, count(*) over machine as projects, row_number() over (machine order by score desc, id) as place
    from lesson
    where person = %(person)s and retired_at is null and kind in ('harness', 'always_fails')
      and body -> 'match' ?| '{shell,elsewhere}' and harm is null and (pinned or body -> 'worth' ->> 'withheld' is null)
      and (%(agent_alone)s::text is null or body -> 'agents' <@ jsonb_build_array(%(agent_alone)s::text))
    window machine as (
        partition by kind, key, substring(replace(project, '\', '/') from %(home)s),
                     case when body -> 'match' ? 'shell' then body -> 'agents' end
    )
), worked as materialized (
    select jsonb_array_elements_text(body -> 'match' -> 'keys') as key from lesson
    where person = %(person)s and kind = 'call' and key = '*' and retired_at is null
)
select l.id, person, project, kind, l.key, line, score, harm,
       case when projects > 1 then jsonb_set(body, '{starts}', 'true') else body end as body,
       learned_at, updated_at, retired_at, forgotten_at, run_id, cause, pinned, corrects
from known join lesson l on l.id = known.id
where place = 1 and not exists (select from worked where worked.key = known.key)
order by score desc, l.id limit %(limit)s

-- name: warnings
select * from lesson where person = %(person)s and retired_at is null and harm is null and (body ->> 'warns')::boolean
order by score desc, id limit %(limit)s

-- name: by_id
select * from lesson where id = %(id)s and person = %(person)s and forgotten_at is null

-- name: forget
update lesson
set line = '', key = '', body = '{}', score = 0, harm = null, retired_at = %(now)s, updated_at = %(now)s, forgotten_at = %(now)s,
    run_id = null, cause = 'person'
where id = %(id)s

-- name: forgotten
select id from lesson where id = any(%(ids)s) and forgotten_at is not null

-- name: choose
update lesson set pinned = %(pinned)s, corrects = %(corrects)s where id = %(id)s

-- name: projects
select distinct project from lesson where person = %(person)s and retired_at is null order by project
