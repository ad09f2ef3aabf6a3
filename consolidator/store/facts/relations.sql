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
