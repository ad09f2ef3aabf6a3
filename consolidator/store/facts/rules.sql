-- name: orders
-- The orders that people gave an agent, the latest first: where, in which sessions, and whether a person accepted one.
select c.agent, c.level, c.owner, c.subject, c.predicate, c.value,
       (array_agg(c.quote order by c.extractor = 'accepted:1', c.occurred_at desc, c.session_id, c.seq))[1] as words, max(c.occurred_at) as last_at,
       coalesce(array_agg(distinct s.root_id) filter (where c.extractor <> 'accepted:1'), '{}') as roots,
       bool_or(c.extractor = 'accepted:1') as accepted,
       coalesce(array_agg(distinct s.peer) filter (where s.peer is not null and s.origin is not null), '{}') as imported_of,
       bool_or(s.peer is null or s.origin is null) as said_here
from candidate c join session s on s.id = c.session_id and not s.simulated
where c.predicate = 'instruction' and c.rejected is null and c.quarantined is null and c.active and c.trust = 'user'
  and (%(agents)s::text[] is null or c.agent = any(%(agents)s) or c.agent = 'all agents' and coalesce(c.project, '') = any(%(shared_in)s))
  and (%(level)s::text is null or (c.level, c.owner) = (%(level)s, %(owner)s)
       or (c.extractor = 'accepted:1' and c.level = 'agent' and c.owner = ''))
group by c.agent, c.level, c.owner, c.subject, c.predicate, c.value
order by last_at desc, c.agent, c.level, c.owner, c.value limit %(limit)s

-- name: believed
-- Rules that are believed already, that several sessions support, and that no person accepted.
select f.agent, f.level, coalesce(f.project, f.peer, '') as owner, f.subject, f.predicate, f.value, f.id as fact_id,
       f.sentence as words, f.sessions, f.valid_from as last_at
from fact f
where f.superseded_at is null and f.trust in ('person', 'user') and f.kind = 'constraint' and f.predicate <> 'instruction'
  and f.sessions >= %(min_sessions)s
  and (%(agents)s::text[] is null or f.agent = any(%(agents)s) or f.agent = 'all agents' and coalesce(f.project, '') = any(%(shared_in)s))
  and (%(level)s::text is null or (f.level, coalesce(f.project, f.peer, '')) = (%(level)s, %(owner)s))
  and not exists (select from candidate c where c.id = any(f.evidence) and c.extractor = 'accepted:1')
order by f.sessions desc, f.valid_from desc, f.agent, f.level, coalesce(f.project, f.peer, ''), f.value limit %(limit)s

-- name: quotes
-- The latest words, one of each session, that a repeated instruction or a believed rule rests on.
select distinct on (c.session_id) c.session_id, s.origin, c.seq, c.quote, c.occurred_at
from candidate c join session s on s.id = c.session_id and not s.simulated
where c.agent = %(agent)s and c.level = %(level)s and c.owner = %(owner)s
  and coalesce(c.as_subject, c.subject) = %(subject)s and coalesce(c.as_predicate, c.predicate) = any(%(predicates)s::text[])
  and (c.value = any(%(values)s::text[]) or c.id = any(coalesce((select f.evidence from fact f where f.id = %(fact_id)s), '{}')))
  and c.rejected is null and c.quarantined is null and c.active and c.extractor <> 'accepted:1'
  and (not %(of_owner)s or s.peer is null)
order by c.session_id, c.seq desc limit %(limit)s

-- name: accepted
-- The rules that a person accepted for a project, or for an agent wherever, and that are believed.
select f.id, f.agent, f.project, last.sentence as rule
from (
    select distinct c.agent, coalesce(c.as_subject, c.subject) as subject from candidate c
    where c.extractor = 'accepted:1' and c.level = %(level)s and c.owner = %(owner)s
      and (%(agents)s::text[] is null or c.agent = any(%(agents)s) or c.agent = 'all agents' and coalesce(c.project, '') = any(%(shared_in)s))
) accepted
join fact f on f.agent = accepted.agent and f.subject = accepted.subject
cross join lateral (
    select c.sentence from candidate c where c.id = any(f.evidence) and c.extractor = 'accepted:1'
    order by c.occurred_at desc, c.id limit 1
) as last
where f.superseded_at is null and f.trust in ('person', 'user') and f.level = %(level)s
  and coalesce(f.project, f.peer, '') = %(owner)s
order by f.recorded_at, f.id limit %(limit)s
