-- name: sessions
select id, agent, memory, project from session
where (%(session)s::text is null or id = %(session)s) and (%(agent)s::text is null or agent = %(agent)s)
  and (%(since)s::timestamptz is null or last_occurred_at >= %(since)s)
  and (%(until)s::timestamptz is null or last_occurred_at < %(until)s)
  and (%(include_learned)s or due)
order by agent, id

-- name: delete_digest
delete from digest where session_id = %(session)s

-- name: delete_error_records
-- The solutions of their fingerprints and families are made again without them: one record of each, the latest, says so.
with deleted as (
    delete from error_record where session_id = %(session)s and seq > %(after)s returning agent, fingerprint, family
), changed as (
    update error_record set merged = false
    where (session_id, seq) in (
        select r.session_id, r.seq
        from (select distinct agent, fingerprint from deleted) d cross join lateral (
            select r.session_id, r.seq from error_record r join session s on s.id = r.session_id and not s.simulated
            where r.agent = d.agent and r.fingerprint = d.fingerprint and r.session_id <> %(session)s
            order by (r.record ->> 'occurred_at') desc, r.session_id desc, r.seq desc limit 1
        ) r
        union all
        select r.session_id, r.seq
        from (select distinct agent, family from deleted where family is not null) d cross join lateral (
            select r.session_id, r.seq from error_record r join session s on s.id = r.session_id and not s.simulated
            where r.agent = d.agent and r.family = d.family and r.session_id <> %(session)s
            order by (r.record ->> 'occurred_at') desc, r.session_id desc, r.seq desc limit 1
        ) r
    )
)
select count(*) from deleted

-- name: delete_candidates
-- Facts that rest on them are made again from what is left.
with deleted as (
    delete from candidate where session_id = %(session)s and seq > %(after)s and revision <= %(revision)s
    returning agent, level, owner, coalesce(as_subject, subject), coalesce(as_predicate, predicate)
), changed as (
    update candidate set reconciled = false
    where (agent, level, owner, coalesce(as_subject, subject), coalesce(as_predicate, predicate)) in (select * from deleted)
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
) and not exists (
    select from error_record r where r.agent = s.agent and r.family = s.fingerprint
)

-- name: stamp
select stamp_settled_events(%(run)s, %(session)s, %(seqs)s::bigint[], %(now)s)
