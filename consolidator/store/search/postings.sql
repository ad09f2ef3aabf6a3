-- name: copy_postings
copy posting (word, scope, ref) from stdin (format binary)

-- name: remove_postings
-- Returns the documents whose words were indexed: only these are counted in their scopes.
with deleted as (
    delete from posting p
    using unnest(%(words)s::bigint[], %(scopes)s::bigint[], %(refs)s::bigint[]) as removed (word, scope, ref)
    where p.word = removed.word and p.scope = removed.scope and p.ref = removed.ref
    returning p.ref
)
select distinct ref & %(document)s as number from deleted

-- name: add_missing_postings
-- Returns the documents that words were added of.
with added as (
    insert into posting (word, scope, ref)
    select * from unnest(%(words)s::bigint[], %(scopes)s::bigint[], %(refs)s::bigint[])
    on conflict do nothing returning ref
)
select distinct ref & %(document)s as number from added

-- name: search
-- The heaviest documents of each word in each scope, and how many documents have it; both index-only, both bounded. Where
-- there are more than `limit`, those in a sample are counted instead: one in `share`, as the index posting_sample has them.
-- Beyond `sample_limit` of these the number is the geometric mean of what was counted and of all documents there.
select query.word, heaviest.refs, case when heaviest.count < %(limit)s then heaviest.count else (
    select greatest(heaviest.count, case when count(*) < %(sample_limit)s then count(*) * %(share)s
           else sqrt(count(*)::float * %(share)s * greatest(scopes.size, count(*) * %(share)s))::bigint end)
    from (
        select from posting p where p.word = query.word and p.scope = scopes.scope and p.ref %% 31 = 0 limit %(sample_limit)s
    ) as sample
) end as documents
from unnest(%(words)s::bigint[]) as query (word)
cross join unnest(%(scopes)s::bigint[], %(sizes)s::bigint[]) as scopes (scope, size)
cross join lateral (
    select count(*) as count, string_agg(int8send(ref), ''::bytea) as refs from (
        select p.ref from posting p where p.word = query.word and p.scope = scopes.scope order by p.ref limit %(limit)s
    ) as bounded
) as heaviest
where heaviest.count > 0

-- name: search_wide
-- The same for a query over many scopes: of a frequent word only a bounded number of documents is read, in the order of
-- the primary key, so that no sort is needed and the same ones are read each time.
with scopes as materialized (select unnest(%(scopes)s::bigint[]) as scope)
select query.word, heaviest.refs, heaviest.documents
from unnest(%(words)s::bigint[]) as query (word)
cross join lateral (
    select count(*) as documents, string_agg(int8send(ref), ''::bytea) as refs from (
        select scanned.ref from (
            select p.scope, p.ref from posting p where p.word = query.word
            order by p.scope, p.ref limit %(count_limit)s
        ) as scanned
        where scanned.scope in (select scope from scopes) order by scanned.scope, scanned.ref limit %(limit)s
    ) as bounded
) as heaviest
where heaviest.documents > 0
