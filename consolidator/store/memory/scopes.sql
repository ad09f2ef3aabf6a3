-- name: touch
insert into scope (agent, project, version) values (%(agent)s, %(project)s, 1)
on conflict (agent, project) do update set version = scope.version + 1

-- name: changed
-- Ordered as every transaction locks scopes, whatever the database's collation.
select agent, project, version from scope where version > merged order by agent collate "C", project collate "C"

-- name: mark_merged
update scope set merged = greatest(merged, %(version)s), sessions = %(sessions)s
where agent = %(agent)s and project = %(project)s

-- name: agents_with_news
-- Ordered as every transaction locks agents.
select agent from (
    select agent from scope where version > merged
    union all
    select r.agent from error_record r join session s on s.id = r.session_id and not s.simulated where not r.merged
    union all
    select r.agent from error_record r where r.fingerprint not like %(current)s
    union all
    select c.agent from candidate c join session s on s.id = c.session_id and not s.simulated where not c.reconciled
    union all
    select c.agent from candidate c join session s on s.id = c.session_id and not s.simulated
    where %(undecided)s and c.revision > 0 and c.operation is null and c.rejected is null and c.quarantined is null and c.active
) as news group by agent order by agent collate "C"
