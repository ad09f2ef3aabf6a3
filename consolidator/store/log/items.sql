-- name: find_recorded
-- The open session that a client or library has under a key; one that has ended is not continued.
select * from session where key = %(key)s and recorded_by = %(recorded_by)s and current and status = 'open'

-- name: read_backwards
-- The latest events up to a seq, the last first; the bounds on created_at let the planner skip partitions.
select e.id, e.session_id, e.seq, e.event_type, e.data, e.created_at, e.consolidated_at, e.task_id, e.tool_name,
       e.principal
from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.created_at >= %(low)s and e.created_at <= %(high)s
order by e.seq desc
limit %(limit)s
