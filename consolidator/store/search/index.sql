-- name: episode_heads
-- Each session's last episode, and a new block of numbers for its next ones.
select s.id as session_id, e.id as last_id, e.seq as last_seq, nextval('episode_block') as block
from unnest(%(sessions)s::text[]) as s (id)
left join lateral (select id, seq from episode where session_id = s.id order by seq desc limit 1) as e on true

-- name: save_episodes
insert into episode (id, session_id, seq, scope, role, speaker, text, occurred_at)
select * from unnest(%(ids)s::bigint[], %(sessions)s::text[], %(seqs)s::bigint[], %(scopes)s::bigint[], %(roles)s::text[],
                     %(speakers)s::text[], %(texts)b::text[], %(times)s::timestamptz[])

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
select e.id as number, e.seq, e.scope, e.speaker, e.text, s.agent, s.project, s.peer
from episode e join session s on s.id = e.session_id
where e.session_id = %(session)s and e.seq > %(after)s order by e.seq limit %(limit)s for share of e

-- name: indexed_facts
select i.number, i.scope, i.sentence, f.agent, f.project, f.peer, f.level from indexed_fact i join fact f on f.id = i.id
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
select coalesce(sum(turns), 0)::bigint as turns, coalesce(sum(facts), 0)::bigint as facts from corpus

-- name: add_counts
insert into corpus (scope, agent, project, peer, turns, turn_words, facts, fact_words)
select * from unnest(%(scopes)s::bigint[], %(agents)s::text[], %(projects)s::text[], %(peers)s::text[], %(turns)s::bigint[],
                     %(turn_words)s::bigint[], %(facts)s::bigint[], %(fact_words)s::bigint[])

-- name: subtract_counts
insert into corpus (scope, agent, project, peer, turns, turn_words, facts, fact_words)
select delta.scope, c.agent, c.project, c.peer, delta.turns, delta.turn_words, delta.facts, delta.fact_words
from unnest(%(scopes)s::bigint[], %(turns)s::bigint[], %(turn_words)s::bigint[], %(facts)s::bigint[], %(fact_words)s::bigint[])
     as delta (scope, turns, turn_words, facts, fact_words)
cross join lateral (
    select agent, project, peer from corpus where agent = %(agent)s and scope = delta.scope limit 1
) as c

-- name: compact_counts
-- Sums the committed rows of an agent's scopes, under the agent's lock; it waits for nobody who is adding one.
with deleted as (
    delete from corpus where agent = %(agent)s
      and scope in (select scope from corpus where agent = %(agent)s group by scope having count(*) > 1)
    returning *
)
insert into corpus (scope, agent, project, peer, turns, turn_words, facts, fact_words)
select scope, agent, project, peer, sum(turns), sum(turn_words), sum(facts), sum(fact_words)
from deleted group by scope, agent, project, peer
having (sum(turns), sum(turn_words), sum(facts), sum(fact_words)) is distinct from (0, 0, 0, 0)

-- name: scopes
-- The scopes that a query may read, the largest first.
select scope, sum(turns)::bigint as turns, sum(turn_words)::bigint as turn_words,
       sum(facts)::bigint as facts, sum(fact_words)::bigint as fact_words
from corpus
where (%(agent)s::text is null or agent = %(agent)s)
  and (%(project)s::text is null or project is null or strpos(project, %(project)s) > 0)
  and (%(peer)s::text is null or peer is null or peer = %(peer)s)
group by scope having sum(turns) + sum(facts) > 0
order by sum(turns) + sum(facts) desc, scope

-- name: fact_extents
select scope, sum(facts)::bigint as facts, sum(fact_words)::bigint as fact_words
from corpus where agent = %(agent)s and scope = any(%(scopes)s) group by scope

-- name: fact_ids
select number, id from indexed_fact where number = any(%(numbers)s)

-- name: is_rebuilding
-- True until all words are indexed again; vectors may be missing for longer.
select exists (
    select from run join claim on claim.run_id = run.id and claim.status in ('open', 'leased')
    where run.job = 'reindex' and run.status in ('running', 'interrupted')
) as rebuilding

-- name: search
-- The heaviest documents of each word in each scope, and how many documents have it; both index-only, both bounded.
select query.word, heaviest.refs, case when heaviest.count < %(limit)s then heaviest.count else (
    select count(*) from (
        select from posting p where p.word = query.word and p.scope = scopes.scope limit %(count_limit)s
    ) as counted
) end as documents
from unnest(%(words)s::bigint[]) as query (word)
cross join unnest(%(scopes)s::bigint[]) as scopes (scope)
cross join lateral (
    select count(*) as count, string_agg(int8send(ref), ''::bytea) as refs from (
        select p.ref from posting p where p.word = query.word and p.scope = scopes.scope order by p.ref limit %(limit)s
    ) as bounded
) as heaviest
where heaviest.count > 0

-- name: search_wide
-- The same for a query over many scopes: of a frequent word only a bounded number of documents is read.
with scopes as materialized (select unnest(%(scopes)s::bigint[]) as scope)
select query.word, heaviest.refs, heaviest.documents
from unnest(%(words)s::bigint[]) as query (word)
cross join lateral (
    select count(*) as documents, string_agg(int8send(ref), ''::bytea) as refs from (
        select scanned.ref from (
            select p.scope, p.ref from posting p where p.word = query.word limit %(count_limit)s
        ) as scanned
        where scanned.scope in (select scope from scopes) limit %(limit)s
    ) as bounded
) as heaviest
where heaviest.documents > 0

-- name: turns
select e.id, e.session_id, e.seq, e.role, e.speaker, left(e.text, 2000) as text, e.occurred_at, s.origin, s.project, s.peer
from episode e left join session s on s.id = e.session_id where e.id = any(%(numbers)s)

-- name: facts
-- Each with every turn that proves it.
select i.number, f.id, f.sentence, f.kind, f.trust, f.agent, f.project, f.peer, f.valid_from, f.valid_to, f.sessions, f.recalled,
       coalesce((
           select json_agg(json_build_array(proof.session_id, proof.seq)) from (
               select c.session_id, c.seq from candidate c where c.id = any(f.evidence)
               union select c.session_id, (further.proof ->> 0)::bigint
               from candidate c, jsonb_array_elements(c.evidence) as further (proof) where c.id = any(f.evidence)
           ) as proof
       ), '[]') as proofs
from indexed_fact i join fact f on f.id = i.id where i.number = any(%(numbers)s) and f.superseded_at is null

-- name: outdated_facts
-- What the index has of an agent's facts and should not have, or has with another sentence.
select i.id, i.number, i.scope, i.sentence from indexed_fact i
where i.agent = %(agent)s and not exists (
    select from fact f where f.id = i.id and f.superseded_at is null and f.sentence = i.sentence
) order by i.id limit %(limit)s

-- name: outdated_among
-- The same of some facts only.
select i.id, i.number, i.scope, i.sentence from unnest(%(ids)s::text[]) as touched (id) join indexed_fact i using (id)
where not exists (select from fact f where f.id = i.id and f.superseded_at is null and f.sentence = i.sentence)
order by i.id limit %(limit)s

-- name: unindexed_facts
select f.id, f.agent, f.project, f.peer, f.level, f.sentence from fact f
where f.agent = %(agent)s and f.superseded_at is null and not exists (select from indexed_fact i where i.id = f.id)
order by f.id limit %(limit)s

-- name: unindexed_among
select f.id, f.agent, f.project, f.peer, f.level, f.sentence from unnest(%(ids)s::text[]) as touched (id) join fact f using (id)
where f.superseded_at is null and not exists (select from indexed_fact i where i.id = f.id)
order by f.id limit %(limit)s

-- name: delete_facts
with vectors as (
    delete from embedding e using indexed_fact i where i.id = any(%(ids)s) and e.kind = 'fact' and e.number = i.number
)
delete from indexed_fact where id = any(%(ids)s)

-- name: save_facts
insert into indexed_fact (id, agent, scope, sentence)
select * from unnest(%(ids)s::text[], %(agents)s::text[], %(scopes)s::bigint[], %(sentences)s::text[])
returning id, number

-- name: count_recalls
update fact set recalled = recalled + 1, last_recalled_at = %(now)s
where id in (select id from fact where id = any(%(ids)s) order by id for no key update skip locked)

-- name: remove_turns
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
