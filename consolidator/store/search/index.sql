-- name: heads
-- How far each session's turns are numbered, and a block of numbers to begin or go on with.
select s.id as session, e.id as last, e.seq, nextval('episode_block') as block
from unnest(%(sessions)s::text[]) as s (id)
left join lateral (select id, seq from episode where session_id = s.id order by seq desc limit 1) as e on true

-- name: save_episodes
insert into episode (id, session_id, seq, scope, role, speaker, text, occurred_at)
select * from unnest(%(ids)s::bigint[], %(sessions)s::text[], %(seqs)s::bigint[], %(scopes)s::bigint[], %(roles)s::text[],
                     %(speakers)s::text[], %(texts)b::text[], %(times)s::timestamptz[])

-- name: copy_postings
copy posting (word, scope, ref) from stdin (format binary)

-- name: drop_postings
-- Answers with the documents whose words were there: only these are in the sums of their scopes.
with dropped as (
    delete from posting p
    using unnest(%(words)s::bigint[], %(scopes)s::bigint[], %(refs)s::bigint[]) as gone (word, scope, ref)
    where p.word = gone.word and p.scope = gone.scope and p.ref = gone.ref
    returning p.ref
)
select distinct ref & %(document)s as number from dropped

-- name: add_postings
-- Adds what is not there, and answers with the documents that had none of their words there.
with added as (
    insert into posting (word, scope, ref)
    select * from unnest(%(words)s::bigint[], %(scopes)s::bigint[], %(refs)s::bigint[])
    on conflict do nothing returning ref
)
select distinct ref & %(document)s as number from added

-- name: clear
-- In the order of a night's commit. What a night has not committed yet it adds when this is over.
truncate posting, corpus

-- name: clear_vectors
truncate embedding

-- name: drop_orphans
-- Vectors of what is not there any more.
delete from embedding e
where (e.kind = 'turn' and not exists (select from episode t where t.id = e.number))
   or (e.kind = 'fact' and not exists (select from indexed_fact i where i.number = e.number))

-- name: agents
select agent from indexed_fact union select agent from fact where superseded_at is null order by agent

-- name: sessions
select distinct session_id as id from episode order by id

-- name: kept_turns
-- A session's turns, so that nobody takes them out meanwhile.
select e.id as number, e.seq, e.scope, e.speaker, e.text, s.agent, s.project, s.peer
from episode e join session s on s.id = e.session_id
where e.session_id = %(session)s and e.seq > %(after)s order by e.seq limit %(limit)s for share of e

-- name: kept_facts
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

-- name: total
select coalesce(sum(turns), 0)::bigint as turns, coalesce(sum(facts), 0)::bigint as facts from corpus

-- name: add_corpus
insert into corpus (scope, agent, project, peer, turns, turn_words, facts, fact_words)
select * from unnest(%(scopes)s::bigint[], %(agents)s::text[], %(projects)s::text[], %(peers)s::text[], %(turns)s::bigint[],
                     %(turn_words)s::bigint[], %(facts)s::bigint[], %(fact_words)s::bigint[])

-- name: shrink_corpus
insert into corpus (scope, agent, project, peer, turns, turn_words, facts, fact_words)
select less.scope, c.agent, c.project, c.peer, less.turns, less.turn_words, less.facts, less.fact_words
from unnest(%(scopes)s::bigint[], %(turns)s::bigint[], %(turn_words)s::bigint[], %(facts)s::bigint[], %(fact_words)s::bigint[])
     as less (scope, turns, turn_words, facts, fact_words)
cross join lateral (
    select agent, project, peer from corpus where agent = %(agent)s and scope = less.scope limit 1
) as c

-- name: sum_corpus
-- Sums an agent's rows up, those that are committed; whoever adds one meanwhile is not waited for. Under the agent's lock.
with gone as (
    delete from corpus where agent = %(agent)s
      and scope in (select scope from corpus where agent = %(agent)s group by scope having count(*) > 1)
    returning *
)
insert into corpus (scope, agent, project, peer, turns, turn_words, facts, fact_words)
select scope, agent, project, peer, sum(turns), sum(turn_words), sum(facts), sum(fact_words)
from gone group by scope, agent, project, peer
having (sum(turns), sum(turn_words), sum(facts), sum(fact_words)) is distinct from (0, 0, 0, 0)

-- name: scopes
-- What may be read: an agent's own, a project's and a peer's where they are asked for, the largest first.
select scope, sum(turns)::bigint as turns, sum(turn_words)::bigint as turn_words,
       sum(facts)::bigint as facts, sum(fact_words)::bigint as fact_words
from corpus
where (%(agent)s::text is null or agent = %(agent)s)
  and (%(project)s::text is null or project is null or strpos(project, %(project)s) > 0)
  and (%(peer)s::text is null or peer is null or peer = %(peer)s)
group by scope having sum(turns) + sum(facts) > 0
order by sum(turns) + sum(facts) desc, scope

-- name: extent
-- How much each of some scopes has of facts.
select scope, sum(facts)::bigint as facts, sum(fact_words)::bigint as fact_words
from corpus where agent = %(agent)s and scope = any(%(scopes)s) group by scope

-- name: facts_called
select number, id from indexed_fact where number = any(%(numbers)s)

-- name: rebuilding
-- Until the words are back; vectors alone may be missing for long.
select exists (
    select from run join claim on claim.run_id = run.id and claim.status in ('open', 'leased')
    where run.job = 'reindex' and run.status in ('running', 'interrupted')
) as rebuilding

-- name: search
-- The weightiest documents of each word in each scope, and in how many it stands; both by the index alone, both bounded.
select asked.word, best.refs, case when best.found < %(most)s then best.found else (
    select count(*) from (
        select from posting p where p.word = asked.word and p.scope = scopes.scope limit %(counted)s
    ) as all_of_it
) end as documents
from unnest(%(words)s::bigint[]) as asked (word)
cross join unnest(%(scopes)s::bigint[]) as scopes (scope)
cross join lateral (
    select count(*) as found, string_agg(int8send(ref), ''::bytea) as refs from (
        select p.ref from posting p where p.word = asked.word and p.scope = scopes.scope order by p.ref limit %(most)s
    ) as weightiest
) as best
where best.found > 0

-- name: search_wide
-- The same where there are too many scopes to ask each: of a frequent word only so many documents are looked at.
with scopes as materialized (select unnest(%(scopes)s::bigint[]) as scope)
select asked.word, best.refs, best.documents
from unnest(%(words)s::bigint[]) as asked (word)
cross join lateral (
    select count(*) as documents, string_agg(int8send(ref), ''::bytea) as refs from (
        select looked.ref from (
            select p.scope, p.ref from posting p where p.word = asked.word limit %(counted)s
        ) as looked
        where looked.scope in (select scope from scopes) limit %(most)s
    ) as weightiest
) as best
where best.documents > 0

-- name: turns
select e.id, e.session_id, e.seq, e.role, e.speaker, left(e.text, 2000) as text, e.occurred_at, s.origin, s.project, s.peer
from episode e left join session s on s.id = e.session_id where e.id = any(%(numbers)s)

-- name: facts
-- With every turn that proves it.
select i.number, f.id, f.sentence, f.kind, f.trust, f.agent, f.project, f.peer, f.valid_from, f.valid_to, f.sessions, f.recalled,
       coalesce((
           select json_agg(json_build_array(proof.session_id, proof.seq)) from (
               select c.session_id, c.seq from candidate c where c.id = any(f.evidence)
               union select c.session_id, (more.told ->> 0)::bigint
               from candidate c, jsonb_array_elements(c.evidence) as more (told) where c.id = any(f.evidence)
           ) as proof
       ), '[]') as proofs
from indexed_fact i join fact f on f.id = i.id where i.number = any(%(numbers)s) and f.superseded_at is null

-- name: gone_facts
select i.id, i.number, i.scope, i.sentence from indexed_fact i
where i.agent = %(agent)s and not exists (
    select from fact f where f.id = i.id and f.superseded_at is null and f.sentence = i.sentence
) order by i.id limit %(limit)s

-- name: gone_of
select i.id, i.number, i.scope, i.sentence from unnest(%(ids)s::text[]) as touched (id) join indexed_fact i using (id)
where not exists (select from fact f where f.id = i.id and f.superseded_at is null and f.sentence = i.sentence)
order by i.id limit %(limit)s

-- name: new_facts
select f.id, f.agent, f.project, f.peer, f.level, f.sentence from fact f
where f.agent = %(agent)s and f.superseded_at is null and not exists (select from indexed_fact i where i.id = f.id)
order by f.id limit %(limit)s

-- name: new_of
select f.id, f.agent, f.project, f.peer, f.level, f.sentence from unnest(%(ids)s::text[]) as touched (id) join fact f using (id)
where f.superseded_at is null and not exists (select from indexed_fact i where i.id = f.id)
order by f.id limit %(limit)s

-- name: drop_facts
with vectors as (
    delete from embedding e using indexed_fact i where i.id = any(%(ids)s) and e.kind = 'fact' and e.number = i.number
)
delete from indexed_fact where id = any(%(ids)s)

-- name: save_facts
insert into indexed_fact (id, agent, scope, sentence)
select * from unnest(%(ids)s::text[], %(agents)s::text[], %(scopes)s::bigint[], %(sentences)s::text[])
returning id, number

-- name: use
update fact set recalled = recalled + 1, last_recalled_at = %(now)s
where id in (select id from fact where id = any(%(ids)s) order by id for no key update skip locked)

-- name: take_turns
with gone as (
    delete from episode where id in (
        select id from episode where session_id = %(session)s and (%(upto)s::bigint is null or seq <= %(upto)s)
          and (%(before)s::timestamptz is null or occurred_at < %(before)s)
        order by seq limit %(limit)s
    ) returning *
), vectors as (
    delete from embedding e using gone where e.kind = 'turn' and e.number = gone.id
)
select id, scope, speaker, text from gone
