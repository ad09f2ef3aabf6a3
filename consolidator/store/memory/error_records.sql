-- name: save
insert into error_record (session_id, seq, agent, project, fingerprint, family, status, record)
values (%(session_id)s, %(seq)s, %(agent)s, %(project)s, %(fingerprint)s, %(family)s, %(status)s, %(record)s)
on conflict (session_id, seq) do update
set fingerprint = excluded.fingerprint, family = excluded.family, status = excluded.status, record = excluded.record, merged = false,
    fix_shape = null

-- name: lock_unmerged
-- Locked, so that none of them changes before it is marked as merged.
select session_id, seq from error_record where agent = %(agent)s and not merged
order by session_id collate "C", seq for update

-- name: count_with_news
-- The fingerprints that have news: a solution is made of all their records.
select fingerprint, count(*) as records from error_record
where agent = %(agent)s
  and fingerprint in (select n.fingerprint from error_record n where n.agent = %(agent)s and not n.merged)
group by fingerprint order by fingerprint collate "C"

-- name: count_families_with_news
select family as fingerprint, count(*) as records from error_record
where agent = %(agent)s
  and family in (select n.family from error_record n where n.agent = %(agent)s and not n.merged and n.family is not null)
group by family order by family collate "C"

-- name: of_families
-- As of_fingerprints, but by family: what a family has in common is made of all its records.
select r.session_id, r.seq, s.root_id, r.project, r.family as fingerprint, r.status, r.fix_shape,
       r.record ->> 'occurred_at' as occurred_at, r.record ->> 'tool' as tool, r.record ->> 'symbol' as symbol,
       r.record ->> 'headline' as headline, nullif(r.record ->> 'tried', '[]') as tried,
       case when root.id is null then coalesce(s.peer, '') else coalesce(root.peer, '') end as peer
from error_record r join session s on s.id = r.session_id and not s.simulated left join session root on root.id = s.root_id
where r.agent = %(agent)s and r.family = any(%(fingerprints)s)
order by r.session_id, r.seq

-- name: of_fingerprints
select r.session_id, r.seq, s.root_id, r.project, r.fingerprint, r.status, r.fix_shape,
       r.record ->> 'occurred_at' as occurred_at, r.record ->> 'tool' as tool, r.record ->> 'symbol' as symbol,
       r.record ->> 'headline' as headline, nullif(r.record ->> 'tried', '[]') as tried,
       case when root.id is null then coalesce(s.peer, '') else coalesce(root.peer, '') end as peer
from error_record r join session s on s.id = r.session_id and not s.simulated left join session root on root.id = s.root_id
where r.agent = %(agent)s and r.fingerprint = any(%(fingerprints)s)
order by r.session_id, r.seq

-- name: get_each
select session_id, seq, record from error_record
where (session_id, seq) in (select * from unnest(%(sessions)s::text[], %(seqs)s::bigint[]))

-- name: mark_merged
-- The shape of the fix is stored, so that the next night need not read the whole record.
update error_record r set merged = true, fix_shape = coalesce(merged.fix_shape, r.fix_shape)
from unnest(%(sessions)s::text[], %(seqs)s::bigint[], %(fix_shapes)s::text[]) as merged (session_id, seq, fix_shape)
where r.session_id = merged.session_id and r.seq = merged.seq

-- name: outdated_sessions
select session_id from error_record where agent = %(agent)s and fingerprint not like %(current)s
group by session_id order by session_id collate "C"

-- name: outdated_records
select seq, record from error_record where session_id = %(session)s and fingerprint not like %(current)s order by seq

-- name: delete_outdated_solutions
delete from solution where agent = %(agent)s and fingerprint not like %(current)s
