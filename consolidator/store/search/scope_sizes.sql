-- name: add_counts
insert into corpus (scope, agent, project, peer, turns, turn_words, facts, fact_words)
select * from unnest(%(scopes)s::bigint[], %(agents)s::text[], %(projects)s::text[], %(peers)s::text[], %(turns)s::bigint[],
                     %(turn_words)s::bigint[], %(facts)s::bigint[], %(fact_words)s::bigint[])

-- name: subtract_counts
insert into corpus (scope, agent, project, peer, turns, turn_words, facts, fact_words)
select delta.scope, c.agent, c.project, c.peer, delta.turns, delta.turn_words, delta.facts, delta.fact_words
from unnest(%(scopes)s::bigint[], %(turns)s::bigint[], %(turn_words)s::bigint[], %(facts)s::bigint[], %(fact_words)s::bigint[])
     as delta (scope, turns, turn_words, facts, fact_words)
cross join lateral (
    select agent, project, peer from corpus where agent = %(agent)s and scope = delta.scope limit 1
) as c

-- name: compact_counts
-- Sums the committed rows of an agent's scopes, under the agent's lock; it waits for nobody who is adding one.
with deleted as (
    delete from corpus where agent = %(agent)s
      and scope in (select scope from corpus where agent = %(agent)s group by scope having count(*) > 1)
    returning *
)
insert into corpus (scope, agent, project, peer, turns, turn_words, facts, fact_words)
select scope, agent, project, peer, sum(turns), sum(turn_words), sum(facts), sum(fact_words)
from deleted group by scope, agent, project, peer
having (sum(turns), sum(turn_words), sum(facts), sum(fact_words)) is distinct from (0, 0, 0, 0)

-- name: scopes
-- The scopes that a query may read, the largest first. A peer reads its own turns; a fact that belongs to nobody in
-- particular may be of its words, too. The owner's turns belong to nobody in particular.
select scope, (%(peer)s::text is null or coalesce(peer, '') = %(peer)s)
       and (not %(project_alone)s or coalesce(project, '') = %(project)s) as has_turns, sum(turns)::bigint as turns, sum(turn_words)::bigint as turn_words,
       sum(facts)::bigint as facts, sum(fact_words)::bigint as fact_words
from corpus
where (%(agents)s::text[] is null or agent = any(%(agents)s) or agent = 'all agents' and coalesce(project, '') = any(%(shared_in)s))
  and (%(project)s::text is null or project is null or project = %(project)s)
  and (%(peer)s::text is null or peer is null or peer = %(peer)s)
group by scope, has_turns having sum(turns) + sum(facts) > 0
order by sum(turns) + sum(facts) desc, scope

-- name: fact_extents
select scope, sum(facts)::bigint as facts, sum(fact_words)::bigint as fact_words
from corpus where agent = %(agent)s and scope = any(%(scopes)s) group by scope
