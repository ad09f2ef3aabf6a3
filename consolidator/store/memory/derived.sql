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


-- name: family
-- Sessions, all their descendants, and all that read their logs as a part of their own past.
with recursive family as (
    select id from session where id = any(%(ids)s)
    union select s.id from session s join family f on s.parent_id = f.id or s.past_id = f.id
)
select s.id, s.agent, s.memory, s.project, s.origin, s.kind, s.head - s.pruned_to as events
from session s join family f on f.id = s.id order by s.id

-- name: sessions_of_peer
select id from session where peer = %(peer)s order by id

-- name: erase_model_facts
-- Facts that a model helped to word and that an erased session has a candidate for: they, and their earlier versions, may use
-- its words. The candidates that are left are compared again.
with attributes as (
    select distinct agent, level, owner, coalesce(as_subject, subject) as subject,
           coalesce(as_predicate, predicate) as predicate
    from candidate where session_id = %(session)s
), deleted as (
    delete from fact f using attributes a
    where f.agent = a.agent and f.level = a.level and coalesce(f.project, f.peer, '') = a.owner
      and f.subject = a.subject and f.predicate = a.predicate and f.trust <> 'person'
      and exists (select from candidate c where c.id = any(f.evidence) and c.revision > 0)
    returning f.id
), deleted_versions as (
    delete from fact_version v
    using fact f join attributes a using (agent, level, subject, predicate)
    where f.id = v.fact_id and coalesce(f.project, f.peer, '') = a.owner
), undecided as (
    select c.id from deleted d join candidate c on c.target = d.id
    union
    select c.id from attributes a
    join candidate c on c.agent = a.agent and c.level = a.level and c.owner = a.owner and c.as_subject is not null
         and coalesce(c.as_subject, c.subject) = a.subject and coalesce(c.as_predicate, c.predicate) = a.predicate
)
update candidate c
set operation = null, target = null, decided_by = null, why = null, flagged = null, as_subject = null, as_predicate = null,
    as_value = null, reconciled = false
where c.id in (select id from undecided) and c.session_id <> %(session)s

-- name: erase_model_calls
-- What a model was asked about a session, and what it answered, alone or with others; the cost is kept.
with questions as (delete from model_question where session_id = %(session)s),
     answers as (
    delete from model_answer
    where key in (
        select key from model_answer where session_id = %(session)s
        union all select key from model_call where session_id = %(session)s
    )
)
update model_call set session_id = null where session_id = %(session)s

-- name: detach_rest
-- The cost of the session's model calls is kept, without their session; what its parent paid for is the parent's from now on.
with payer as (
    select p.id from session s join session p on p.id = s.parent_id
    where s.id = %(session)s and s.kind in ('branch', 'sub-agent') and not s.config ? 'rerun'
), spent as (
    update spend set session_id = (select id from payer), message_id = null where session_id = %(session)s
), answered as (delete from api_request where session_id = %(session)s),
     injected as (delete from injection where session_id = %(session)s),
     compiled as (
    update procedure set compiled = null where compiled -> 'sessions' ? %(session)s
)
delete from revision_reach where session_id = %(session)s

-- name: erase_session
-- Erases the log of the session and records that, in one function: nothing else lets go of what was not pruned.
select erase_session(%(session)s, %(id)s, %(derived)s, %(reason)s, %(now)s)

-- name: erase_corrections
-- Corrections of a peer's facts by a person.
with tombstones as (delete from tombstone where peer = %(peer)s),
     forgotten as (delete from lesson where person = %(peer)s and forgotten_at is not null)
delete from fact where peer = %(peer)s and trust = 'person'

-- name: erase_retired_procedures
-- Retired procedures are not made again from what is left, and may still quote what was erased.
delete from procedure where agent = %(agent)s and retired_at is not null

-- name: count
select count(*) from erasure

-- name: listing
-- Return what was erased, when and why, the latest first.
select * from erasure order by erased_at desc limit %(limit)s
