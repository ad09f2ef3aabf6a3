-- name: answer
select * from model_answer where key = %(key)s

-- name: save_answer
insert into model_answer (key, purpose, model, text, run_id, created_at)
values (%(key)s, %(purpose)s, %(model)s, %(text)s, %(run)s, %(now)s)
on conflict (key) do update set text = excluded.text, run_id = excluded.run_id, created_at = excluded.created_at

-- name: drop_answer
delete from model_answer where key = %(key)s

-- name: lock_budget
-- Replicas of a run reserve one after another, so that no two spend the same last cent.
select pg_advisory_xact_lock(hashtextextended('consolidator.budget:' || %(run)s, 0))

-- name: spent
-- What a run has spent: what was settled, and the reserve of what was not.
select coalesce(sum(case when settled_at is null then reserved_tokens else input_tokens + output_tokens end), 0)::bigint as tokens,
       coalesce(sum(case when settled_at is null then reserved_cost else cost end), 0) as cost
from model_call where run_id = %(run)s

-- name: reserve
insert into model_call (id, run_id, session_id, purpose, model, key, reserved_tokens, reserved_cost, created_at)
values (%(id)s, %(run)s, (select id from session where id = %(session)s), %(purpose)s, %(model)s, %(key)s, %(tokens)s, %(cost)s, %(now)s)

-- name: settle
update model_call
set input_tokens = %(input_tokens)s, cached_tokens = %(cached_tokens)s, output_tokens = %(output_tokens)s,
    cost = %(cost)s, outcome = %(outcome)s, settled_at = %(now)s
where id = %(id)s and settled_at is null

-- name: outcome
update model_call set outcome = %(outcome)s where id = %(id)s

-- name: totals
select count(*) as calls, coalesce(sum(input_tokens), 0)::bigint as input_tokens,
       coalesce(sum(cached_tokens), 0)::bigint as cached_tokens, coalesce(sum(output_tokens), 0)::bigint as output_tokens,
       sum(case when settled_at is null then reserved_cost else cost end) as cost,
       count(*) filter (where settled_at is null) as open
from model_call where run_id = %(run)s

-- name: failures
select outcome, count(*) from model_call
where run_id = %(run)s and outcome like 'failed:%%' group by outcome order by count(*) desc, outcome limit 5

-- name: question
select * from model_question where key = %(key)s

-- name: queue
insert into model_question (key, purpose, model, body, run_id, session_id, call_id, created_at)
values (%(key)s, %(purpose)s, %(model)s, %(body)s, %(run)s, %(session)s, %(call)s, %(now)s)
on conflict (key) do nothing

-- name: queued
-- What waits for a batch; each is taken by one replica.
select * from model_question where status = 'queued' order by created_at, key limit %(limit)s for update skip locked

-- name: submitted
update model_question set status = 'submitted', batch_id = %(batch)s where key = any(%(keys)s)

-- name: save_batch
insert into model_batch (id, status, submitted_at, due_at) values (%(id)s, %(status)s, %(now)s, %(due)s)

-- name: open_batches
select * from model_batch where collected_at is null order by submitted_at, id

-- name: rename_batch
update model_batch set id = %(new)s, status = %(status)s, due_at = %(due)s where id = %(id)s and collected_at is null

-- name: rename_questions
update model_question set batch_id = %(new)s where batch_id = %(id)s

-- name: questions_of
select * from model_question where batch_id = %(batch)s and status = 'submitted' order by key

-- name: end_question
update model_question set status = %(status)s, body = '{}' where key = %(key)s

-- name: take_batch
-- Whoever is first collects it.
update model_batch set status = %(status)s, collected_at = %(now)s where id = %(id)s and collected_at is null

-- name: awaited
select count(*) as questions, count(distinct session_id) as sessions from model_question where status in ('queued', 'submitted')

-- name: release_call
-- A call that gave nothing gives its reserve back, unless the server may have charged for it.
update model_call
set settled_at = %(now)s, outcome = %(outcome)s, input_tokens = case when %(paid)s then reserved_tokens else 0 end,
    cost = case when %(paid)s then reserved_cost when reserved_cost is not null then 0 end
where id = %(id)s and settled_at is null

-- name: prune
-- Answers serve retries of the same night's questions, and a few nights after it.
with asked as (delete from model_question where created_at < %(before)s and status in ('answered', 'failed'))
delete from model_answer where created_at < %(before)s
