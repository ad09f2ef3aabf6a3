-- name: salt
-- The salt of this database's hashes: made once, by whoever comes first.
with made as (
    insert into setting (name, value) values ('salt', %(salt)s) on conflict (name) do nothing returning value
)
select value from made union all select value from setting where name = 'salt' limit 1

-- name: digest
select * from digest where session_id = %(session)s

-- name: digests
select * from digest where session_id = any(%(sessions)s)

-- name: save_digest
insert into digest (session_id, agent, project, last_at, calls, sequence, seqs, keys, counts, terms, quotes,
                    state, folds, summary, version)
values (%(session)s, %(agent)s, %(project)s, %(last_at)s, %(calls)s, %(sequence)s, %(seqs)s, %(keys)s,
        %(counts)s, %(terms)s, %(quotes)s, %(state)s, %(folds)s, %(summary)s, %(version)s)
on conflict (session_id) do update
set last_at = greatest(digest.last_at, excluded.last_at), calls = excluded.calls, sequence = excluded.sequence, seqs = excluded.seqs,
    keys = excluded.keys, counts = excluded.counts, terms = excluded.terms, quotes = excluded.quotes,
    state = excluded.state, folds = excluded.folds, summary = excluded.summary, version = excluded.version,
    -- What the sums hold of it is kept beside it until they hold what it is now.
    was_keys = case when digest.summed then digest.keys else digest.was_keys end,
    was_counts = case when digest.summed then digest.counts else digest.was_counts end,
    summed = false

-- name: touch_scope
-- The scope's digests have changed: the merger has something to do.
insert into scope (agent, project, version) values (%(agent)s, %(project)s, 1)
on conflict (agent, project) do update set version = scope.version + 1

-- name: dirty
-- In the order in which everybody locks scopes, whatever the database's language.
select agent, project, version from scope where version > merged order by agent collate "C", project collate "C"

-- name: agents_with_news
-- In the order in which everybody locks agents.
select agent from (
    select agent from scope where version > merged
    union all
    select r.agent from error_record r join session s on s.id = r.session_id and not s.simulated where not r.merged
    union all
    select c.agent from candidate c join session s on s.id = c.session_id and not s.simulated where not c.reconciled
    union all
    select c.agent from candidate c join session s on s.id = c.session_id and not s.simulated
    where %(undecided)s and c.generation > 0 and c.operation is null and c.rejected is null and c.quarantined is null and c.active
) as news group by agent order by agent collate "C"

-- name: shared
select body from procedure where agent = %(agent)s and project is null and retired_at is null

-- name: merged
update scope set merged = greatest(merged, %(version)s), sessions = %(sessions)s
where agent = %(agent)s and project = %(project)s

-- name: terms
select session_id, terms from digest where session_id = any(%(sessions)s)

-- name: quotes
select session_id, seqs, quotes from digest where session_id = any(%(sessions)s)

-- name: save_error
insert into error_record (session_id, seq, agent, project, fingerprint, status, record)
values (%(session)s, %(seq)s, %(agent)s, %(project)s, %(fingerprint)s, %(status)s, %(record)s)
on conflict (session_id, seq) do update
set fingerprint = excluded.fingerprint, status = excluded.status, record = excluded.record, merged = false, shape = null

-- name: hold_errors
-- What solutions do not know yet; locked, so that none of it moves before it is marked.
select session_id, seq from error_record where agent = %(agent)s and not merged
order by session_id collate "C", seq for update

-- name: news_of_errors
-- What is counted of every record of the fingerprints that have news; those of other fingerprints are summed already.
select r.session_id, r.seq, s.root_id, r.project, r.fingerprint, r.status, r.shape,
       r.record ->> 'occurred_at' as occurred_at, r.record ->> 'tool' as tool, r.record ->> 'symbol' as symbol,
       r.record ->> 'headline' as headline, nullif(r.record ->> 'tried', '[]') as tried
from error_record r join session s on s.id = r.session_id and not s.simulated
where r.agent = %(agent)s
  and r.fingerprint in (select n.fingerprint from error_record n where n.agent = %(agent)s and not n.merged)
order by r.session_id, r.seq

-- name: errors
select session_id, seq, record from error_record
where (session_id, seq) in (select * from unnest(%(sessions)s::text[], %(seqs)s::bigint[]))

-- name: errors_merged
-- What resolved them is told in short, so that the next night need not read them whole.
update error_record r set merged = true, shape = coalesce(told.shape, r.shape)
from unnest(%(sessions)s::text[], %(seqs)s::bigint[], %(shapes)s::text[]) as told (session_id, seq, shape)
where r.session_id = told.session_id and r.seq = told.seq

-- name: save_procedure
insert into procedure (id, agent, project, title, support, rank, body, learned_at, updated_at, run_id)
values (%(id)s, %(agent)s, %(project)s, %(title)s, %(support)s, %(rank)s, %(body)s, %(now)s, %(now)s, %(run_id)s)
on conflict (id) do update
set title = excluded.title, support = excluded.support, rank = excluded.rank, body = excluded.body,
    updated_at = excluded.updated_at, retired_at = null, run_id = excluded.run_id
where (procedure.support, procedure.rank, procedure.body) is distinct from (excluded.support, excluded.rank, excluded.body)
   or procedure.retired_at is not null
returning (xmax = 0) as added

-- name: retire_procedures
update procedure set retired_at = %(now)s, run_id = %(run_id)s
where agent = %(agent)s and project is not distinct from %(project)s and not (id = any(%(kept)s)) and retired_at is null

-- name: save_profiles
insert into tool_profile (agent, project, tool, body)
select %(agent)s, %(project)s, told.tool, told.body from unnest(%(tools)s::text[], %(bodies)b::jsonb[]) as told (tool, body)
on conflict (agent, project, tool) do update set body = excluded.body
where tool_profile.body is distinct from excluded.body

-- name: drop_profiles
delete from tool_profile where agent = %(agent)s and project = %(project)s and not (tool = any(%(kept)s))

-- name: save_solution
insert into solution (id, agent, project, fingerprint, tool, headline, confirmed, sessions, occurrences, search, body,
                      learned_at, updated_at, run_id)
values (%(id)s, %(agent)s, %(project)s, %(fingerprint)s, %(tool)s, %(headline)s, %(confirmed)s, %(sessions)s,
        %(occurrences)s, %(search)s, %(body)s, %(now)s, %(now)s, %(run_id)s)
on conflict (id) do update
set headline = excluded.headline, confirmed = excluded.confirmed, sessions = excluded.sessions,
    occurrences = excluded.occurrences, search = excluded.search, body = excluded.body,
    updated_at = excluded.updated_at, retired_at = null, run_id = excluded.run_id
where solution.body is distinct from excluded.body or solution.retired_at is not null
   or (solution.confirmed, solution.sessions, solution.occurrences)
      is distinct from (excluded.confirmed, excluded.sessions, excluded.occurrences)
returning (xmax = 0) as added

-- name: retire_solutions
delete from solution where agent = %(agent)s and fingerprint = any(%(fingerprints)s) and not (id = any(%(kept)s))

-- name: lock_agent
-- One merger and one reconciler of an agent at a time; the lock goes with the transaction.
select pg_advisory_xact_lock(hashtextextended('consolidator.merge:' || %(agent)s, 0))

-- name: share_agent
-- Any number learn of an agent at a time, and nobody merges it meanwhile.
select pg_advisory_xact_lock_shared(hashtextextended('consolidator.merge:' || %(agent)s, 0))

-- name: published_facts
select id, agent || ': ' || sentence as line, valid_to, sessions, evidence from fact where superseded_at is null order by id

-- name: published_procedures
select id, agent || ': ' || title || ' (' || support || ' sessions)' as line, body from procedure
where retired_at is null order by id

-- name: published_solutions
select id, agent || ': ' || (body ->> 'line') as line, body from solution where retired_at is null order by id
