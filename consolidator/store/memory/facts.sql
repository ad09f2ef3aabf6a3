-- name: save_candidate
insert into candidate (id, agent, project, peer, level, subject, predicate, value, sentence, kind, confidence, trust,
                       session_id, seq, occurred_at, quote, extractor, single_valued, evidence, generation, quarantined, valid_from, valid_to,
                       rejected, active, reconciled, run_id, owner)
values (%(id)s, %(agent)s, %(project)s, %(peer)s, %(level)s, %(subject)s, %(predicate)s, %(value)s, %(sentence)s,
        %(kind)s, %(confidence)s, %(trust)s, %(session_id)s, %(seq)s, %(occurred_at)s, %(quote)s,
        %(extractor)s, %(single_valued)s, %(evidence)s, %(generation)s, %(quarantined)s, %(valid_from)s, %(valid_to)s,
        %(rejected)s, %(active)s, not %(active)s, %(run_id)s,
        coalesce(case %(level)s when 'project' then %(project)s when 'peer' then %(peer)s end, ''))
on conflict (id) do nothing

-- name: news
-- Candidates that facts do not know of yet, or know otherwise, with what they count for and what they say by themselves;
-- locked, so that none moves before it is marked.
select id, level, owner, subject, predicate, as_subject, as_predicate from candidate where agent = %(agent)s and not reconciled
order by id collate "C" for update

-- name: candidates_of
-- Every candidate of some slots, by what it counts for: what other projects and peers have there is not looked at.
select c.*, s.root_id,
       c.generation > 0 and (c.operation is null or (c.operation = 'add' and c.flagged is not null)) as beside
from unnest(%(levels)s::text[], %(owners)s::text[], %(subjects)s::text[], %(predicates)s::text[])
     as slot (level, owner, subject, predicate)
join candidate c on c.agent = %(agent)s and c.level = slot.level and c.owner = slot.owner
     and coalesce(c.as_subject, c.subject) = slot.subject and coalesce(c.as_predicate, c.predicate) = slot.predicate
join session s on s.id = c.session_id and not s.simulated
where c.rejected is null and c.quarantined is null and c.active
order by c.occurred_at, c.session_id, c.seq, c.id

-- name: reconciled
update candidate set reconciled = true where agent = %(agent)s and id = any(%(ids)s) and not reconciled

-- name: undecided
-- What a model read and nobody has compared with what is believed.
select c.*, s.root_id, false as beside
from candidate c join session s on s.id = c.session_id and not s.simulated
where c.agent = %(agent)s and c.generation > 0 and c.operation is null and c.rejected is null and c.quarantined is null
  and c.active
order by c.occurred_at, c.session_id, c.seq, c.id limit %(limit)s

-- name: slotmates
-- The facts of each candidate's own subject and predicate; what a person does not want believed is among them.
select asked.id as candidate, found.id as fact
from unnest(%(ids)s::text[], %(levels)s::text[], %(owners)s::text[], %(subjects)s::text[], %(predicates)s::text[])
     as asked (id, level, owner, subject, predicate)
cross join lateral (
    select f.id from fact f
    where f.agent = %(agent)s and f.subject = asked.subject and f.predicate = asked.predicate
      and coalesce(f.project, f.peer, '') = asked.owner and f.level = asked.level
      and (f.superseded_at is null or exists (select from tombstone t where t.fact_id = f.id))
    order by f.superseded_at nulls first, f.valid_from desc, f.id limit 10
) as found

-- name: forgotten
-- What a person does not want believed of some owners, the latest first.
select t.level, coalesce(t.project, t.peer, '') as owner, t.fact_id as fact from tombstone t
where t.agent = %(agent)s
  and (t.level, coalesce(t.project, t.peer, '')) in (select * from unnest(%(levels)s::text[], %(owners)s::text[]))
order by t.created_at desc, t.fact_id limit 1000

-- name: known
-- Facts, and what their latest evidence says. One that rests on undecided sayings alone is itself being decided.
select f.*, last.single_valued
from fact f left join candidate last on last.id = f.evidence[cardinality(f.evidence)]
where f.id = any(%(ids)s) and (f.trust = 'person' or f.superseded_at is not null or exists (
    select from candidate c where c.id = any(f.evidence) and (c.generation = 0 or c.operation is not null)
))

-- name: published
-- The facts of some slots, as they are compared with what they should be.
select f.id, f.value, f.sentence, f.valid_from, f.valid_to, f.superseded_by, f.sessions, f.evidence, f.flagged
from unnest(%(levels)s::text[], %(owners)s::text[], %(subjects)s::text[], %(predicates)s::text[])
     as slot (level, owner, subject, predicate)
join fact f on f.agent = %(agent)s and f.subject = slot.subject and f.predicate = slot.predicate
     and coalesce(f.project, f.peer, '') = slot.owner and f.level = slot.level

-- name: decide
-- Writes down what was decided of a candidate that nobody else has decided meanwhile.
update candidate
set operation = %(operation)s, target = %(target)s, decided_by = %(by)s, why = %(why)s, flagged = %(flag)s,
    as_subject = %(subject)s, as_predicate = %(predicate)s, as_value = %(value)s, reconciled = false
where id = %(candidate)s and operation is null
  and (%(target)s::text is null or %(own)s or exists (select from fact where id = %(target)s))

-- name: save_fact
-- What was believed until now is kept beside it, but where an erasure changes it: that may speak in the erased one's words.
with was as (
    insert into fact_version (fact_id, until, value, sentence, valid_from, valid_to, superseded_at, superseded_by)
    select id, %(now)s, value, sentence, valid_from, valid_to, superseded_at, superseded_by from fact
    where id = %(id)s and %(run_id)s <> 'erase'
      and (value, sentence, valid_from, valid_to, superseded_at is not null)
          is distinct from (%(value)s, %(sentence)s, %(valid_from)s, %(valid_to)s::timestamptz, %(superseded)s)
    on conflict do nothing  -- of two changes in one moment the first tells what was believed before
)
insert into fact (id, agent, project, peer, level, subject, predicate, value, sentence, kind, confidence, trust,
                  valid_from, valid_to, recorded_at, superseded_at, superseded_by, sessions, evidence, flagged, run_id)
values (%(id)s, %(agent)s, %(project)s, %(peer)s, %(level)s, %(subject)s, %(predicate)s, %(value)s, %(sentence)s,
        %(kind)s, %(confidence)s, %(trust)s, %(valid_from)s, %(valid_to)s, %(now)s,
        case when %(superseded)s then %(now)s end, %(superseded_by)s, %(sessions)s, %(evidence)s, %(flag)s, %(run_id)s)
on conflict (id) do update
set value = excluded.value, sentence = excluded.sentence, kind = excluded.kind, confidence = excluded.confidence,
    trust = excluded.trust, valid_from = excluded.valid_from, valid_to = excluded.valid_to,
    superseded_at = case when %(superseded)s then coalesce(fact.superseded_at, excluded.superseded_at) end,
    superseded_by = excluded.superseded_by, sessions = excluded.sessions, evidence = excluded.evidence,
    flagged = excluded.flagged, run_id = excluded.run_id
where (fact.value, fact.sentence, fact.valid_from, fact.valid_to, fact.superseded_by, fact.sessions, fact.evidence, fact.flagged)
      is distinct from (excluded.value, excluded.sentence, excluded.valid_from, excluded.valid_to,
                        excluded.superseded_by, excluded.sessions, excluded.evidence, excluded.flagged)
returning (xmax = 0) as added

-- name: outdated_facts
-- Facts whose evidence counts for another fact now, or was read otherwise by another generation: believed until now.
-- What is outdated already, and by the same, is left alone.
update fact f set superseded_at = coalesce(f.superseded_at, %(now)s), superseded_by = told.successor
from (
    select o.id, coalesce((
        select k.id from fact k where k.agent = o.agent and k.id = any(%(kept)s) and k.evidence && o.evidence
        order by k.id limit 1
    ), o.superseded_by, 'another generation') as successor
    from fact o
    where o.agent = %(agent)s and o.trust <> 'person' and not (o.id = any(%(kept)s))
      and (o.level, coalesce(o.project, o.peer, ''), o.subject, o.predicate) in (
          select * from unnest(%(levels)s::text[], %(owners)s::text[], %(subjects)s::text[], %(predicates)s::text[])
      )
      and exists (select from candidate c where c.id = any(o.evidence) and c.generation > 0)
) as told
where f.id = told.id and (f.superseded_at is null or f.superseded_by is distinct from told.successor)

-- name: stale_facts
-- Facts of the reconciled slots that no evidence supports any more.
delete from fact where agent = %(agent)s and trust <> 'person' and not (id = any(%(kept)s))
  and (level, coalesce(project, peer, ''), subject, predicate) in (
      select * from unnest(%(levels)s::text[], %(owners)s::text[], %(subjects)s::text[], %(predicates)s::text[])
  )
  and not exists (select from candidate c where c.id = any(fact.evidence) and c.generation > 0)

-- name: words
-- What people told of an agent's memory: values that are not believed again, and facts that they stated.
select agent, level, project, peer, subject, predicate, value, null as stated from tombstone where agent = %(agent)s
union all
select agent, level, project, peer, subject, predicate, value, id from fact
where agent = %(agent)s and trust = 'person' and superseded_at is null

-- name: bury
insert into tombstone (fact_id, agent, level, project, peer, subject, predicate, value, created_at)
values (%(id)s, %(agent)s, %(level)s, %(project)s, %(peer)s, %(subject)s, %(predicate)s, %(value)s, %(now)s)
on conflict (fact_id) do nothing

-- name: end_belief
update fact set superseded_at = coalesce(superseded_at, %(now)s), superseded_by = %(by)s where id = %(id)s

-- name: state
-- What a person says in place of a fact: it rests on nothing but their word.
with was as (
    insert into fact_version (fact_id, until, value, sentence, valid_from, valid_to, superseded_at, superseded_by)
    select id, %(now)s, value, sentence, valid_from, valid_to, superseded_at, superseded_by from fact
    where id = %(new)s and superseded_at is not null
    on conflict do nothing
)
insert into fact (id, agent, project, peer, level, subject, predicate, value, sentence, kind, confidence, trust,
                  valid_from, recorded_at, sessions, evidence, run_id)
values (%(new)s, %(agent)s, %(project)s, %(peer)s, %(level)s, %(subject)s, %(predicate)s, %(sentence)s, %(sentence)s,
        %(kind)s, 'explicit', 'person', %(valid_from)s, %(now)s, 0, '{}', 'person')
on conflict (id) do update set superseded_at = null, superseded_by = null

-- name: quarantined
select c.*, s.origin from candidate c left join session s on s.id = c.session_id
where c.quarantined is not null and c.rejected is null and (%(agent)s::text is null or c.agent = %(agent)s)
order by c.occurred_at desc, c.id limit %(limit)s

-- name: quarantined_one
select * from candidate where id = %(id)s and quarantined is not null and rejected is null

-- name: settle
update candidate set quarantined = case when %(rejected)s::text is null then null else quarantined end,
       rejected = %(rejected)s, reconciled = false
where id = %(id)s and quarantined is not null and rejected is null
