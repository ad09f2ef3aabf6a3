-- name: sessions_of
-- Whose lineage root has this peer; a session without a root that is there counts for itself.
select s.id from session s left join session root on root.id = s.root_id
where s.id = any(%(ids)s)
  and case when root.id is null then coalesce(s.peer, '') else coalesce(root.peer, '') end = %(peer)s

-- name: person_of
-- Return whose session it is: the peer of its lineage root, None for the owner of the machine.
select case when root.id is null then s.peer else root.peer end as peer
from session s left join session root on root.id = s.root_id where s.id = %(session_id)s

-- name: person_facts
-- Facts that rest on this person's words alone, or that enough people said in just these words.
select f.id from fact f
cross join lateral (
    select count(*) filter (where person.peer is distinct from %(peer)s) as of_others,
           count(distinct person.peer) filter (where lower(c.sentence) = lower(f.sentence)) as people
    from candidate c left join session s on s.id = c.session_id left join session root on root.id = s.root_id
    cross join lateral (
        select case when s.id is null then null when root.id is null then coalesce(s.peer, '')
               else coalesce(root.peer, '') end as peer
    ) as person
    where c.id = any(f.evidence)
) as cited
where case when f.trust = 'person' then f.level = 'peer' and f.peer = %(peer)s
      else f.evidence <> '{}' and (cited.of_others = 0 or f.level <> 'peer' and cited.people >= %(min_people)s) end

-- name: facts_for
-- include: person_facts
  and f.id = any(%(ids)s)

-- name: sessions_of_project
select id from session where id = any(%(ids)s) and coalesce(project, '') = %(project)s

-- name: project_facts
-- Facts of which every quote is from a session of this project that is there; what a person put right has no quote.
select f.id from fact f
where coalesce(f.project, %(project)s) = %(project)s
  and case when f.trust = 'person' or f.evidence = '{}' then f.level = 'project' and f.project = %(project)s
      else not exists (
          select from unnest(f.evidence) as cited (id)
          left join candidate c on c.id = cited.id left join session s on s.id = c.session_id
          where s.id is null or coalesce(s.project, '') <> %(project)s
      ) end

-- name: facts_of_project
-- include: project_facts
  and f.id = any(%(ids)s)

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
