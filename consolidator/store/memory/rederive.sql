-- name: chosen
-- Sessions a person named by filters; what happened in them by their own word.
select id, agent, head, consolidated_to, pruned_to from session
where (%(session)s::text is null or id = %(session)s) and (%(agent)s::text is null or agent = %(agent)s)
  and (%(since)s::timestamptz is null or last_occurred_at >= %(since)s)
  and (%(until)s::timestamptz is null or last_occurred_at < %(until)s)
  and (%(all)s or due)
order by agent, id

-- name: forget_digest
delete from digest where session_id = %(session)s

-- name: forget_errors
-- Their fingerprints are summed again without them.
with gone as (
    delete from error_record where session_id = %(session)s and seq > %(after)s returning agent, fingerprint
), told as (
    update error_record set merged = false
    where (agent, fingerprint) in (select agent, fingerprint from gone) and session_id <> %(session)s
)
select count(*) from gone

-- name: forget_candidates
-- Facts that rest on them are made again from what is left.
with gone as (
    delete from candidate where session_id = %(session)s and seq > %(after)s and generation <= %(generation)s
    returning agent, level, owner, coalesce(as_subject, subject), coalesce(as_predicate, predicate)
), told as (
    update candidate set reconciled = false
    where (agent, level, owner, coalesce(as_subject, subject), coalesce(as_predicate, predicate)) in (select * from gone)
      and session_id <> %(session)s
)
select count(*) from gone

-- name: unmake
-- Facts that a model had a part in, where a session that goes has one, too: they may speak in its words, and so may what was
-- believed before. What is left of their evidence is compared anew.
with places as (
    select distinct agent, level, owner, coalesce(as_subject, subject) as subject,
           coalesce(as_predicate, predicate) as predicate
    from candidate where session_id = %(session)s
), unmade as (
    delete from fact f using places p
    where f.agent = p.agent and f.level = p.level and coalesce(f.project, f.peer, '') = p.owner
      and f.subject = p.subject and f.predicate = p.predicate and f.trust <> 'person'
      and exists (select from candidate c where c.id = any(f.evidence) and c.generation > 0)
    returning f.id
), unsaid as (
    delete from fact_version v
    using fact f join places p using (agent, level, subject, predicate)
    where f.id = v.fact_id and coalesce(f.project, f.peer, '') = p.owner
), undone as (
    select c.id from unmade u join candidate c on c.target = u.id
    union
    select c.id from places p
    join candidate c on c.agent = p.agent and c.level = p.level and c.owner = p.owner and c.as_subject is not null
         and coalesce(c.as_subject, c.subject) = p.subject and coalesce(c.as_predicate, c.predicate) = p.predicate
)
update candidate c
set operation = null, target = null, decided_by = null, why = null, flagged = null, as_subject = null, as_predicate = null,
    as_value = null, reconciled = false
where c.id in (select id from undone) and c.session_id <> %(session)s

-- name: kept_candidates
update candidate set reconciled = false where session_id = %(session)s

-- name: orphan_facts
-- Facts of which nobody speaks any more, after candidates were taken back.
delete from fact f where f.agent = %(agent)s and f.trust <> 'person' and not exists (
    select from candidate c where c.agent = f.agent and coalesce(c.as_subject, c.subject) = f.subject
      and coalesce(c.as_predicate, c.predicate) = f.predicate and c.rejected is null
      and c.level = f.level and c.owner = coalesce(f.project, f.peer, '')
) and not exists (select from candidate c where c.id = any(f.evidence))

-- name: orphan_solutions
-- Solutions of errors that nobody met any more, after records were taken back.
delete from solution s where s.agent = %(agent)s and not exists (
    select from error_record r where r.agent = s.agent and r.fingerprint = s.fingerprint
)

-- name: family
-- A session and everything that hangs from it.
with recursive family as (
    select id from session where id = any(%(ids)s)
    union select s.id from session s join family f on s.parent_id = f.id
)
select s.id, s.agent, s.project, s.origin, s.kind, s.head - s.pruned_to as events
from session s join family f on f.id = s.id order by s.id

-- name: allow_erasure
select set_config('consolidator.erase', %(session)s, true)

-- name: erase_events
delete from event where session_id = %(session)s

-- name: erase_refs
delete from blob_ref where session_id = %(session)s returning sha256

-- name: erase_blobs
-- What nothing else refers to goes at once; a row that is locked is just being named by somebody else.
delete from blob where sha256 in (
    select b.sha256 from blob b
    where b.sha256 = any(%(shas)s) and not exists (select from blob_ref r where r.sha256 = b.sha256)
    order by b.sha256 for update skip locked
)

-- name: forget_retired
-- Procedures that are published no more are not made again from what is left, and may tell of what is gone.
delete from procedure where agent = %(agent)s and retired_at is not null

-- name: erase_models
-- What a model was asked about a session, and answered; what it cost stays.
with asked as (delete from model_question where session_id = %(session)s),
     told as (
    delete from model_answer where key in (select key from model_call where session_id = %(session)s)
)
update model_call set session_id = null where session_id = %(session)s

-- name: erase_words
-- What a person told of a peer's facts.
with buried as (delete from tombstone where peer = %(peer)s)
delete from fact where peer = %(peer)s and trust = 'person'

-- name: erase_rest
-- What the session's model calls cost stays; whose they were does not.
with letters as (delete from dead_letter where session_id = %(session)s),
     chunks as (delete from generation_chunk where session_id = %(session)s),
     sent as (delete from delivery where session_id = %(session)s),
     spent as (update spend set session_id = null, message_id = null where session_id = %(session)s),
     keys as (delete from idempotency where session_id = %(session)s),
     reached as (delete from generation_reach where session_id = %(session)s)
delete from session where id = %(session)s

-- name: log_erasure
insert into erasure (id, session_id, events, derived, reason, erased_at)
values (%(id)s, %(session)s, %(events)s, %(derived)s, %(reason)s, %(now)s)

-- name: of_peer
select id from session where peer = %(peer)s order by id

-- name: stamp_some
update event set consolidated_at = %(now)s
where session_id = %(session)s and seq = any(%(seqs)s) and consolidated_at is null

-- name: erased_so_far
select count(*) from erasure

-- name: erasures
select * from erasure order by erased_at desc limit %(limit)s
