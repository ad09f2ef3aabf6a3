-- name: repeated
-- What people asked of an agent in several sessions, and no person accepted or dismissed: instructions, which are
-- believed only once they are accepted, and rules that are believed already.
select * from (
select c.agent, c.level, c.owner, c.subject, c.predicate, c.value, null::text as fact_id,
       (array_agg(c.quote order by c.occurred_at desc, c.session_id, c.seq))[1] as words,
       count(distinct s.root_id) as sessions, max(c.occurred_at) as last_at
from candidate c join session s on s.id = c.session_id and not s.simulated
where c.predicate = 'instruction' and c.rejected is null and c.quarantined is null and c.active and c.trust = 'user'
  and (%(agents)s::text[] is null or c.agent = any(%(agents)s) or c.agent = 'all agents' and coalesce(c.project, '') = any(%(shared_in)s))
  and (%(level)s::text is null or (c.level, c.owner) = (%(level)s, %(owner)s))
group by c.agent, c.level, c.owner, c.subject, c.predicate, c.value
having count(distinct s.root_id) filter (where c.extractor <> 'accepted:1') >= %(min_sessions)s
  and not bool_or(c.extractor = 'accepted:1')
  -- What the imported logs of one other person repeat is that person's, until somebody else asks for it, too.
  and (c.level = 'peer' or bool_or(s.peer is null or s.origin is null) or count(distinct s.peer) > 1)
  and not exists (  -- accepted for every project
      select from candidate a where a.predicate = 'instruction' and a.rejected is null and a.agent = c.agent
        and a.level = 'agent' and a.owner = '' and a.subject = c.subject and a.value = c.value
        and a.active and a.extractor = 'accepted:1')
union all (
select f.agent, f.level, coalesce(f.project, f.peer, ''), f.subject, f.predicate, f.value, f.id, f.sentence, f.sessions,
       f.valid_from
from fact f
where f.superseded_at is null and f.trust in ('person', 'user') and f.kind = 'constraint' and f.predicate <> 'instruction'
  and f.sessions >= %(min_sessions)s
  and (%(agents)s::text[] is null or f.agent = any(%(agents)s) or f.agent = 'all agents' and coalesce(f.project, '') = any(%(shared_in)s))
  and (%(level)s::text is null or (f.level, coalesce(f.project, f.peer, '')) = (%(level)s, %(owner)s))
  and not exists (select from candidate c where c.id = any(f.evidence) and c.extractor = 'accepted:1')
  and (%(after_sessions)s::bigint is null or f.sessions < %(after_sessions)s
       or f.sessions = %(after_sessions)s and (
           f.valid_from < %(after_at)s::timestamptz
           or f.valid_from = %(after_at)s::timestamptz and (f.agent, f.level, coalesce(f.project, f.peer, ''), f.value)
              > (%(after_agent)s, %(after_level)s, %(after_owner)s, %(after_value)s)))
-- In the order of the whole list, so that no more of them are read than it takes.
order by f.sessions desc, f.valid_from desc, f.agent, f.level, coalesce(f.project, f.peer, ''), f.value limit %(limit)s)
) repeated
where %(after_sessions)s::bigint is null or sessions < %(after_sessions)s
   or sessions = %(after_sessions)s and (
       last_at < %(after_at)s::timestamptz
       or last_at = %(after_at)s::timestamptz
          and (agent, level, owner, value) > (%(after_agent)s, %(after_level)s, %(after_owner)s, %(after_value)s))
order by sessions desc, last_at desc, agent, level, owner, value limit %(limit)s

-- name: quotes
-- The latest words, one of each session, that a repeated instruction or a believed rule rests on.
select distinct on (c.session_id) c.session_id, s.origin, c.seq, c.quote, c.occurred_at
from candidate c join session s on s.id = c.session_id and not s.simulated
where c.agent = %(agent)s and c.level = %(level)s and c.owner = %(owner)s
  and coalesce(c.as_subject, c.subject) = %(subject)s and coalesce(c.as_predicate, c.predicate) = any(%(predicates)s::text[])
  and (c.value = %(value)s or c.id = any(coalesce((select f.evidence from fact f where f.id = %(fact_id)s), '{}')))
  and c.rejected is null and c.quarantined is null and c.active and c.extractor <> 'accepted:1'
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
