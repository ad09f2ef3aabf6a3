-- name: load_view
-- A session, and the fold of its past, by its steps or, where it goes further, by the nights.
select s.*,
       v.upto, v.summary, coalesce(v.compaction_seq, 0) as compaction_seq, v.compaction,
       coalesce(v.scratchpad_seq, 0) as scratchpad_seq, v.scratchpad,
       d.summary as learned
from session s
left join session_view v on v.session_id = s.id
left join digest d on d.session_id = s.id and coalesce(v.upto, 0) < s.consolidated_to
     and not exists (select from session_lineage l where l.session_id = s.id)  -- the nights read its own events alone
where s.id = %(session)s

-- name: keep_further
-- A part of each statement that stores a fold: of two concurrent folds the further one stays.
on conflict (session_id) do update
set summary = case when excluded.upto >= session_view.upto then excluded.summary else session_view.summary end,
    compaction = case when excluded.compaction_seq > session_view.compaction_seq then excluded.compaction
                      else session_view.compaction end,
    scratchpad = case when excluded.scratchpad_seq > session_view.scratchpad_seq then excluded.scratchpad
                      else session_view.scratchpad end,
    upto = greatest(session_view.upto, excluded.upto),
    compaction_seq = greatest(session_view.compaction_seq, excluded.compaction_seq),
    scratchpad_seq = greatest(session_view.scratchpad_seq, excluded.scratchpad_seq)

-- name: save_view
insert into session_view (session_id, upto, summary, compaction_seq, compaction, scratchpad_seq, scratchpad)
values (%(session)s, %(upto)s, %(summary)s, %(compaction_seq)s, %(compaction)s, %(scratchpad_seq)s, %(scratchpad!)s)
-- include: keep_further

-- name: read_last_user_message
-- A person's last message before a window.
select e.id, e.session_id, e.seq, e.event_type, e.data, e.created_at, e.consolidated_at, e.task_id, e.tool_name,
       e.principal
from event e
where e.session_id = %(session)s and e.seq > %(after)s and e.seq <= %(upto)s
  and e.created_at >= %(low)s and e.created_at <= %(high)s
  and e.event_type = 'UserMessage' and coalesce(e.data ->> 'origin', 'user') = 'user'
order by e.seq desc
limit %(limit)s

-- name: count_compaction
update session set compactions = compactions + 1 where id = %(session)s

-- name: read_chunks
-- The chunks of messages that began within a span of a session, in order, and how far each message reached a channel.
select c.message_id, c.seq, c.delta, c.started_seq, c.after_seq, c.created_at, coalesce(d.upto, 0) as reached
from generation_chunk c
left join lateral (
    select max(upto_seq) as upto from delivery
    where session_id = c.session_id and message_id = c.message_id and channel = %(channel)s
) d on true
where c.session_id = %(session)s and c.started_seq > %(after)s and c.started_seq <= %(upto)s
  and c.created_at >= %(low)s
order by c.started_seq, c.seq

-- name: has_deliveries
select exists (select from delivery where session_id = %(session)s and channel = %(channel)s) as reached

-- name: read_compactions
-- A session's compactions, the latest last.
select e.id, e.session_id, e.seq, e.event_type, e.data, e.created_at, e.consolidated_at, e.task_id, e.tool_name,
       e.principal
from event e
where e.session_id = %(session)s and e.event_type = 'PolicyDecision' and e.data ->> 'decision' = 'compaction'
order by e.seq

-- name: find_scratchpad_setter
-- Who set a scratchpad by an event and when, and whether the model was asked after it.
select e.principal, e.created_at, exists (
    select from event t
    where t.session_id = e.session_id and t.seq > e.seq and t.created_at >= e.created_at
      and t.event_type = 'ThinkingStart'
) as was_shown
from event e where e.session_id = %(session)s and e.seq = %(seq)s
