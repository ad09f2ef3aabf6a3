-- name: of_sessions
-- Ordered as every transaction locks scopes.
select distinct s.memory collate "C" as agent, coalesce(s.project, '') collate "C" as project,
       coalesce(case when root.id is null then s.peer else root.peer end, '') collate "C" as peer
from session s left join session root on root.id = s.root_id where s.id = any(%(sessions)s)
order by 1, 2, 3

-- name: touch
insert into scope (agent, project, peer, version) values (%(agent)s, %(project)s, %(peer)s, 1)
on conflict (agent, project, peer) do update set version = scope.version + 1

-- name: changed
-- Ordered as every transaction locks scopes, whatever the database's collation.
select agent, project, peer, version from scope where agent = %(agent)s and version > merged
order by project collate "C", peer collate "C"

-- name: of_agent
select agent, project, peer, version from scope where agent = %(agent)s
order by project collate "C", peer collate "C"

-- name: projects_of_person
select project from scope where agent = %(agent)s and peer = %(peer)s

-- name: mark_merged
update scope set merged = greatest(merged, %(version)s)
where agent = %(agent)s and project = %(project)s and peer = %(peer)s

-- name: agents_with_news
-- Ordered as every transaction locks agents. Another version is in two ranges of the index; `<>` would read all of it.
select agent from (
    select agent from scope where version > merged
    union all
    select r.agent from error_record r join session s on s.id = r.session_id and not s.simulated where not r.merged
    union all
    select r.agent from error_record r
    where %(fingerprint_version)s <> '' and (
        split_part(r.fingerprint, ':', 1) < %(fingerprint_version)s or split_part(r.fingerprint, ':', 1) > %(fingerprint_version)s
    )
    union all
    select c.agent from candidate c join session s on s.id = c.session_id and not s.simulated where not c.reconciled
    union all
    select c.agent from candidate c join session s on s.id = c.session_id and not s.simulated
    where %(include_undecided)s and c.revision > 0 and c.operation is null and c.rejected is null and c.quarantined is null and c.active
) as news group by agent order by agent collate "C"

-- name: form
-- Return by which form an agent's procedures were published; None if none were.
select form from merged_agent where agent = %(agent)s

-- name: save_form
insert into merged_agent (agent, form) values (%(agent)s, %(form)s)
on conflict (agent) do update set form = excluded.form where merged_agent.form <> excluded.form

-- name: state
select agent, project, audience, keys, groups, texts, selected from scope_state
where agent = %(agent)s and project = %(project)s and audience = %(audience)s

-- name: save_state
insert into scope_state (agent, project, audience, keys, groups, texts, selected)
values (%(agent)s, %(project)s, %(audience)s, %(keys)s, %(groups)s, %(texts)s, %(selected)s)
on conflict (agent, project, audience) do update
set keys = excluded.keys, groups = excluded.groups, texts = excluded.texts, selected = excluded.selected

-- name: selected
select project, selected from scope_state
where agent = %(agent)s and audience = %(audience)s and project <> '' and length(selected) > 0

-- name: forget
delete from scope_state where agent = %(agent)s and (%(audience)s::text is null or audience = %(audience)s)

-- name: lock
-- One merge of an agent at a time; the lock is held until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('consolidator.merge:' || %(agent)s, 0))

-- name: lock_shared
-- Any number of transactions may learn about an agent at once; none merges it meanwhile.
select pg_advisory_xact_lock_shared(hashtextextended('consolidator.merge:' || %(agent)s, 0))
