-- name: in_memories
-- What the memories hold that a `MemoryScope` is about, for a query of one table; so are the next two.
and (%(agents)s::text[] is null or agent = any(%(agents)s) or agent = 'all agents' and coalesce(project, '') = any(%(shared_in)s))

-- name: in_audiences
and (%(audiences)s::text[] is null and starts_with(audience, 'all') or audience = any(%(audiences)s))

-- name: in_scope
-- What belongs to an agent as a whole belongs to each of its projects.
-- include: in_memories
-- include: in_audiences
and (%(project)s::text is null or project = %(project)s or project is null and not %(project_alone)s)

-- name: fact_by_id
select * from fact where id = %(id)s

-- name: facts_of_project
select * from fact
where project = %(project)s and superseded_at is null and (valid_to is null or valid_to > %(now)s)
  -- include: in_memories
order by sessions desc, valid_from desc, id limit %(limit)s

-- name: cited_candidates
select c.*, s.origin, case when steer.seq is not null then coalesce(ended.outcome, 'unknown') end as steer
from candidate c left join session s on s.id = c.session_id
left join steer on steer.session_id = c.session_id and steer.seq = c.seq
left join lateral (
    select o.outcome from task_outcome o
    where o.session_id = steer.session_id and o.task = steer.task and o.seq > steer.seq order by o.seq limit 1
) as ended on true
where c.id = any(%(ids)s) order by c.occurred_at, c.session_id, c.seq

-- name: fact_history
-- Every fact of the same attribute and owner, in order of time.
select * from fact
where agent = %(agent)s and level = %(level)s and coalesce(project, peer, '') = coalesce(%(project)s, %(peer)s, '')
  and subject = %(subject)s and predicate = %(predicate)s
order by valid_from, id

-- name: procedure_by_id
select * from procedure where id = %(id)s
  -- include: in_audiences

-- name: solution_by_id
select * from solution where id = %(id)s
  -- include: in_audiences

-- name: candidate_by_id
select c.*, s.origin, case when steer.seq is not null then coalesce(ended.outcome, 'unknown') end as steer
from candidate c left join session s on s.id = c.session_id
left join steer on steer.session_id = c.session_id and steer.seq = c.seq
left join lateral (
    select o.outcome from task_outcome o
    where o.session_id = steer.session_id and o.task = steer.task and o.seq > steer.seq order by o.seq limit 1
) as ended on true
where c.id = %(id)s

-- name: named_by_prefix
-- What has an id that begins so, with what names it to a person, at most so many of each kind. The range is for the index:
-- ids are of digits, letters of one case and "_", so that what ends in many z comes after them in any collation.
(select 'fact' as kind, id, sentence as title from fact
 where 'fact' = any(%(kinds)s) and id between %(prefix)s and %(prefix)s || repeat('z', %(longest)s) and starts_with(id, %(prefix)s) order by id limit %(limit)s)
union all
(select 'procedure', id, title from procedure
 where 'procedure' = any(%(kinds)s) and id between %(prefix)s and %(prefix)s || repeat('z', %(longest)s) and starts_with(id, %(prefix)s) order by id limit %(limit)s)
union all
(select 'solution', id, headline from solution
 where 'solution' = any(%(kinds)s) and id between %(prefix)s and %(prefix)s || repeat('z', %(longest)s) and starts_with(id, %(prefix)s) order by id limit %(limit)s)
union all
(select 'lesson', id, line from lesson
 where 'lesson' = any(%(kinds)s) and id between %(prefix)s and %(prefix)s || repeat('z', %(longest)s) and starts_with(id, %(prefix)s) and forgotten_at is null
 order by id limit %(limit)s)
union all
(select 'candidate', id, sentence from candidate
 where 'candidate' = any(%(kinds)s) and id between %(prefix)s and %(prefix)s || repeat('z', %(longest)s) and starts_with(id, %(prefix)s) order by id limit %(limit)s)
union all
(select 'run', id, job || ' of ' || to_char(scheduled_at at time zone 'utc', 'YYYY-MM-DD HH24:MI') from run
 where 'run' = any(%(kinds)s) and id between %(prefix)s and %(prefix)s || repeat('z', %(longest)s) and starts_with(id, %(prefix)s) order by id limit %(limit)s)
union all
(select 'dead_letter', id, 'event ' || seq || ' of ' || session_id from dead_letter
 where 'dead_letter' = any(%(kinds)s) and id between %(prefix)s and %(prefix)s || repeat('z', %(longest)s) and starts_with(id, %(prefix)s) order by id limit %(limit)s)

-- name: rejections
-- How many candidates of the same attribute were rejected, by reason.
select rejected as reason, count(*) from candidate
where agent = %(agent)s and coalesce(as_subject, subject) = %(subject)s
  and coalesce(as_predicate, predicate) = %(predicate)s and rejected is not null
  and (%(level)s <> 'project' or project = %(project)s) and (%(level)s <> 'peer' or peer = %(peer)s)
group by rejected order by count(*) desc, rejected

-- name: session_origins
select id, origin, agent, pruned_to from session where id = any(%(ids)s)

-- name: solutions_by_fingerprint
select * from solution
where retired_at is null
  and (fingerprint = %(fingerprint!)s or substr(fingerprint, strpos(fingerprint, '|') + 1) = %(signature!)s)
  -- include: in_scope
order by fingerprint = %(fingerprint!)s desc nulls last, confirmed desc, sessions desc, occurrences desc, id limit %(limit)s

-- name: shared_words
-- How many words of a text each solution has, where it has any: counted from the index, word by word, since making the
-- words of each solution again would take longer than everything else here.
requested as (
    select tsvector_to_array(to_tsvector('simple', %(text!)s)) as words
), overlap as (
    select hit.id, count(*) as shared from requested, unnest(requested.words) as word, lateral (
        select id from solution
        where to_tsvector('simple', search) @@ quote_literal(word)::tsquery and retired_at is null
          -- include: in_scope
    ) as hit group by hit.id
)

-- name: best_of_shared
-- Their bodies are read in this order until there are enough.
cross join lateral (
    select * from solution
    where id = ranked.id
      and (%(include_unsolved)s or jsonb_array_length(body -> 'fixes') > 0)
    offset 0
) as solution
order by ranked.shared desc, ranked.confirmed desc, ranked.sessions desc, ranked.id limit %(limit)s

-- name: solutions_by_shared_words
-- The solutions that share the most words with a text; the words of the failed and the fixing calls count too.
with
-- include: shared_words
select solution.* from (
    select s.id, overlap.shared, s.confirmed, s.sessions from overlap join solution s using (id)
    order by overlap.shared desc, s.confirmed desc, s.sessions desc, s.id offset 0
) as ranked
-- include: best_of_shared

-- name: solutions_by_headline
-- The solutions whose headline has at least half of an error's words, those with the most of them first.
with
-- include: shared_words
select solution.* from (
    select s.id, headline.shared, s.confirmed, s.sessions from requested, overlap join solution s using (id),
         lateral (select tsvector_to_array(to_tsvector('simple', s.headline)) as words offset 0) as heading,  -- made once
         lateral (select count(*) as shared from unnest(requested.words) as word where word = any (heading.words)) as headline
    where overlap.shared * 2 >= cardinality(requested.words) and headline.shared * 2 >= cardinality(requested.words)
    order by headline.shared desc, s.confirmed desc, s.sessions desc, s.id offset 0
) as ranked
-- include: best_of_shared

-- name: tool_profiles
select agent, project, tool, body, audience from tool_profile
where project = %(project)s
  -- include: in_memories
  -- include: in_audiences

-- name: procedures_for_request
-- Procedures worth telling: those whose tools have a word of the text, then the best of the scope, with what they are for
-- and how often they work.
with requested as (
    select array_to_string(array(select quote_literal(w) from unnest(tsvector_to_array(to_tsvector('simple', %(text!)s))) as w),
                           ' | ')::tsquery as words
), worthy as not materialized (
    select id, title, worth from procedure
    where retired_at is null and worth > 0
      -- include: in_scope
), named as materialized (
    select id, worth from worthy where to_tsvector('simple', title) @@ (select words from requested) order by worth desc, id limit 40
), best as (
    select id, worth from worthy where id not in (select id from named) order by worth desc, id limit 40
), chosen as (
    select id, worth, true as is_named from named union all select id, worth, false from best
    order by is_named desc, worth desc, id limit 40
)
select p.id, p.title, p.worth, jsonb_path_query_array(p.body, '$.evidence[*][2]') as goals,
       jsonb_path_query_array(p.body, '$.evidence[*][0]') as sessions,
       coalesce((p.body #>> '{success,mean}')::float, 1) as success
from chosen join procedure p using (id) order by chosen.is_named desc, chosen.worth desc, p.id
