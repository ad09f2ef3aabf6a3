-- name: save_candidate
insert into candidate (id, agent, project, peer, level, subject, predicate, value, sentence, kind, confidence, trust,
                       session_id, seq, occurred_at, quote, extractor, single_valued, evidence, generation, quarantined, valid_from, valid_to,
                       rejected, run_id)
values (%(id)s, %(agent)s, %(project)s, %(peer)s, %(level)s, %(subject)s, %(predicate)s, %(value)s, %(sentence)s,
        %(kind)s, %(confidence)s, %(trust)s, %(session_id)s, %(seq)s, %(occurred_at)s, %(quote)s,
        %(extractor)s, %(single_valued)s, %(evidence)s, %(generation)s, %(quarantined)s, %(valid_from)s, %(valid_to)s,
        %(rejected)s, %(run_id)s)
on conflict (id) do nothing

-- name: news_of_candidates
-- Every candidate of the subjects and predicates that have news.
select c.*, s.root_id from candidate c join session s on s.id = c.session_id and not s.simulated
where c.agent = %(agent)s and c.rejected is null and c.quarantined is null and (c.subject, c.predicate) in (
    select n.subject, n.predicate from candidate n where n.agent = %(agent)s and not n.reconciled
)
order by c.occurred_at, c.session_id, c.seq, c.id

-- name: reconciled
update candidate set reconciled = true where agent = %(agent)s and id = any(%(ids)s) and not reconciled

-- name: reject_rest
update candidate set reconciled = true where agent = %(agent)s and (rejected is not null or quarantined is not null) and not reconciled

-- name: save_fact
insert into fact (id, agent, project, peer, level, subject, predicate, value, sentence, kind, confidence, trust,
                  valid_from, valid_to, recorded_at, superseded_at, superseded_by, sessions, evidence, run_id)
values (%(id)s, %(agent)s, %(project)s, %(peer)s, %(level)s, %(subject)s, %(predicate)s, %(value)s, %(sentence)s,
        %(kind)s, %(confidence)s, %(trust)s, %(valid_from)s, %(valid_to)s, %(now)s,
        case when %(superseded)s then %(now)s end, %(superseded_by)s, %(sessions)s, %(evidence)s, %(run_id)s)
on conflict (id) do update
set value = excluded.value, sentence = excluded.sentence, kind = excluded.kind, confidence = excluded.confidence,
    trust = excluded.trust, valid_from = excluded.valid_from, valid_to = excluded.valid_to,
    superseded_at = case when %(superseded)s then coalesce(fact.superseded_at, excluded.superseded_at) end,
    superseded_by = excluded.superseded_by, sessions = excluded.sessions, evidence = excluded.evidence,
    run_id = excluded.run_id
where (fact.value, fact.sentence, fact.valid_from, fact.valid_to, fact.superseded_by, fact.sessions, fact.evidence)
      is distinct from (excluded.value, excluded.sentence, excluded.valid_from, excluded.valid_to,
                        excluded.superseded_by, excluded.sessions, excluded.evidence)
returning (xmax = 0) as added

-- name: stale_facts
-- Facts of the reconciled subjects and predicates that no evidence supports any more.
delete from fact where agent = %(agent)s and trust <> 'person' and not (id = any(%(kept)s))
  and (subject, predicate) in (select * from unnest(%(subjects)s::text[], %(predicates)s::text[]))

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
where id = %(id)s
