-- name: sessions
-- Return the sessions that fit the filters; only those with new events, unless `include_learned`. `since` and `until`
-- (exclusive) bound when the last thing happened in them.
select id, agent, memory, project from session
where (%(session)s::text is null or id = %(session)s) and (%(agent)s::text is null or agent = %(agent)s)
  and (%(since)s::timestamptz is null or last_occurred_at >= %(since)s)
  and (%(until)s::timestamptz is null or last_occurred_at < %(until)s)
  and (%(include_learned)s or due)
order by agent, id

-- name: delete_digest
delete from digest where session_id = %(session)s

-- name: delete_error_records
-- The solutions of their fingerprints are made again without them: one record of each, the latest, says so.
with deleted as (
    delete from error_record where session_id = %(session)s and seq > %(after)s returning agent, fingerprint
), changed as (
    update error_record set merged = false
    where (session_id, seq) in (
        select r.session_id, r.seq
        from (select distinct agent, fingerprint from deleted) d cross join lateral (
            select r.session_id, r.seq from error_record r join session s on s.id = r.session_id and not s.simulated
            where r.agent = d.agent and r.fingerprint = d.fingerprint and r.session_id <> %(session)s
            order by (r.record ->> 'occurred_at') desc, r.session_id desc, r.seq desc limit 1
        ) r
    )
)
select count(*) from deleted

-- name: delete_candidates
-- Facts that rest on them, or that they ended, are made again from what is left.
with deleted as (
    delete from candidate where session_id = %(session)s and seq > %(after)s and revision <= %(revision)s
    returning id, agent, level, owner, coalesce(as_subject, subject) as subject, coalesce(as_predicate, predicate) as predicate
), changed as (
    update candidate set reconciled = false
    where (agent, level, owner, coalesce(as_subject, subject), coalesce(as_predicate, predicate)) in (
              select agent, level, owner, subject, predicate from deleted
              union
              select f.agent, f.level, coalesce(f.project, f.peer, ''), f.subject, f.predicate
              from deleted d join fact f on f.superseded_by = d.id)
      and session_id <> %(session)s
)
select count(*) from deleted

-- name: reconcile_remaining
update candidate set reconciled = false where session_id = %(session)s

-- name: delete_unsupported_facts
-- Facts that no candidate supports any more.
delete from fact f where f.agent = %(agent)s and f.trust <> 'person' and not exists (
    select from candidate c where c.agent = f.agent and coalesce(c.as_subject, c.subject) = f.subject
      and coalesce(c.as_predicate, c.predicate) = f.predicate and c.rejected is null
      and c.level = f.level and c.owner = coalesce(f.project, f.peer, '')
) and not exists (select from candidate c where c.id = any(f.evidence))

-- name: delete_unsupported_solutions
-- Solutions of errors that no record is left of.
delete from solution s where s.agent = %(agent)s and not exists (
    select from error_record r where r.agent = s.agent and r.fingerprint = s.fingerprint
)

-- name: stamp
-- Stamp single events, whose dead letters the caller's transaction has settled and counted, as learned from.
select stamp_settled_events(%(run_id)s, %(session)s, %(seqs)s::bigint[], %(now)s)

-- name: facts
select id, agent || ': ' || sentence as line, jsonb_build_array(valid_to, sessions, evidence) as content
from fact where superseded_at is null order by id

-- name: procedures
select id, agent || ': ' || title || ' (' || support || ' sessions)' as line, body as content from procedure
where retired_at is null and starts_with(audience, 'all') order by id

-- name: solutions
select id, agent || ': ' || (body ->> 'line') as line, body as content from solution
where retired_at is null and starts_with(audience, 'all') order by id

-- name: lessons
select id, project || ': ' || line as line, body as content from lesson where retired_at is null and kind <> 'call' order by id
