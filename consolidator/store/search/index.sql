-- name: episode_heads
-- Each session's last episode, and a new block of numbers for its next ones.
select s.id as session_id, e.id as last_id, e.seq as last_seq, nextval('episode_block') as block
from unnest(%(sessions)s::text[]) as s (id)
left join lateral (select id, seq from episode where session_id = s.id order by seq desc limit 1) as e on true

-- name: save_episodes
insert into episode (id, session_id, seq, scope, role, speaker, text, occurred_at, announces)
select * from unnest(%(number)s::bigint[], %(session_id)s::text[], %(seq)s::bigint[], %(scope)s::bigint[],
                     %(role)s::text[], %(speaker)s::text[], %(text)b::text[], %(occurred_at)s::timestamptz[],
                     %(announces)s::boolean[])

-- name: note_announced
-- The window that began with the call came after the one that had these words.
update episode e set announces = true
from unnest(%(sessions)s::text[], %(seqs)s::bigint[]) as event (session_id, seq)
where e.session_id = event.session_id and e.seq = event.seq and e.role = 'assistant'

-- name: clear
-- Locks in the order of a night's commit; a night that has not committed adds its postings afterwards.
truncate posting, corpus

-- name: clear_vectors
truncate embedding

-- name: delete_orphaned_vectors
delete from embedding e
where (e.kind = 'turn' and not exists (select from episode t where t.id = e.number))
   or (e.kind = 'fact' and not exists (select from indexed_fact i where i.number = e.number))

-- name: agents
select agent from indexed_fact union select agent from fact where superseded_at is null order by agent

-- name: sessions
select distinct session_id as id from episode order by id

-- name: lock_turns
select e.id as number, e.seq, e.scope, e.speaker, e.text, s.memory as agent, s.project, s.peer
from episode e join session s on s.id = e.session_id
where e.session_id = %(session)s and e.seq > %(after)s order by e.seq limit %(limit)s for share of e

-- name: indexed_facts
select i.number, i.scope, i.text, f.agent, f.project, f.peer, f.level from indexed_fact i join fact f on f.id = i.id
where i.agent = %(agent)s and i.number > %(after)s order by i.number limit %(limit)s

-- name: move_turns
with moved as (
    update episode e set scope = new.scope
    from unnest(%(numbers)s::bigint[], %(scopes)s::bigint[]) as new (number, scope) where e.id = new.number
)
update embedding e set scope = new.scope
from unnest(%(numbers)s::bigint[], %(scopes)s::bigint[]) as new (number, scope) where e.kind = 'turn' and e.number = new.number

-- name: move_facts
with moved as (
    update indexed_fact i set scope = new.scope
    from unnest(%(numbers)s::bigint[], %(scopes)s::bigint[]) as new (number, scope) where i.number = new.number
)
update embedding e set scope = new.scope
from unnest(%(numbers)s::bigint[], %(scopes)s::bigint[]) as new (number, scope) where e.kind = 'fact' and e.number = new.number

-- name: count_documents
-- Return how many episodes and facts are indexed.
select coalesce(sum(turns), 0)::bigint as turns, coalesce(sum(facts), 0)::bigint as facts from corpus

-- name: fact_ids
select number, id from indexed_fact where number = any(%(numbers)s)

-- name: is_rebuilding
-- True until all words are indexed again; vectors may be missing for longer.
select exists (
    select from run join claim on claim.run_id = run.id and claim.status in ('open', 'leased')
    where run.job = 'reindex' and run.status in ('running', 'interrupted')
) as rebuilding

-- name: version
select value from setting where name = 'index_version'

-- name: save_version
insert into setting (name, value) values ('index_version', %(value)s) on conflict (name) do update set value = excluded.value

-- name: is_empty
select not exists (select from posting) as is_empty

-- name: turns
select e.id as number, e.session_id, e.seq, e.role, e.speaker, left(e.text, 2000) as text, e.occurred_at, e.announces
from episode e where e.id = any(%(numbers)s)

-- name: turns_of_events
select e.id as number, e.session_id, e.seq, e.role, e.speaker, left(e.text, 2000) as text, e.occurred_at, e.announces
from unnest(%(sessions)s::text[], %(seqs)s::bigint[]) as event (session_id, seq) join episode e using (session_id, seq)

-- name: facts
-- Each with the events of every candidate that proves it: its own, and those that say the same in the same session.
select i.number, f.id, f.sentence, f.kind, f.confidence, f.trust, f.valid_from, f.valid_to, f.sessions,
       f.steers_succeeded, f.steers_failed, f.recalled, f.evidence = '{}' or coalesce(proof.says_since, false) as says_since,
       case when f.trust <> 'person' then greatest(proof.last_at, f.last_recalled_at) end as last_used_at,
       coalesce(proof.proofs, '[]')::text as proofs, i.text as searched
from indexed_fact i join fact f on f.id = i.id
cross join lateral (
    select bool_or(c.valid_from is not null) as says_since, max(c.occurred_at) as last_at,
           json_agg(json_build_array(c.session_id, c.seq, jsonb_path_query_array(c.evidence, '$[*][0]'))) as proofs
    from candidate c where c.id = any(f.evidence)
) as proof
where i.number = any(%(numbers)s) and f.superseded_at is null

-- name: outdated_facts
-- What the index has of an agent's facts and should not have, or has with another text.
select i.id, i.number, i.scope, i.text from indexed_fact i
where i.agent = %(agent)s and not exists (
    select from fact f where f.id = i.id and f.superseded_at is null
      and f.sentence || ' [' || replace(f.predicate, '_', ' ') || ', ' || f.kind || ']' = i.text
) order by i.id limit %(limit)s

-- name: outdated_among
-- The same of some facts only.
select i.id, i.number, i.scope, i.text from unnest(%(ids)s::text[]) as touched (id) join indexed_fact i using (id)
where not exists (
    select from fact f where f.id = i.id and f.superseded_at is null
      and f.sentence || ' [' || replace(f.predicate, '_', ' ') || ', ' || f.kind || ']' = i.text
)
order by i.id limit %(limit)s

-- name: unindexed_facts
select f.id, f.agent, f.project, f.peer, f.level,
       f.sentence || ' [' || replace(f.predicate, '_', ' ') || ', ' || f.kind || ']' as text
from fact f
where f.agent = %(agent)s and f.superseded_at is null and not exists (select from indexed_fact i where i.id = f.id)
order by f.id limit %(limit)s

-- name: unindexed_among
select f.id, f.agent, f.project, f.peer, f.level,
       f.sentence || ' [' || replace(f.predicate, '_', ' ') || ', ' || f.kind || ']' as text
from unnest(%(ids)s::text[]) as touched (id) join fact f using (id)
where f.superseded_at is null and not exists (select from indexed_fact i where i.id = f.id)
order by f.id limit %(limit)s

-- name: delete_facts
with vectors as (
    delete from embedding e using indexed_fact i where i.id = any(%(ids)s) and e.kind = 'fact' and e.number = i.number
)
delete from indexed_fact where id = any(%(ids)s)

-- name: save_facts
insert into indexed_fact (id, agent, scope, text)
select * from unnest(%(ids)s::text[], %(agents)s::text[], %(scopes)s::bigint[], %(texts)s::text[])
returning id, number

-- name: count_recalls
update fact set recalled = recalled + 1, last_recalled_at = %(now)s
where id in (select id from fact where id = any(%(ids)s) order by id for no key update skip locked)

-- name: remove_turns
-- Delete and return at most `limit` episodes of a session, if given only those up to a seq and before a time.
with deleted as (
    delete from episode where id in (
        select id from episode where session_id = %(session)s and (%(upto)s::bigint is null or seq <= %(upto)s)
          and (%(before)s::timestamptz is null or occurred_at < %(before)s)
        order by seq limit %(limit)s
    ) returning *
), vectors as (
    delete from embedding e using deleted where e.kind = 'turn' and e.number = deleted.id
)
select id, scope, speaker, text from deleted


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
