-- name: list_ranges
-- What a session reads of its ancestors, the farthest first, and what is left of it.
select l.ancestor_id as session_id, l.after_seq, l.upto_seq, l.shift, a.pruned_to, a.created_at, a.last_event_at
from session_lineage l left join session a on a.id = l.ancestor_id
where l.session_id = %(session)s
order by l.position

-- name: inherit_past
-- What a session reads follows from its row and its parent's past.
select inherit_past(%(session)s)

-- name: set_past
select set_past(%(session)s, %(source)s, %(seq)s)

-- name: lock_ancestors
-- Keeps sessions from being erased, pruned or appended to until a child of theirs is there; in the order of all locks.
select id from session where id = any(%(ids)s) order by id collate "C" for share

-- name: read_skeletons
-- What decides whether anything is open in a window: no texts, arguments or results.
select e.id, e.session_id, e.seq, e.event_type, e.created_at, e.consolidated_at, e.task_id, e.tool_name, e.principal,
       jsonb_strip_nulls(jsonb_build_object(
           'call_id', e.data -> 'call_id', 'message_id', e.data -> 'message_id', 'decision', e.data -> 'decision',
           'upto_seq', e.data -> 'upto_seq', 'held', e.data -> 'held', 'again', e.data -> 'again',
           'mode', e.data -> 'mode', 'origin', e.data -> 'origin', 'call_ids', e.data -> 'call_ids',
           'limit', e.data -> 'limit')) as data
from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.created_at >= %(low)s and e.created_at <= %(high)s
order by e.seq

-- name: read_latest
-- The latest events of some types in a part of a log, the last first.
select e.id, e.session_id, e.seq, e.event_type, e.data, e.created_at, e.consolidated_at, e.task_id, e.tool_name,
       e.principal
from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.created_at >= %(low)s and e.created_at <= %(high)s and e.event_type = any(%(types)s)
order by e.seq desc
limit %(limit)s

-- name: find_mark
-- The latest compaction (that says what it kept) or scratchpad of a part of a log.
select e.id, e.session_id, e.seq, e.event_type, e.data, e.created_at, e.consolidated_at, e.task_id, e.tool_name,
       e.principal
from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.created_at >= %(low)s and e.created_at <= %(high)s
  and e.event_type = 'PolicyDecision' and e.data ->> 'decision' in ('compaction', 'scratchpad_set')
  and e.data ->> 'decision' = %(decision)s
  and (%(decision)s <> 'compaction' or jsonb_typeof(e.data -> 'kept_from') = 'number')
order by e.seq desc
limit 1

-- name: read_state_patches
-- The changes of the state in a part of a log, the latest first.
select e.id, e.session_id, e.seq, e.event_type, e.data, e.created_at, e.consolidated_at, e.task_id, e.tool_name,
       e.principal
from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.created_at >= %(low)s and e.created_at <= %(high)s
  and (e.data ? 'state_patch' or e.data -> 'data_ref' ?| array['state_patch', '*'])
order by e.seq desc
limit %(limit)s

-- name: find_hash
-- The hash of an event, also if it is the last one that was pruned; no row where the event is gone.
select e.hash from event e
where e.session_id = %(session)s and e.seq = %(seq)s and e.created_at >= %(low)s and e.created_at <= %(high)s
union all
select s.pruned_hash from session s where s.id = %(session)s and s.pruned_to = %(seq)s
limit 1

-- name: create_child
insert into session (id, key, conversation_id, agent, channel, peer, project, parent_id, parent_seq, root_id, kind,
                     simulated, model, state, open_task, config, max_cost, base_seq, head, consolidated_to, extracted_to, pruned_to,
                     settled_to, delivered_to, chain_hash, pruned_hash, created_at, last_event_at, last_occurred_at,
                     expires_at)
values (%(id)s, %(key)s, %(conversation_id)s, %(agent)s, %(channel)s, %(peer)s, %(project)s, %(parent_id)s,
        %(parent_seq)s, %(root_id)s, %(kind)s, %(simulated)s, %(model)s, %(state)s, %(open_task)s, %(config)s, %(max_cost)s,
        %(base_seq)s, %(base_seq)s, %(base_seq)s, %(base_seq)s, %(base_seq)s, 0, %(base_seq)s, %(chain_hash)s,
        %(chain_hash)s, %(now)s, %(now)s, '0001-01-01 00:00:00+00', %(expires_at)s)

-- name: find_called
-- The sub-agent that came of a call.
select id from session
where trigger_type in ('spawn', 'spawn_agent') and trigger_id = %(call)s and parent_id = %(parent)s

-- name: lock_branch_name
-- Until the transaction ends, nobody else makes a branch of this name.
select pg_advisory_xact_lock(hashtextextended('branch:' || %(parent)s || ':' || %(name)s, 0))

-- name: find_named_branch
select id from session
where trigger_type in ('sim', 'pre_steer', 'dream') and trigger_id = %(name)s and parent_id = %(parent)s
  and kind = 'branch'

-- name: list_unfinished_steers
select id from session
where parent_id = %(parent)s and kind = 'branch' and config ->> 'branch_kind' = 'pre_steer' and pending
  and status = 'open'
order by created_at desc, id desc limit 20

-- name: mark_committed
update session set config = config || jsonb_build_object('committed_seq', %(seq)s::bigint) where id = %(session)s

-- name: list_unfinished
-- The sub-agents of a session whose end its log does not have yet, the oldest first.
select id, trigger_type, trigger_id from session
where parent_id = %(parent)s and config ? 'unfinished' and kind = 'sub-agent' order by created_at, id

-- name: list_unfinished_among
select id from session where id = any(%(ids)s) and config ? 'unfinished' and kind = 'sub-agent' order by id

-- name: list_abandoned
-- Sub-agents that nobody will finish but who wakes their parent: they or their parent have ended, or nothing is open in
-- them. Over an index.
select c.id, p.status <> 'open' as parent_ended, c.status <> 'open' as ended
from session c join session p on p.id = c.parent_id
where c.config ? 'unfinished' and c.kind = 'sub-agent' and c.id > %(after)s
  and (p.status <> 'open' or c.status <> 'open' or not c.pending and c.lease_owner is null and c.origin is null)
order by c.id limit %(limit)s

-- name: finish
-- The end of a sub-agent is in its parent's log: whoever drives it yet is fenced.
update session
set config = config - 'unfinished', lease_epoch = lease_epoch + 1, lease_owner = null, lease_until = null
where id = %(session)s

-- name: set_marks
-- Set up to where nothing is open in a new child, and whether a wake has to look at it; nothing is to deliver.
-- Drivers leave it alone until `wake_after`.
update session set settled_to = %(settled_to)s, delivered_to = head, pending = %(pending)s, wake_after = %(wake_after)s
where id = %(session_id)s
returning case when pending then pg_notify('consolidator_pending', id) end

-- name: count_events
-- How many events of each type, and calls of each tool, a part of a log has.
select e.event_type, case when e.event_type = 'ToolCall' then e.tool_name end as tool_name, count(*) as events
from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.created_at >= %(low)s and e.created_at <= %(high)s
group by 1, 2
order by 1, 2

-- name: find_unlinked
-- An imported session, and imported ones that read on from it, that read nothing of others yet although the point is known.
select s.id, coalesce(s.past_id, s.parent_id) as source_id from session s
where (s.id = %(session)s or s.parent_id = %(session)s or s.past_id = %(session)s)
  and s.origin is not null and s.kind <> 'sub-agent'
  and coalesce(s.past_id, s.parent_id) is not null and coalesce(s.past_seq, s.parent_seq) > 0
  and not exists (select from session_lineage l where l.session_id = s.id)
order by s.id <> %(session)s, s.id

-- name: find_past
-- What is needed of a session to read its past.
select id, parent_id, past_id, kind, base_seq, pruned_to, created_at, last_event_at from session where id = %(session)s
