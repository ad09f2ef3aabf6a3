-- name: save
insert into error_record (session_id, seq, agent, project, fingerprint, status, record)
values (%(session_id)s, %(seq)s, %(agent)s, %(project)s, %(fingerprint!)s, %(status)s, %(record)s)
on conflict (session_id, seq) do update
set fingerprint = excluded.fingerprint, status = excluded.status, record = excluded.record, merged = false,
    fix_shape = null

-- name: lock_unmerged
-- Locked, so that none of them changes before it is marked as merged.
select session_id, seq from error_record where agent = %(agent)s and not merged
order by session_id collate "C", seq for update

-- name: count_with_news
-- The fingerprints that have news, and how many records each has, up to those of which its solution is made.
select news.fingerprint, counted.records
from (select distinct fingerprint from error_record where agent = %(agent)s and not merged) news
cross join lateral (
    select count(*) as records from (
        select from error_record r where r.agent = %(agent)s and r.fingerprint = news.fingerprint limit %(latest)s
    ) few
) counted
order by news.fingerprint collate "C"

-- name: of_fingerprints
-- The latest records of each fingerprint, of which its solution is made.
select r.session_id, r.seq, s.root_id, r.project, r.fingerprint, r.status, r.fix_shape,
       r.record ->> 'occurred_at' as occurred_at, r.record ->> 'tool' as tool, r.record ->> 'symbol' as symbol,
       r.record ->> 'headline' as headline, nullif(r.record ->> 'tried', '[]') as tried,
       case when root.id is null then coalesce(s.peer, '') else coalesce(root.peer, '') end as peer
from unnest(%(fingerprints)s::text[]) as wanted (fingerprint)
cross join lateral (
    select * from error_record e where e.agent = %(agent)s and e.fingerprint = wanted.fingerprint and e.status <> 'noise'
    order by (e.record ->> 'occurred_at') desc, e.session_id desc, e.seq desc limit %(latest)s
) r
join session s on s.id = r.session_id and not s.simulated left join session root on root.id = s.root_id
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
-- Two ranges of the index, as `<>` would read all of it.
select session_id from error_record where agent = %(agent)s and split_part(fingerprint, ':', 1) < %(version)s
   or agent = %(agent)s and split_part(fingerprint, ':', 1) > %(version)s
group by session_id order by session_id collate "C"

-- name: outdated_records
select record from error_record
where session_id = %(session)s and fingerprint not like %(version)s || ':%%' order by seq

-- name: delete_outdated_solutions
delete from solution where agent = %(agent)s and fingerprint not like %(version)s || ':%%'

-- name: save_solution
insert into solution (id, agent, project, fingerprint, tool, headline, confirmed, sessions, occurrences, search, body,
                      learned_at, updated_at, run_id, cause, audience)
values (%(id)s, %(agent)s, %(project)s, %(fingerprint!)s, %(tool!)s, %(headline!)s, %(confirmed)s, %(sessions)s,
        %(occurrences)s, %(search!)s, %(body)s, %(learned_at)s, %(updated_at)s, %(run_id)s, %(cause)s, %(audience)s)
on conflict (id) do update
set headline = excluded.headline, confirmed = excluded.confirmed, sessions = excluded.sessions,
    occurrences = excluded.occurrences, search = excluded.search, body = excluded.body,
    updated_at = excluded.updated_at, retired_at = null, run_id = excluded.run_id, cause = excluded.cause, audience = excluded.audience
where solution.body is distinct from excluded.body or solution.retired_at is not null
   or (solution.confirmed, solution.sessions, solution.occurrences, solution.audience)
      is distinct from (excluded.confirmed, excluded.sessions, excluded.occurrences, excluded.audience)
returning (xmax = 0) as added

-- name: delete_others
delete from solution where agent = %(agent)s and fingerprint = any(%(fingerprints)s) and not (id = any(%(kept)s))
returning audience
