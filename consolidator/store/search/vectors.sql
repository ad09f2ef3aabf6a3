-- name: pgvector
-- The schema in which pgvector is installed, and the type that its index holds: half precision is enough to find the nearest.
select n.nspname as schema,
       case when exists (select from pg_type t where t.typname = 'halfvec' and t.typnamespace = n.oid)
            then 'halfvec' else 'vector' end as type
from pg_available_extensions a
left join pg_extension x on x.extname = a.name left join pg_namespace n on n.oid = x.extnamespace
where a.name = 'vector'

-- name: unembedded_facts
select 'fact' as kind, i.number, i.scope, i.text from indexed_fact i
left join embedding e on e.kind = 'fact' and e.number = i.number
where i.number > %(after)s and e.model is distinct from %(model)s order by i.number limit %(limit)s

-- name: unembedded_turns
select 'turn' as kind, t.id as number, t.scope, t.text from episode t
left join embedding e on e.kind = 'turn' and e.number = t.id
where t.id < coalesce(%(before)s::bigint, 9223372036854775807) and e.model is distinct from %(model)s order by t.id desc limit %(limit)s

-- name: save_fact
insert into embedding (kind, number, scope, model, vector)
select %(kind)s, number, scope, %(model)s, %(vector)s from indexed_fact where number = %(number)s for key share
on conflict (kind, number) do update set model = excluded.model, vector = excluded.vector, scope = excluded.scope

-- name: save_turn
insert into embedding (kind, number, scope, model, vector)
select %(kind)s, id, scope, %(model)s, %(vector)s from episode where id = %(number)s for key share
on conflict (kind, number) do update set model = excluded.model, vector = excluded.vector, scope = excluded.scope

-- name: sizes
select count(*) as documents, max(cardinality(vector)) as size from embedding where model = %(model)s

-- name: drop_other_indexes
select drop_vector_indexes(%(model)s, %(size)s)

-- name: create_index
select create_vector_index(%(model)s, %(size)s, %(kind)s)

-- name: fact_vectors
select number, vector from embedding where kind = 'fact' and number = any(%(numbers)s) and model = %(model)s
