-- name: news
-- Digests that the sums do not hold yet, with what they hold of them; locked, so that none moves before it is marked,
-- in the order in which nights save them.
select d.session_id, s.root_id, coalesce(d.project, '') as project, d.sequence, d.seqs, d.keys, d.counts,
       extract(epoch from d.last_at)::float8 as last_at, d.was_keys, d.was_counts
from digest d join session s on s.id = d.session_id and not s.simulated
where d.agent = %(agent)s and (%(every)s or not d.summed)
order by d.session_id collate "C" for update of d

-- name: counted
-- What the sums hold of some digests.
select session_id, case when summed then keys else was_keys end as keys,
       case when summed then counts else was_counts end as counts
from digest where session_id = any(%(sessions)s) order by session_id

-- name: placed
-- What patterns are found in: every digest of an agent that is evidence, and how long it was when it was summed.
select d.session_id, s.root_id, coalesce(d.project, '') as project, d.sequence, d.seqs,
       extract(epoch from d.last_at)::float8 as last_at, d.outcome,
       case when d.summed then octet_length(d.keys) else octet_length(d.was_keys) end as size, d.summed
from digest d join session s on s.id = d.session_id and not s.simulated
where d.agent = %(agent)s order by d.session_id collate "C"

-- name: mark
update digest d set summed = true, was_keys = null, was_counts = null, outcome = told.outcome
from unnest(%(sessions)s::text[], %(outcomes)s::integer[]) as told (session_id, outcome)
where d.session_id = told.session_id

-- name: ledger
select version, lineage from summed where agent = %(agent)s

-- name: save_ledger
insert into summed (agent, version, lineage) values (%(agent)s, %(version)s, %(lineage)s)
on conflict (agent) do update set version = excluded.version, lineage = excluded.lineage

-- name: forget
with sums as (delete from scope_sum where agent = %(agent)s), names as (delete from summed_name where agent = %(agent)s)
delete from summed where agent = %(agent)s

-- name: sums
select keys, totals, roots from scope_sum where agent = %(agent)s and project = %(project)s

-- name: save_sums
insert into scope_sum (agent, project, keys, totals, roots)
values (%(agent)s, %(project)s, %(keys)s, %(totals)s, %(roots)s)
on conflict (agent, project) do update
set keys = excluded.keys, totals = excluded.totals, roots = excluded.roots

-- name: names
select part, keys, groups, texts from summed_name where agent = %(agent)s order by part

-- name: save_names
insert into summed_name (agent, part, keys, groups, texts)
values (%(agent)s, %(part)s, %(keys)s, %(groups)s, %(texts)s)

-- name: forget_names
delete from summed_name where agent = %(agent)s
