-- name: facts
select * from fact where true

-- name: facts_as_of
-- Facts in the words and times that they had at a moment: those of the first version that ended after it, if any.
select * from (
    select fact.agent, fact.project, fact.peer, fact.level, fact.subject, fact.predicate, fact.kind, fact.confidence,
           fact.trust, fact.id, fact.recorded_at, fact.sessions, fact.evidence, fact.flagged, fact.run_id, fact.cause,
           fact.recalled, fact.last_recalled_at, fact.steers, fact.steers_succeeded, fact.steers_failed,
           case when version.fact_id is null then fact.value else version.value end as value,
           case when version.fact_id is null then fact.sentence else version.sentence end as sentence,
           case when version.fact_id is null then fact.valid_from else version.valid_from end as valid_from,
           case when version.fact_id is null then fact.valid_to else version.valid_to end as valid_to,
           case when version.fact_id is null then fact.superseded_at else version.superseded_at end as superseded_at,
           case when version.fact_id is null then fact.superseded_by else version.superseded_by end as superseded_by,
           case when version.fact_id is null then fact.superseded_reason else version.superseded_reason end as superseded_reason
    from fact left join lateral (
        select * from fact_version v where v.fact_id = fact.id and v.until > %(as_of)s order by v.until limit 1
    ) as version on true
) as fact where true

-- name: believed_then
recorded_at <= %(as_of)s and (superseded_at is null or superseded_at > %(as_of)s)

-- name: true_then
-- A fact that was merged into another one, or that another revision reads otherwise, is not known now.
valid_from <= %(valid_at)s and (valid_to is null or valid_to > %(valid_at)s)
and id not in (select fact_id from tombstone) and (superseded_at is null or valid_to is not null)
and superseded_reason is distinct from 'revision'

-- name: unused
-- Nobody has said or recalled it since a time, and memory knew it before. The latest quote is found by its key.
trust <> 'person' and recorded_at < %(unused_since)s and coalesce(last_recalled_at, recorded_at) < %(unused_since)s
and coalesce((select occurred_at from candidate where id = fact.evidence[cardinality(fact.evidence)]) < %(unused_since)s, true)

-- name: in_memories
(agent = any(%(agents)s) or agent = 'all agents' and coalesce(project, '') = any(%(shared_in)s))

-- name: for_audiences
(%(audiences)s::text[] is null and starts_with(audience, 'all') or audience = any(%(audiences)s))

-- name: procedures
select * from procedure where retired_at is null

-- name: works
coalesce((body #>> '{success,mean}')::double precision >= %(min_success)s, true)

-- name: solutions
select * from solution where retired_at is null

-- name: has_fixes
(jsonb_array_length(body -> 'fixes') > 0 or jsonb_array_length(body -> 'withheld') > 0)
