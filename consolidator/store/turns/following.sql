-- name: mark_followed
-- Writers notify of a session's commits until then. The row's lock orders the mark and each commit: what did not see
-- the mark is in the log when the mark is set.
update session set followed_until = clock_timestamp() + make_interval(secs => %(seconds)s)
from (select id from session where id = any(%(ids)s::text[]) order by id collate "C" for no key update) as locked
where session.id = locked.id
returning session.id

-- name: read_marks
select id, head, status, pending, settled_to, error, origin is not null as is_imported,
       array(select jsonb_object_keys(attention) order by 1) as waiting_calls
from session where id = any(%(ids)s::text[])

-- name: find_last_mark
-- The last event up to a seq that begins or ends a message.
select e.id, e.session_id, e.seq, e.event_type, e.data, e.created_at, e.consolidated_at, e.task_id, e.tool_name,
       e.principal
from event e
where e.session_id = %(session)s and e.seq <= %(upto)s and e.seq > %(after)s
  and e.created_at >= %(low)s and e.created_at <= %(high)s
  and (e.event_type in ('ThinkingStart', 'AssistantResponse')
       or e.data ? 'notice_id' or e.event_type = 'Error' and e.data ? 'message_id'
       or e.event_type = 'PolicyDecision' and e.data ->> 'decision' in ('generation_replaced', 'turn_interrupted'))
order by e.seq desc limit 1

-- name: read_pieces
-- The next chunks of a message.
select c.message_id, c.seq, c.delta, c.started_seq, c.after_seq from generation_chunk c
where c.session_id = %(session)s and c.message_id = %(message)s and c.seq > %(after)s and c.created_at >= %(low)s
order by c.seq limit %(limit)s

-- name: acknowledge
-- What a surface has of the messages that began up to an event: of the message that is open there, so many pieces.
insert into delivery (session_id, message_id, channel, upto_seq, started_seq, sent_at, hash)
select %(session)s, c.message_id, %(surface)s, max(c.seq), min(c.started_seq), %(now)s,
       hash_output(%(session)s, c.message_id, %(surface)s, null, max(c.seq), min(c.started_seq), null, %(now)s)
from generation_chunk c
where c.session_id = %(session)s and c.created_at >= %(low)s and c.started_seq <= %(upto)s
  and c.started_seq >= greatest(%(upto)s::bigint - %(reach)s,
                                (select coalesce(max(d.started_seq), 0) from delivery d
                                 where d.session_id = %(session)s and d.channel = %(surface)s))
  and (c.message_id is distinct from %(open_message)s::text or c.seq <= %(piece)s)
group by c.message_id
on conflict do nothing
