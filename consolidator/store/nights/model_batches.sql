-- name: get_question_status
select status from model_question where key = %(key)s

-- name: queue
insert into model_question (key, purpose, model, body, run_id, session_id, call_id, created_at)
values (%(key)s, %(purpose)s, %(model)s, %(body)s, %(run_id)s, %(session_id)s, %(call_id)s, %(now)s)
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
update model_batch set status = %(status)s, collected_at = %(now)s where id = %(id)s and collected_at is null

-- name: count_pending
select count(*) from model_question where status in ('queued', 'submitted')
