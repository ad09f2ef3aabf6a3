-- name: unsummed
-- Digests that the sums do not include as they are, with what the sums include of them. Locked, so that none changes before it
-- is marked as summed; in the order in which nights save digests.
select d.session_id, s.root_id, coalesce(d.project, '') as project, d.sequence, d.seqs, d.keys, d.counts,
       extract(epoch from d.last_at)::float8 as last_at, d.summed_keys, d.summed_counts,
       d.goal, case when root.id is null then coalesce(s.peer, '') else coalesce(root.peer, '') end as peer
from digest d join session s on s.id = d.session_id and not s.simulated left join session root on root.id = s.root_id
where d.agent = %(agent)s and (%(all)s or not d.summed)
order by d.session_id collate "C" for update of d

-- name: summed_counts
-- What the sums include of some digests.
select session_id, case when summed then keys else summed_keys end as keys,
       case when summed then counts else summed_counts end as counts
from digest where session_id = any(%(sessions)s) order by session_id

-- name: sequences
-- Every digest of an agent that is evidence; `size` is the bytes of its keys as the sums include them, null if they do not.
select d.session_id, s.root_id, coalesce(d.project, '') as project, d.sequence, d.seqs,
       extract(epoch from d.last_at)::float8 as last_at, d.outcome,
       case when d.summed then octet_length(d.keys) else octet_length(d.summed_keys) end as size,
       d.goal, case when root.id is null then coalesce(s.peer, '') else coalesce(root.peer, '') end as peer
from digest d join session s on s.id = d.session_id and not s.simulated left join session root on root.id = s.root_id
where d.agent = %(agent)s order by d.session_id collate "C"

-- name: mark_summed
update digest d set summed = true, summed_keys = null, summed_counts = null, outcome = digests.outcome
from unnest(%(sessions)s::text[], %(outcomes)s::integer[]) as digests (session_id, outcome)
where d.session_id = digests.session_id

-- name: get_agent_sums
select agent, version, lineage from agent_sums where agent = %(agent)s

-- name: save_agent_sums
insert into agent_sums (agent, version, lineage) values (%(agent)s, %(version)s, %(lineage)s)
on conflict (agent) do update set version = excluded.version, lineage = excluded.lineage

-- name: delete
with sums as (delete from scope_sum where agent = %(agent)s), texts as (delete from sum_text where agent = %(agent)s)
delete from agent_sums where agent = %(agent)s

-- name: get_scope_sum
select agent, project, audience, keys, totals, roots from scope_sum
where agent = %(agent)s and project = %(project)s and audience = %(audience)s

-- name: save_scope_sum
insert into scope_sum (agent, project, audience, keys, totals, roots)
values (%(agent)s, %(project)s, %(audience)s, %(keys)s, %(totals)s, %(roots)s)
on conflict (agent, project, audience) do update
set keys = excluded.keys, totals = excluded.totals, roots = excluded.roots

-- name: texts
select agent, part, keys, groups, texts from sum_text where agent = %(agent)s order by part

-- name: save_texts
insert into sum_text (agent, part, keys, groups, texts)
values (%(agent)s, %(part)s, %(keys)s, %(groups)s, %(texts)s)

-- name: delete_texts
delete from sum_text where agent = %(agent)s
