-- name: get_answer
select text from model_answer where key = %(key)s

-- name: save_answer
insert into model_answer (key, purpose, model, text, run_id, session_id, created_at)
values (%(key)s, %(purpose)s, %(model)s, %(text!)s, %(run_id)s, %(session_id)s, %(now)s)
on conflict (key) do update
set text = excluded.text, run_id = excluded.run_id, session_id = excluded.session_id, created_at = excluded.created_at

-- name: list_answered
-- Return those keys of questions that have a stored answer.
select key from model_answer where key = any(%(keys)s)

-- name: delete_answer
delete from model_answer where key = %(key)s

-- name: lock_budget
-- Replicas of a run reserve one after another, so that no two of them spend the same money.
select pg_advisory_xact_lock(hashtextextended('consolidator.budget:' || %(run)s, 0))

-- name: spending
-- What was settled, and the reserves of calls that are not settled.
select coalesce(sum(case when settled_at is null then reserved_tokens else input_tokens + output_tokens end), 0)::bigint as tokens,
       coalesce(sum(case when settled_at is null then reserved_cost else cost end), 0) as cost
from model_call where run_id = %(run)s

-- name: day
select count(*) filter (where settled_at is null or input_tokens > 0) as calls,
       coalesce(sum(case when settled_at is null then reserved_tokens else input_tokens + output_tokens end), 0)::bigint as tokens
from model_call where model = %(model)s and created_at >= %(since)s

-- name: reserve
insert into model_call (id, run_id, session_id, purpose, model, key, reserved_tokens, reserved_cost, created_at)
values (%(id)s, %(run_id)s, (select id from session where id = %(session_id)s), %(purpose)s, %(model)s, %(key)s,
        %(reserved_tokens)s, %(reserved_cost)s, %(created_at)s)

-- name: settle
update model_call
set input_tokens = %(input_tokens)s, cached_tokens = %(cached_tokens)s, output_tokens = %(output_tokens)s,
    cost = %(cost)s, outcome = %(outcome)s, settled_at = %(now)s
where id = %(id)s and settled_at is null

-- name: release
-- Settles a call without an answer: for nothing, or for its reserve if the server may have charged for it.
update model_call
set settled_at = %(now)s, outcome = %(outcome)s, input_tokens = case when %(may_be_charged)s then reserved_tokens else 0 end,
    cost = case when %(may_be_charged)s then reserved_cost when reserved_cost is not null then 0 end
where id = %(call_id)s and settled_at is null

-- name: set_outcome
update model_call set outcome = %(outcome)s where id = %(id)s

-- name: totals
-- Return what the calls of a run used together, over all replicas.
select count(*) as calls, coalesce(sum(input_tokens), 0)::bigint as input_tokens,
       coalesce(sum(cached_tokens), 0)::bigint as cached_tokens, coalesce(sum(output_tokens), 0)::bigint as output_tokens,
       sum(case when settled_at is null then reserved_cost else cost end) as cost
from model_call where run_id = %(run_id)s

-- name: failures
select outcome, count(*) from model_call
where run_id = %(run)s and outcome like 'failed:%%' group by outcome order by count(*) desc, outcome limit 5

-- name: outage
-- The last reason why a run's calls found no model, if none of them was answered; vectors have a model of their own.
select f.outcome from model_call f
where f.run_id = %(run)s and f.outcome like 'failed: ModelUnavailable:%%'
  and not exists (
      select from model_call a
      where a.run_id = %(run)s and (a.purpose = 'embed') = (f.purpose = 'embed') and a.settled_at is not null
        and a.outcome not like 'failed: ModelUnavailable:%%'
  )
order by f.created_at desc, f.id desc limit 1

-- name: prune
-- Answers and questions serve retries within a few nights.
with questions as (delete from model_question where created_at < %(before)s and status in ('answered', 'failed'))
delete from model_answer where created_at < %(before)s

-- name: get_question_status
-- Return the status of a question; None where it was never put into a batch.
select status from model_question where key = %(key)s

-- name: queue
insert into model_question (key, purpose, model, body, run_id, session_id, call_id, created_at)
values (%(key)s, %(purpose)s, %(model)s, %(body)s, %(run_id)s, %(session_id)s, %(call_id)s, %(created_at)s)
on conflict (key) do nothing

-- name: lock_queued
-- Each question is taken by one replica.
select * from model_question where status = 'queued' order by created_at, key limit %(limit)s for update skip locked

-- name: save_batch
insert into model_batch (id, status, submitted_at, due_at) values (%(id)s, %(status)s, %(now)s, %(due)s)

-- name: assign_questions
update model_question set status = 'submitted', batch_id = %(batch)s where key = any(%(keys)s)

-- name: list_open
select * from model_batch where collected_at is null order by submitted_at, id

-- name: set_provider_id
update model_batch set id = %(new_id)s, status = %(status)s, due_at = %(due)s where id = %(id)s and collected_at is null

-- name: move_questions
update model_question set batch_id = %(new_id)s where batch_id = %(id)s

-- name: list_unanswered
select * from model_question where batch_id = %(batch)s and status = 'submitted' order by key

-- name: finish_question
update model_question set status = %(status)s, body = '{}' where key = %(key)s

-- name: mark_collected
-- Only the first replica collects a batch.
update model_batch set status = %(status)s, collected_at = %(now)s where id = %(batch_id)s and collected_at is null

-- name: count_pending
select count(*) from model_question where status in ('queued', 'submitted')

-- name: take_turn
-- Takes the next turn of a rate that all processes share; returns in how many seconds it comes. Turns are as far apart
-- as the rate says, by the database's clock; one that nobody took is lost.
with turn as (
    insert into setting (name, value) values ('model_turn', convert_to(extract(epoch from clock_timestamp())::text, 'UTF8'))
    on conflict (name) do update set value = convert_to(greatest(
        convert_from(setting.value, 'UTF8')::numeric + %(seconds)s::numeric, extract(epoch from clock_timestamp()))::text, 'UTF8')
    returning convert_from(value, 'UTF8')::numeric as at
)
select greatest(at - extract(epoch from clock_timestamp()), 0)::double precision from turn


-- name: unread_sessions
select id from session
where greatest(extracted_to, pruned_to) < consolidated_to and not simulated order by agent, id

-- name: shareable
-- Sessions of one scope, in order, that a model may read together: not where it has stopped in the middle of what rules have read, and
-- none of a sub-agent, whose user is an agent.
with member as (
    select id, agent, project, peer, (row_number() over (partition by agent, project, peer order by id) - 1) / %(size)s as part
    from session
    where id = any(%(ids)s) and not simulated and kind <> 'sub-agent'
      and (greatest(extracted_to, pruned_to) >= consolidated_to or extracted_to <= pruned_to)
)
select min(id) as first, array_agg(id order by id) as ids from member
group by agent, project, peer, part having count(*) > 1 order by first

-- name: advance
-- Changes nothing if another run has moved the watermark meanwhile.
update session set extracted_to = %(upto)s where id = %(id)s and extracted_to = %(after)s

-- name: finish_waiting
-- The model has read all that rules have learned from.
update session set awaits_model = false
where id = %(id)s and awaits_model and greatest(extracted_to, pruned_to) >= consolidated_to

-- name: list_waiting
select id from session where awaits_model order by id

-- name: stop_waiting
update session set awaits_model = false where id = %(id)s and awaits_model
