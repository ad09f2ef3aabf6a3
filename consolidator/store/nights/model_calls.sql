-- name: get_answer
select text from model_answer where key = %(key)s

-- name: save_answer
insert into model_answer (key, purpose, model, text, run_id, session_id, created_at)
values (%(key)s, %(purpose)s, %(model)s, %(text)s, %(run)s, %(session)s, %(now)s)
on conflict (key) do update
set text = excluded.text, run_id = excluded.run_id, session_id = excluded.session_id, created_at = excluded.created_at

-- name: list_answered
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
set settled_at = %(now)s, outcome = %(outcome)s, input_tokens = case when %(charged)s then reserved_tokens else 0 end,
    cost = case when %(charged)s then reserved_cost when reserved_cost is not null then 0 end
where id = %(id)s and settled_at is null

-- name: set_outcome
update model_call set outcome = %(outcome)s where id = %(id)s

-- name: totals
select count(*) as calls, coalesce(sum(input_tokens), 0)::bigint as input_tokens,
       coalesce(sum(cached_tokens), 0)::bigint as cached_tokens, coalesce(sum(output_tokens), 0)::bigint as output_tokens,
       sum(case when settled_at is null then reserved_cost else cost end) as cost
from model_call where run_id = %(run)s

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
