-- The lists of memory without their order: `store.keyset` adds it, where a page begins, and the words that people look for.

-- name: fact_filters
-- `unused` selects the facts that nobody has said or recalled since a time, though memory knew them before; or the others.
where (%(include_superseded)s or coalesce(%(as_of)s::timestamptz, %(valid_at)s::timestamptz) is not null or superseded_at is null)
  and (%(as_of)s::timestamptz is null or recorded_at <= %(as_of)s and (superseded_at is null or superseded_at > %(as_of)s))
  -- What held then may be learned late. What was merged into another fact, or what another revision reads otherwise, is not known now.
  and (%(valid_at)s::timestamptz is null
       or valid_from <= %(valid_at)s and (valid_to is null or valid_to > %(valid_at)s) and id not in (select fact_id from tombstone)
          and (superseded_at is null or valid_to is not null) and superseded_reason is distinct from 'revision')
  and (%(project)s::text is null or project = %(project)s)
  and (coalesce(%(peer)s::text, '') = '' or peer = %(peer)s)
  and (coalesce(%(kind)s::text, '') = '' or kind = %(kind)s)
  and (coalesce(%(trust)s::text, '') = '' or trust = %(trust)s)
  and (not %(flagged)s or flagged is not null)
  and (%(unused)s::boolean is null or %(unused)s = (
      trust <> 'person' and recorded_at < %(unused_since)s and coalesce(last_recalled_at, recorded_at) < %(unused_since)s
      and coalesce((select occurred_at from candidate where id = fact.evidence[cardinality(fact.evidence)]) < %(unused_since)s, true)))
  -- include: in_memories
  and {visible}

-- name: facts
select * from fact
-- include: fact_filters

-- name: facts_then
-- In the words they had at a time, from `fact_version`.
select * from (
    select {columns} from fact f left join lateral (
        select * from fact_version where fact_id = f.id and until > %(as_of)s order by until limit 1
    ) as version on true
) as fact
-- include: fact_filters

-- name: rejected
select * from candidate
where rejected is not null
  and (%(project)s::text is null or project = %(project)s)
  and (coalesce(%(peer)s::text, '') = '' or peer = %(peer)s)
  and (%(query!)s::text is null or strpos(lower(sentence), lower(%(query!)s)) > 0 or strpos(lower(quote), lower(%(query!)s)) > 0)
  -- include: in_memories
order by occurred_at desc, id limit %(limit)s

-- name: procedures
select * from procedure
where retired_at is null and (%(include_unworthy)s or worth > 0)
  -- include: in_scope

-- name: solutions
select * from solution
where retired_at is null
  -- What followed once on a failure without a word says nothing of it.
  and (%(include_unsolved)s or (confirmed or headline <> '')
       and (jsonb_array_length(body -> 'fixes') > 0 or jsonb_array_length(body -> 'withheld') > 0))
  -- include: in_scope
