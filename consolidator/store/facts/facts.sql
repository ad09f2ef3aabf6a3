-- name: save_candidate
insert into candidate (id, agent, project, peer, level, subject, predicate, value, sentence, kind, confidence, trust,
                       session_id, seq, occurred_at, quote, extractor, single_valued, evidence, revision, quarantined, valid_from, valid_to,
                       rejected, active, reconciled, run_id, owner)
values (%(id)s, %(agent)s, %(project)s, %(peer)s, %(level)s, %(subject)s, %(predicate)s, %(value)s, %(sentence)s,
        %(kind)s, %(confidence)s, %(trust)s, %(session_id)s, %(seq)s, %(occurred_at)s, %(quote)s,
        %(extractor)s, %(single_valued)s, %(evidence)s, %(revision)s, %(quarantined)s, %(valid_from)s, %(valid_to)s,
        %(rejected)s, %(active)s, not %(active)s, %(run_id)s,
        coalesce(case %(level)s when 'project' then %(project)s when 'peer' then %(peer)s end, ''))
on conflict (id) do nothing

-- name: values_of_session
select subject, predicate, value from candidate where session_id = %(session)s

-- name: lock_unreconciled
-- Candidates that changed since facts were made of them; locked until they are marked as reconciled.
select id, level, owner, subject, predicate, as_subject, as_predicate from candidate where agent = %(agent)s and not reconciled
order by id collate "C" for update

-- name: ended_attributes
-- The attributes of facts that have a word of an ending: what it ends, and since when, is for the reconciler to say.
select distinct f.level, coalesce(f.project, f.peer, '') as owner, f.subject, f.predicate
from candidate e
join fact f on f.agent = e.agent and f.level = e.level and coalesce(f.project, f.peer, '') = e.owner
where e.agent = %(agent)s and e.id = any(%(ids)s) and f.trust <> 'person' and exists (
    select from regexp_split_to_table(lower(e.value), '\W+') as word
    where length(word) > 1 and strpos(lower(f.value), left(word, 3)) > 0
)

-- name: candidates
-- Every candidate that counts for one of these attributes; other owners' candidates are not read.
select c.*, s.root_id,
       c.revision > 0 and (c.operation is null or (c.operation = 'add' and c.flagged is not null)) as is_additive,
       c.revision > 0 and c.operation in ('reinforce', 'refine', 'noop') as is_repetition,
       case when steer.seq is not null then coalesce(ended.outcome, 'unknown') end as steer
from unnest(%(level)s::text[], %(owner)s::text[], %(subject)s::text[], %(predicate)s::text[])
     as attribute (level, owner, subject, predicate)
join candidate c on c.agent = %(agent)s and c.level = attribute.level and c.owner = attribute.owner
     and coalesce(c.as_subject, c.subject) = attribute.subject and coalesce(c.as_predicate, c.predicate) = attribute.predicate
join session s on s.id = c.session_id and not s.simulated
left join steer on steer.session_id = c.session_id and steer.seq = c.seq
left join lateral (
    select o.outcome from task_outcome o
    where o.session_id = steer.session_id and o.task = steer.task and o.seq > steer.seq order by o.seq limit 1
) as ended on true
where c.rejected is null and c.quarantined is null and c.active
order by c.occurred_at, c.session_id, c.seq, c.id

-- name: mark_reconciled
update candidate set reconciled = true where agent = %(agent)s and id = any(%(ids)s) and not reconciled

-- name: undecided
-- Candidates of models that were not yet compared with the facts.
select c.*, s.root_id, false as is_additive, false as is_repetition, null::text as steer
from candidate c join session s on s.id = c.session_id and not s.simulated
where c.agent = %(agent)s and c.revision > 0 and c.operation is null and c.rejected is null and c.quarantined is null
  and c.active and c.kind <> 'observation'
order by c.occurred_at, c.session_id, c.seq, c.id limit %(limit)s

-- name: facts_by_attribute
-- The facts of each candidate's own attribute, those among them that a person told memory to forget.
select candidate.id as candidate_id, match.id as fact_id
from unnest(%(ids)s::text[], %(level)s::text[], %(owner)s::text[], %(subject)s::text[], %(predicate)s::text[])
     as candidate (id, level, owner, subject, predicate)
cross join lateral (
    select f.id from fact f
    where f.agent = %(agent)s and f.subject = candidate.subject and f.predicate = candidate.predicate
      and coalesce(f.project, f.peer, '') = candidate.owner and f.level = candidate.level
      and (f.superseded_at is null or exists (select from tombstone t where t.fact_id = f.id))
    order by f.superseded_at nulls first, f.valid_from desc, f.id limit 10
) as match

-- name: forgotten
-- The facts of these owners that a person told memory to forget, the latest first.
select t.level, coalesce(t.project, t.peer, '') as owner, t.fact_id from tombstone t
where t.agent = %(agent)s
  and (t.level, coalesce(t.project, t.peer, '')) in (select * from unnest(%(level)s::text[], %(name)s::text[]))
order by t.created_at desc, t.fact_id limit 1000

-- name: comparable
-- Facts that candidates can be compared with; a fact that rests on undecided candidates alone is still being decided,
-- and one that rests only on what another revision replaces is about to go.
select f.id, f.subject, f.predicate, f.value, f.sentence,
       f.trust = 'person' or coalesce(latest.single_valued, false) as single_valued,  -- stated outright
       f.trust, f.superseded_at is not null as forgotten, nullif(f.valid_from, %(unknown_start)s) as valid_from, f.valid_to,
       latest.occurred_at as said_at
from fact f left join candidate latest on latest.id = f.evidence[cardinality(f.evidence)]
where f.id = any(%(ids)s) and (f.trust = 'person' or f.superseded_at is not null or exists (
    select from candidate c
    where c.id = any(f.evidence) and c.active and (c.revision = 0 or c.operation is not null)
))

-- name: published
-- The facts of these attributes that are stored.
select f.id from unnest(%(level)s::text[], %(owner)s::text[], %(subject)s::text[], %(predicate)s::text[])
     as attribute (level, owner, subject, predicate)
join fact f on f.agent = %(agent)s and f.subject = attribute.subject and f.predicate = attribute.predicate
     and coalesce(f.project, f.peer, '') = attribute.owner and f.level = attribute.level
where not %(believed)s or f.superseded_reason is null

-- name: save_decision
-- Stores a decision unless another process decided the candidate first, or the target has gone.
update candidate
set operation = %(operation)s, target = %(target_id)s, decided_by = %(decided_by)s, why = %(why)s, flagged = %(flagged)s,
    as_subject = %(subject)s, as_predicate = %(predicate)s, as_value = %(value)s, reconciled = false
where id = %(candidate_id)s and operation is null
  and (%(target_id)s::text is null or %(target_is_new)s or exists (select from fact where id = %(target_id)s))

-- name: save_fact
-- Keeps the former version, except in an erasure: it may quote the erased session.
with was as (
    insert into fact_version (fact_id, until, value, sentence, valid_from, valid_to, superseded_at, superseded_by,
                              superseded_reason)
    select id, %(now)s, value, sentence, valid_from, valid_to, superseded_at, superseded_by, superseded_reason from fact
    where id = %(id)s and %(cause)s <> 'erasure'
      and (value, sentence, valid_from, valid_to, superseded_at is not null)
          is distinct from (%(value)s, %(sentence)s, %(valid_from)s, %(valid_to)s::timestamptz,
                            %(superseded_reason)s::text is not null)
    on conflict do nothing  -- of two changes at one moment the first has the former version
)
insert into fact (id, agent, project, peer, level, subject, predicate, value, sentence, kind, confidence, trust,
                  valid_from, valid_to, recorded_at, superseded_at, superseded_by, superseded_reason, sessions, evidence, flagged,
                  steers, steers_succeeded, steers_failed, run_id, cause)
values (%(id)s, %(agent)s, %(project)s, %(peer)s, %(level)s, %(subject)s, %(predicate)s, %(value)s, %(sentence)s,
        %(kind)s, %(confidence)s, %(trust)s, %(valid_from)s, %(valid_to)s, %(now)s,
        case when %(superseded_reason)s::text is not null then %(now)s end, %(superseded_by)s, %(superseded_reason)s, %(sessions)s,
        %(evidence)s, %(flagged)s, %(steers)s, %(steers_succeeded)s, %(steers_failed)s, %(run_id)s, %(cause)s)
on conflict (id) do update
set value = excluded.value, sentence = excluded.sentence, kind = excluded.kind, confidence = excluded.confidence,
    trust = excluded.trust, valid_from = excluded.valid_from, valid_to = excluded.valid_to,
    superseded_at = case when excluded.superseded_at is not null then coalesce(fact.superseded_at, excluded.superseded_at) end,
    superseded_by = excluded.superseded_by, superseded_reason = excluded.superseded_reason, sessions = excluded.sessions,
    evidence = excluded.evidence, flagged = excluded.flagged,
    steers = excluded.steers, steers_succeeded = excluded.steers_succeeded, steers_failed = excluded.steers_failed,
    run_id = excluded.run_id, cause = excluded.cause
where (fact.value, fact.sentence, fact.valid_from, fact.valid_to, fact.superseded_by, fact.superseded_reason, fact.sessions,
       fact.evidence, fact.flagged, fact.steers, fact.steers_succeeded, fact.steers_failed)
      is distinct from (excluded.value, excluded.sentence, excluded.valid_from, excluded.valid_to,
                        excluded.superseded_by, excluded.superseded_reason, excluded.sessions, excluded.evidence, excluded.flagged,
                        excluded.steers, excluded.steers_succeeded, excluded.steers_failed)
returning (xmax = 0) as added

-- name: supersede_unsupported
-- Supersedes facts whose evidence now counts for another fact, or that another revision reads otherwise. Facts that are
-- superseded already for the same reason are not written.
update fact f set superseded_at = coalesce(f.superseded_at, %(now)s), superseded_by = outdated.successor,
                  superseded_reason = outdated.reason
from (
    select o.id, coalesce(kept_fact.id, o.superseded_by) as successor,
           case when coalesce(kept_fact.id, o.superseded_by) is not null then 'replaced'
                else coalesce(o.superseded_reason, 'revision') end as reason
    from fact o
    left join lateral (
        select k.id from fact k where k.agent = o.agent and k.id = any(%(kept)s) and k.evidence && o.evidence
        order by k.id limit 1
    ) as kept_fact on true
    where o.agent = %(agent)s and o.trust <> 'person' and not (o.id = any(%(kept)s))
      and (o.level, coalesce(o.project, o.peer, ''), o.subject, o.predicate) in (
          select * from unnest(%(level)s::text[], %(owner)s::text[], %(subject)s::text[], %(predicate)s::text[])
      )
      and exists (select from candidate c where c.id = any(o.evidence) and c.revision > 0)
) as outdated
where f.id = outdated.id
  and (f.superseded_at is null
       or (f.superseded_by, f.superseded_reason) is distinct from (outdated.successor, outdated.reason))

-- name: delete_unsupported
-- Facts of the reconciled attributes that no evidence supports any more.
delete from fact where agent = %(agent)s and trust <> 'person' and not (id = any(%(kept)s))
  and (level, coalesce(project, peer, ''), subject, predicate) in (
      select * from unnest(%(level)s::text[], %(owner)s::text[], %(subject)s::text[], %(predicate)s::text[])
  )
  and not exists (select from candidate c where c.id = any(fact.evidence) and c.revision > 0)

-- name: corrections
-- What persons told an agent's memory: the values to forget, and the facts that they stated.
select agent, level, project, peer, subject, predicate, value, fact_id, false as is_stated, created_at as at from tombstone
where agent = %(agent)s
union all
select agent, level, project, peer, subject, predicate, value, id, true, recorded_at from fact
where agent = %(agent)s and trust = 'person' and superseded_at is null

-- name: add_tombstone
insert into tombstone (fact_id, agent, level, project, peer, subject, predicate, value, created_at)
values (%(id)s, %(agent)s, %(level)s, %(project)s, %(peer)s, %(subject)s, %(predicate)s, %(value)s, %(now)s)
on conflict (fact_id) do update set created_at = excluded.created_at where tombstone.created_at < excluded.created_at

-- name: add_forgotten
-- A tombstone for what the log says was forgotten, unless the log of the same owner says that this was taken back later.
insert into tombstone (fact_id, agent, level, project, peer, subject, predicate, value, created_at)
select %(id)s, %(agent)s, %(level)s, %(project)s, %(peer)s, %(subject)s, %(predicate)s, %(value)s, %(now)s
where not exists (
    select from session s join event e on e.session_id = s.id
    where s.key = concat(%(agent)s::text, ':memory:', %(peer)s::text, '@' || %(project)s::text)
      and e.event_type = 'PolicyDecision' and e.data ->> 'decision' = 'fact_restored'
      and e.data ->> 'fact_id' = %(id)s and (e.data ->> 'occurred_at')::timestamptz >= %(now)s
)
on conflict (fact_id) do update set created_at = excluded.created_at where tombstone.created_at < excluded.created_at

-- name: lift_tombstones
-- What a person has forgotten of a fact or of its value is taken back.
delete from tombstone
where (fact_id = %(id)s
       or (agent = %(agent)s and level = %(level)s and coalesce(project, peer, '') = %(owner)s
           and subject = %(subject)s and predicate = any(%(predicates)s::text[]) and value = %(value)s))
  and (%(before)s::timestamptz is null or created_at < %(before)s)

-- name: restore
-- Believes a fact again as it was; that it was not meanwhile is kept as a version.
with was as (
    insert into fact_version (fact_id, until, value, sentence, valid_from, valid_to, superseded_at, superseded_by,
                              superseded_reason)
    select id, %(now)s, value, sentence, valid_from, valid_to, superseded_at, superseded_by, superseded_reason from fact
    where id = %(id)s and superseded_at is not null
    on conflict do nothing
)
update fact set superseded_at = null, superseded_by = null, superseded_reason = null where id = %(id)s

-- name: touch_attribute
-- The facts of an attribute are made again: what a person told memory about it has changed.
update candidate set reconciled = false
where agent = %(agent)s and coalesce(as_subject, subject) = %(subject)s and level = %(level)s
  and coalesce(as_predicate, predicate) = any(%(predicates)s::text[]) and owner = %(owner)s
  and rejected is null and quarantined is null and active

-- name: supersede
update fact set superseded_at = coalesce(superseded_at, %(now)s), superseded_by = %(superseded_by)s,
                superseded_reason = case when %(superseded_by)s::text is null then 'forgotten' else 'replaced' end
where id = %(id)s

-- name: end_stated
update fact set superseded_at = %(now)s, superseded_by = %(superseded_by)s, superseded_reason = 'replaced'
where agent = %(agent)s and trust = 'person' and superseded_at is null
  and (level, coalesce(project, peer, ''), subject, predicate) in (
      select * from unnest(%(level)s::text[], %(owner)s::text[], %(subject)s::text[], %(predicate)s::text[])
  )

-- name: fact_of
-- The fact of these attributes that is believed and rests on a candidate.
select f.*
from unnest(%(level)s::text[], %(owner)s::text[], %(subject)s::text[], %(predicate)s::text[])
     as attribute (level, owner, subject, predicate)
join fact f on f.agent = %(agent)s and f.subject = attribute.subject and f.predicate = attribute.predicate
     and coalesce(f.project, f.peer, '') = attribute.owner and f.level = attribute.level
where f.superseded_at is null and %(candidate)s = any(f.evidence) limit 1

-- name: reopen_review
update candidate set rejected = null where id = %(id)s and quarantined is not null and rejected = %(rejected)s returning *

-- name: save_stated_fact
-- A fact that a person states in place of another; it has no other evidence.
with was as (
    insert into fact_version (fact_id, until, value, sentence, valid_from, valid_to, superseded_at, superseded_by,
                              superseded_reason)
    select id, %(now)s, value, sentence, valid_from, valid_to, superseded_at, superseded_by, superseded_reason from fact
    where id = %(new_id)s and superseded_at is not null
    on conflict do nothing
)
insert into fact (id, agent, project, peer, level, subject, predicate, value, sentence, kind, confidence, trust,
                  valid_from, recorded_at, sessions, evidence, cause)
values (%(new_id)s, %(agent)s, %(project)s, %(peer)s, %(level)s, %(subject)s, %(predicate)s, %(sentence)s, %(sentence)s,
        %(kind)s, 'explicit', 'person', %(valid_from)s, %(now)s, 0, '{}', 'person')
on conflict (id) do update set superseded_at = null, superseded_by = null, superseded_reason = null

-- name: quarantined
select c.*, s.origin, null::text as steer from candidate c left join session s on s.id = c.session_id
where c.quarantined is not null and c.rejected is null and (%(agents)s::text[] is null or c.agent = any(%(agents)s) or c.agent = 'all agents' and coalesce(c.project, '') = any(%(shared_in)s))
  and (%(at)s::timestamptz is null or c.occurred_at <= %(at)s and (c.occurred_at < %(at)s or c.id > %(last_id)s))
order by c.occurred_at desc, c.id limit %(limit)s

-- name: get_quarantined
select * from candidate where id = %(id)s and quarantined is not null and rejected is null

-- name: end_quarantine
-- Let a candidate out of quarantine, or reject it; return False where it is not in quarantine any more.
update candidate set quarantined = case when %(rejected)s::text is null then null else quarantined end,
       rejected = %(rejected)s, reconciled = false
where id = %(candidate_id)s and quarantined is not null and rejected is null

-- name: chain
-- A fact with those that took its place one after the other, and those whose place it took, the nearest first; the
-- sets are without repetitions, so that a circle of facts ends, too.
with recursive later as (
    select id, superseded_by from fact where id = %(id)s
    union
    select f.id, f.superseded_by from later l join fact f on f.id = l.superseded_by
),
earlier as (
    select id from fact where id = %(id)s
    union
    select f.id from earlier e join fact f on f.superseded_by = e.id
),
linked as (
    (select id from later limit %(limit)s)
    union
    (select id from earlier limit %(limit)s)
)
select f.id, f.sentence, f.valid_from, f.valid_to, f.recorded_at, f.superseded_at, f.superseded_by, f.superseded_reason,
       f.superseded_at is not null and exists (select from tombstone t where t.fact_id = f.id) as is_withdrawn
from fact f join linked on linked.id = f.id
order by f.valid_from, f.recorded_at, f.id

-- name: versions
-- What was believed of facts until they said something else, or held at other times.
select fact_id, until, sentence, valid_from, valid_to, superseded_at, superseded_by, superseded_reason from fact_version
where fact_id = any(%(ids)s) order by fact_id, until

-- name: in_use
-- Read by owner, from the index of candidates. Counted observations ("approval", "steer") are no relations that a model
-- may name. No more is read than a scope's names need.
select relation.name
from (
    select coalesce(c.as_predicate, c.predicate) as name
    from unnest(%(levels)s::text[], %(owners)s::text[]) as owned (level, owner)
    cross join lateral (
        select as_predicate, predicate, kind from candidate
        where agent = %(agent)s and level = owned.level and owner = owned.owner
          and rejected is null and quarantined is null and active
        limit %(read)s
    ) as c
    where c.predicate not in ('approval', 'steer')
) as relation
group by relation.name order by count(*) desc, relation.name collate "C" limit %(limit)s

-- name: project_words
-- What was said in the latest hundred sessions of a project, as recall has it.
select s.root_id, string_agg(left(e.text, 1000), ' ' order by e.seq) as text,
       coalesce(string_agg(left(e.text, 1000), ' ' order by e.seq) filter (where e.role = 'user'), '') as typed
from (
    select session_id from digest where agent = %(agent)s and coalesce(project, '') = %(project)s
    order by last_at desc, session_id desc limit 100
) latest
join session s on s.id = latest.session_id
join episode e on e.session_id = s.id
group by s.id, s.root_id order by s.id

-- name: observed
-- The latest observations of a project, which a question may show as known; also those that only one session showed, and
-- those held as being about the work in hand: another session may say them again.
-- What a person had forgotten is shown to no model.
select subject, predicate, value, sentence, session_id
from (
    select distinct on (subject, predicate, value) subject, predicate, value, sentence, session_id, occurred_at from candidate c
    where agent = %(agent)s and level = 'project' and owner = %(project)s and kind = 'observation'
      and rejected is null and (quarantined is null or quarantined = %(passing)s) and active
      and not exists (
          select from tombstone t
          where t.agent = c.agent and t.project = c.owner and t.subject = c.subject
            and btrim(t.value, $$ .,;:!?"'`$$) = btrim(c.value, $$ .,;:!?"'`$$)
      )
    order by subject, predicate, value, occurred_at desc
) as observation
order by occurred_at desc, sentence collate "C" limit %(limit)s


-- name: save_steer
insert into steer (session_id, seq, task, run_id) values (%(session_id)s, %(seq)s, %(task)s, %(run_id)s)
on conflict do nothing

-- name: save_task_outcome
insert into task_outcome (session_id, seq, task, outcome, run_id)
values (%(session_id)s, %(seq)s, %(task)s, %(outcome)s, %(run_id)s)
on conflict do nothing

-- name: renew_steers
-- What became of these steers was learned by the run that learned of the end of their task.
update steer s set run_id = ended.run_id
from unnest(%(session_id)s::text[], %(task)s::text[], %(seq)s::bigint[], %(run_id)s::text[])
     as ended (session_id, task, seq, run_id)
where s.session_id = ended.session_id and s.task = ended.task and s.seq < ended.seq

-- name: reconcile_steered
-- What was read in these steers, and in the steers of tasks that ended, has perhaps another outcome than before.
update candidate c set reconciled = false
from (
    select * from unnest(%(steer_sessions)s::text[], %(steer_seqs)s::bigint[]) as said (session_id, seq)
    union
    select s.session_id, s.seq
    from unnest(%(task_sessions)s::text[], %(tasks)s::text[]) as ended (session_id, task)
    join steer s on s.session_id = ended.session_id and s.task = ended.task
) as steered
where c.session_id = steered.session_id and c.seq = steered.seq and c.reconciled and c.active

-- name: delete_steers
delete from steer where session_id = %(session)s and seq > %(after)s

-- name: delete_outcomes
delete from task_outcome where session_id = %(session)s and seq > %(after)s

-- name: sums
-- Return the sums of what runs that started since a moment learned.
select count(*) as steers, count(*) filter (where ended.outcome = 'succeeded') as succeeded,
       count(*) filter (where ended.outcome = 'failed') as failed
from run r
join steer on steer.run_id = r.id
join session s on s.id = steer.session_id and not s.simulated
left join lateral (
    select o.outcome from task_outcome o
    where o.session_id = steer.session_id and o.task = steer.task and o.seq > steer.seq order by o.seq limit 1
) as ended on true
where r.started_at >= %(since)s
  and (%(agent)s::text is null or s.agent = %(agent)s) and (%(project)s::text is null or s.project = %(project)s)
