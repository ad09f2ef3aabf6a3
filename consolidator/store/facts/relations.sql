-- name: in_use
-- Read by owner, from the index of candidates. Counted observations ("approval", "steer") are no relations that a model
-- may name. No more is read than a scope's names need.
select relation.name
from (
    select coalesce(c.as_predicate, c.predicate) as name
    from unnest(%(levels)s::text[], %(owners)s::text[]) as owned (level, owner)
    cross join lateral (
        select as_predicate, predicate, kind from candidate
        where agent = %(agent)s and level = owned.level and owner = owned.owner
          and rejected is null and quarantined is null and active
        limit %(read)s
    ) as c
    where c.predicate not in ('approval', 'steer')
) as relation
group by relation.name order by count(*) desc, relation.name collate "C" limit %(limit)s

-- name: observed
-- The latest observations of a project, which a question may show as known; also those that only one session showed.
select subject, predicate, value, sentence
from (
    select distinct on (subject, predicate, value) subject, predicate, value, sentence, occurred_at from candidate
    where agent = %(agent)s and level = 'project' and owner = %(project)s and kind = 'observation'
      and rejected is null and quarantined is null and active
    order by subject, predicate, value, occurred_at desc
) as observation
order by occurred_at desc, sentence collate "C" limit %(limit)s
