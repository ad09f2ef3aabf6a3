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
from unnest(%(task_sessions)s::text[], %(tasks)s::text[], %(seqs)s::bigint[], %(runs)s::text[])
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
