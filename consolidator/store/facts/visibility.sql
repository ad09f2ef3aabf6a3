-- name: sessions_of
-- Whose lineage root has this peer; a session without a root that is there counts for itself.
select s.id from session s left join session root on root.id = s.root_id
where s.id = any(%(ids)s)
  and case when root.id is null then coalesce(s.peer, '') else coalesce(root.peer, '') end = %(peer)s

-- name: person_of
-- Return whose session it is: the peer of its lineage root, None for the owner of the machine.
select case when root.id is null then s.peer else root.peer end as peer
from session s left join session root on root.id = s.root_id where s.id = %(session_id)s

-- name: of_person
-- Whether a fact rests on this person's words alone, or enough people said it in just these words.
case when fact.trust = 'person' then fact.level = 'peer' and fact.peer = %(peer)s
else fact.evidence <> '{}' and (
    select bool_and(person.peer is not distinct from %(peer)s) or fact.level <> 'peer'
           and count(distinct person.peer) filter (where lower(c.sentence) = lower(fact.sentence)) >= %(min_people)s
    from candidate c left join session s on s.id = c.session_id left join session root on root.id = s.root_id
    cross join lateral (
        select case when s.id is null then null when root.id is null then coalesce(s.peer, '')
               else coalesce(root.peer, '') end as peer
    ) as person
    where c.id = any(fact.evidence)
) end

-- name: listed_of_person
-- The same for long lists. What such a fact needs at least is asked first, of all facts at once: its first words, if they
-- are there, are no other person's, or enough people may have said it.
(fact.trust = 'person' or fact.level <> 'peer' and cardinality(fact.evidence) >= %(min_people)s or not exists (
    select from candidate c join session s on s.id = c.session_id left join session root on root.id = s.root_id
    where c.id = fact.evidence[1] and coalesce(case when root.id is null then s.peer else root.peer end, '') <> %(peer)s
)) and
-- include: of_person

-- name: facts_for
select fact.id from fact where fact.id = any(%(ids)s) and
-- include: of_person

-- name: sessions_of_project
select id from session where id = any(%(ids)s) and coalesce(project, '') = %(project)s

-- name: of_project
-- Whether every quote of a fact is from a session of this project that is there; what a person put right has no quote.
coalesce(fact.project, %(project)s) = %(project)s
and case when fact.trust = 'person' or fact.evidence = '{}' then fact.level = 'project' and fact.project = %(project)s
    else not exists (
        select from unnest(fact.evidence) as cited (id)
        left join candidate c on c.id = cited.id left join session s on s.id = c.session_id
        where s.id is null or coalesce(s.project, '') <> %(project)s
    ) end

-- name: facts_of_project
select fact.id from fact where fact.id = any(%(ids)s) and
-- include: of_project

-- name: facts_of_others
-- Facts that rest on words of somebody with a name, who is not the owner of the machine.
select f.id from fact f
where f.id = any(%(ids)s) and f.trust <> 'person' and exists (
    select from candidate c join session s on s.id = c.session_id left join session root on root.id = s.root_id
    where c.id = any(f.evidence) and coalesce(case when root.id is null then s.peer else root.peer end, '') <> ''
)

-- name: statements
-- What a person asked to remember, accepted as a rule, or put right, by the fact that rests on it.
select f.id, coalesce(c.sentence, f.sentence) as sentence
from fact f left join candidate c on c.id = any(f.evidence) and c.extractor = any(%(extractors)s) and c.trust = 'user'
where f.id = any(%(ids)s) and (f.trust = 'person' or c.id is not null)
