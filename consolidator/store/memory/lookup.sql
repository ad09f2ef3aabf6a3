-- name: explain_fact
select * from fact where id = %(id)s

-- name: evidence
select c.*, s.origin from candidate c left join session s on s.id = c.session_id
where c.id = any(%(ids)s) order by c.occurred_at, c.session_id, c.seq

-- name: history
-- What was believed of the same subject and predicate, and when; of nobody else.
select * from fact
where agent = %(agent)s and level = %(level)s and coalesce(project, peer, '') = coalesce(%(project)s, %(peer)s, '')
  and subject = %(subject)s and predicate = %(predicate)s
order by valid_from, id

-- name: explain_procedure
select * from procedure where id = %(id)s

-- name: explain_solution
select * from solution where id = %(id)s

-- name: explain_candidate
select c.*, s.origin from candidate c left join session s on s.id = c.session_id where c.id = %(id)s

-- name: rejections
-- What was said of the same subject and predicate and may not become a fact, by reason.
select rejected as reason, count(*) from candidate
where agent = %(agent)s and coalesce(as_subject, subject) = %(subject)s
  and coalesce(as_predicate, predicate) = %(predicate)s and rejected is not null
  and (%(level)s <> 'project' or project = %(project)s) and (%(level)s <> 'peer' or peer = %(peer)s)
group by rejected order by count(*) desc, rejected

-- name: origins
select id, origin, head, pruned_to from session where id = any(%(ids)s)

-- name: by_fingerprint
select * from solution
where retired_at is null
  and (fingerprint = %(fingerprint)s or substr(fingerprint, strpos(fingerprint, '|') + 1) = %(signature)s)
  and (%(agent)s::text is null or agent = %(agent)s)
  and (%(project)s::text is null or project is null or strpos(project, %(project)s) > 0)
order by fingerprint = %(fingerprint)s desc nulls last, confirmed desc, sessions desc, occurrences desc, id limit %(limit)s

-- name: by_shared_words
-- The solutions that share the most words with a text. Of an error's text at least half must stand in theirs; of any
-- other, words of what failed and of what fixed it count, too, and there has to be a fix.
with asked as (
    select tsvector_to_array(to_tsvector('simple', %(text)s)) as words
)
select solution.* from solution, asked,
     lateral (select tsvector_to_array(to_tsvector('simple', case when %(error)s then headline else search end)) as words) as held,
     lateral (select count(*) as shared from unnest(asked.words) as word where word = any (held.words)) as found
where retired_at is null and cardinality(asked.words) > 0
  and to_tsvector('simple', search) @@ array_to_string(array(select quote_literal(word) from unnest(asked.words) as word), '|')::tsquery
  and case when %(error)s then found.shared * 2 >= cardinality(asked.words) else jsonb_array_length(body -> 'fixes') > 0 end
  and (%(agent)s::text is null or agent = %(agent)s)
  and (%(project)s::text is null or project is null or strpos(project, %(project)s) > 0)
order by found.shared desc, confirmed desc, sessions desc, id limit %(limit)s

-- name: profiles
select tool, body from tool_profile where agent = %(agent)s and project = %(project)s

-- name: ways
-- Procedures whose tools have a word of the text, then the best of the scope, with what people had asked for.
with asked as (
    select array_to_string(array(select quote_literal(w) from unnest(tsvector_to_array(to_tsvector('simple', %(text)s))) as w),
                           ' | ')::tsquery as words
)
select id, title, rank, jsonb_path_query_array(body, '$.evidence[*][2]') as goals
from procedure, asked
where retired_at is null
  and (%(agent)s::text is null or agent = %(agent)s)
  and (%(project)s::text is null or project is null or strpos(project, %(project)s) > 0)
order by to_tsvector('simple', title) @@ asked.words desc, rank desc, id limit 40
