-- name: list_tasks
-- A session's tasks, the latest first; with %(task)s that one only. Both ends are found by the index over task events.
select s.data ->> 'task_id' as id, coalesce(s.data ->> 'goal', '') as title, s.seq as started_seq,
       s.created_at as started_at, s.principal as started_by, e.seq as ended_seq, e.created_at as ended_at,
       e.principal as ended_by, coalesce(e.data ->> 'outcome', case when e.seq is not null then 'unknown' end) as outcome,
       e.data ->> 'note' as note
from event s
left join lateral (
    select * from event e
    where e.session_id = s.session_id and e.seq > s.seq and e.event_type in ('TaskStart', 'TaskEnd')
      and e.event_type = 'TaskEnd' and e.data ->> 'task_id' = s.data ->> 'task_id'
    order by e.seq limit 1
) e on true
where s.session_id = %(session)s and s.event_type in ('TaskStart', 'TaskEnd') and s.event_type = 'TaskStart'
  and (%(task)s::text is null or s.data ->> 'task_id' = %(task)s)
order by s.seq desc
limit %(limit)s

-- name: count_steers
-- How often people steered in parts of a session's own log; an open task's part has no end.
select count(e.seq) as steers
from unnest(%(started)s::bigint[], %(ended)s::bigint[]) with ordinality as part (started, ended, number)
left join event e on e.session_id = %(session)s and e.seq > part.started and e.seq <= coalesce(part.ended, %(head)s)
                 and e.event_type = 'UserMessage' and e.data ->> 'mode' = 'steer'
group by part.number order by part.number

-- name: get_open_task
-- The task that is open in a session; its start may be pruned.
select n.open_task as id, coalesce(s.data ->> 'goal', '') as title, s.seq as started_seq, s.created_at as started_at,
       s.principal as started_by, null::bigint as ended_seq, null::timestamptz as ended_at, null::text as ended_by,
       null::text as outcome, null::text as note
from session n
left join event s on s.session_id = n.id and s.event_type in ('TaskStart', 'TaskEnd') and s.event_type = 'TaskStart'
                 and s.data ->> 'task_id' = n.open_task
where n.id = %(session)s and n.open_task is not null
order by s.seq desc
limit 1

-- name: find_last_task_event
-- What opened or ended a task last in a part of a log.
select e.seq, e.event_type, e.data ->> 'task_id' as task_id from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.event_type in ('TaskStart', 'TaskEnd')
order by e.seq desc
limit 1

-- name: read_task_events
-- What opens and ends tasks in a part of a log.
select e.seq, e.event_type, e.data ->> 'task_id' as task_id from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.event_type in ('TaskStart', 'TaskEnd')
order by e.seq
limit %(limit)s
