-- name: seal
select number, run_id, sealed_at, sessions, output_to, root from seal_chains(%(run_id)s, %(now)s)

-- name: list
select number, run_id, sealed_at, sessions, output_to, root from seal order by number

-- name: list_sealed
select session_hash, seq, hash, seal from sealed_session where seal = %(number)s order by session_hash, seq

-- name: list_sealed_messages
select session_hash, message_hash, started_seq, hash from sealed_message where seal = %(number)s
order by session_hash, message_hash

-- name: list_chains
-- Every event that is still there with its session, in order, for `verify`.
select s.id, s.head, s.unchained_to, s.pruned_to, s.chain_hash, s.pruned_hash,
       e.seq, e.event_type, e.data::text as data, e.created_at, e.task_id, e.tool_name, e.hash,
       e.principal
from session s
left join event e on e.session_id = s.id and e.seq > s.pruned_to
order by s.id collate "C", e.seq

-- name: find_broken_seals
-- Sealed chains that are not there any more as they were sealed: cut off, rewritten, or gone without an erasure.
select case when s.id is null
                 then 'the session whose id has the SHA-256 ' || encode(c.session_hash, 'hex')
                      || ' is gone, and no erasure is recorded'
            when s.head < c.seq then s.id || ': ends at event ' || s.head || ', but was sealed up to event ' || c.seq
            else s.id || ': event ' || c.seq || ' is not the one that was sealed' end as problem
from sealed_session c
left join session s on sha256(convert_to(s.id, 'UTF8')) = c.session_hash
left join event e on e.session_id = s.id and e.seq = c.seq
where case when s.id is null then not exists (
                select from erasure r where sha256(convert_to(r.session_id, 'UTF8')) = c.session_hash
           )
           when s.head < c.seq then true
           when c.seq > s.pruned_to then e.hash is distinct from c.hash
           when c.seq = s.pruned_to then s.pruned_hash is distinct from c.hash
           else false end
order by 1 limit 20

-- name: find_broken_output
-- Chunks and deliveries that are not what was added, and messages of which a chunk is missing.
select session_id || ': piece ' || seq || ' of message ' || message_id || ' is not what was generated' as problem
from generation_chunk
where hash is distinct from hash_output(session_id, message_id, null, delta, seq, started_seq, after_seq, created_at)
union all
select session_id || ': the delivery of message ' || message_id || ' to ' || channel || ' up to piece ' || upto_seq
       || ' is not what was recorded'
from delivery
where hash is distinct from hash_output(session_id, message_id, channel, null, upto_seq, started_seq, null, sent_at)
union all
select c.session_id || ': message ' || c.message_id || ' lacks a piece'
from generation_chunk c join session s on s.id = c.session_id and s.pruned_to < c.started_seq
group by c.session_id, c.message_id having count(*) <> max(c.seq)
order by 1 limit 20

-- name: find_broken_messages
-- Messages whose chunks and deliveries are not those that a seal covers, unless they were pruned or erased.
select coalesce(s.id || ': message ' || m.message_id || ' does not have the pieces and deliveries', coalesce(
           s.id, 'the session whose id has the SHA-256 ' || encode(c.session_hash, 'hex')
       ) || ': the message whose id has the SHA-256 ' || encode(c.message_hash, 'hex') || ' is not there as it was')
       || ' that seal ' || coalesce(m.seal, c.seal) || ' covers' as problem
from (
    select l.number as seal, h.* from seal l
    cross join lateral hash_messages(
        coalesce((select p.output_to from seal p where p.number = l.number - 1), 0), l.output_to
    ) h
) m
full join sealed_message c on c.seal = m.seal and c.session_hash = sha256(convert_to(m.session_id, 'UTF8'))
                          and c.message_hash = sha256(convert_to(m.message_id, 'UTF8'))
left join session s on sha256(convert_to(s.id, 'UTF8')) = coalesce(c.session_hash, sha256(convert_to(m.session_id, 'UTF8')))
where c.hash is distinct from m.hash and case
    when s.id is not null then s.pruned_to = 0 or coalesce(c.started_seq, m.started_seq) > s.pruned_to
    else not exists (select from erasure r where sha256(convert_to(r.session_id, 'UTF8')) = c.session_hash) end
order by 1 limit 20

-- name: find_broken_beginnings
-- Children whose parent's event at the point is not the one with which their own chain began, where both are there.
select c.id || ': does not begin with event ' || c.parent_seq || ' of session ' || c.parent_id as problem
from session c
join session p on p.id = c.parent_id
join event e on e.session_id = c.parent_id and e.seq = c.parent_seq
where c.base_seq > 0 and c.pruned_to = c.base_seq and c.origin is null
  and c.pruned_hash is distinct from sha256(coalesce(e.hash, ''::bytea) || convert_to(c.id, 'UTF8'))
order by 1 limit 20

-- name: find_foreign_pasts
-- Sessions that read another past than their row and their parent's past say: a part of a log that is not theirs, or,
-- in a child of the runtime, not all of it.
with expected as (
    select c.id, past.ancestor_id, past.after_seq, least(past.upto_seq, c.point - past.shift) as upto_seq,
           past.shift - case when c.base_seq = 0 then c.point else 0 end as shift
    from (
        select id, kind, base_seq, coalesce(past_id, parent_id) as source_id, coalesce(past_seq, parent_seq) as point
        from session
    ) c
    cross join lateral (
        select l.ancestor_id, l.after_seq, l.upto_seq, l.shift from session_lineage l where l.session_id = c.source_id
        union all
        select p.id, p.base_seq, c.point, 0 from session p where p.id = c.source_id
    ) past
    where c.point > 0 and c.kind <> 'sub-agent'
      and least(past.upto_seq, c.point - past.shift) > past.after_seq
)
select problem from (
    select l.session_id as id, l.session_id || ': reads events of session ' || l.ancestor_id
           || ' that are not in its parent''s past' as problem
    from session_lineage l join session a on a.id = l.ancestor_id
    where not exists (
        select from expected e where e.id = l.session_id and e.ancestor_id = l.ancestor_id and e.shift = l.shift
          and e.after_seq <= l.after_seq and e.upto_seq >= l.upto_seq
    )
    union all
    select e.id, e.id || ': does not read the events of session ' || e.ancestor_id || ' that its parent reads'
    from expected e join session c on c.id = e.id and c.origin is null
    where not exists (
        select from session_lineage l where l.session_id = e.id and l.ancestor_id = e.ancestor_id
          and l.after_seq = e.after_seq and l.upto_seq = e.upto_seq and l.shift = e.shift
    )
) found
order by id, problem limit 20

-- name: find_foreign_parents
-- Sessions of the runtime that come from elsewhere than their first event says, where that is not pruned.
select c.id || ': is a ' || c.kind || case when c.parent_id is null then ''
           else ' of session ' || c.parent_id || ' from event ' || coalesce(c.parent_seq, 0) end
       || ', which its first event does not say' as problem
from session c
left join session p on p.id = c.parent_id
left join event e on e.session_id = c.id and e.seq = c.base_seq + 1
where c.origin is null and c.recorded_by is null and c.pruned_to = c.base_seq
  and (c.parent_id is not null or e.event_type = 'SessionStart')
  and (e.event_type is distinct from 'SessionStart' or not coalesce(e.data -> 'data_ref' ? '*', false) and (
      e.data ->> 'parent' is distinct from c.parent_id or e.data ->> 'point' is distinct from c.parent_seq::text
      or c.parent_id is not null and e.data ->> 'kind' is distinct from c.kind
      or c.simulated <> (coalesce(e.data ->> 'kind' = 'branch', false) or coalesce(p.simulated, false))
  ))
order by c.id limit 20

-- name: find_rewritten_blobs
select 'blob ' || encode(sha256, 'hex') || ' holds something else than its name says' as problem
from blob where sha256(body) <> sha256 order by 1 limit 20

-- name: list_guards
-- The source of the functions that guard the log.
select proname as name, encode(sha256(convert_to(prosrc, 'UTF8')), 'hex') as source
from pg_proc where pronamespace = current_schema()::regnamespace and proname = any(%(names)s) order by proname
