-- name: append_chunks
-- Chunks of a message, fenced by the epoch: the shared lock keeps another harness from acquiring the session meanwhile,
-- and any event from coming in between.
with fenced as (
    select id, head from session where id = %(session)s and lease_epoch = %(epoch)s for share
)
insert into generation_chunk (session_id, message_id, seq, started_seq, delta, created_at, after_seq, hash)
select fenced.id, %(message)s, %(after)s + new.n, %(started)s, new.delta, %(now)s, fenced.head,
       hash_output(fenced.id, %(message)s, null, new.delta, %(after)s + new.n, %(started)s, fenced.head, %(now)s)
from fenced cross join unnest(%(deltas)s::text[]) with ordinality as new (delta, n)
returning seq

-- name: read_chunks
-- The chunks of a message.
select c.message_id, c.seq, c.delta, c.started_seq from generation_chunk c
where c.session_id = %(session)s and c.message_id = %(message)s and c.seq > %(after)s and c.created_at >= %(low)s
order by c.seq

-- name: record_delivery
-- A channel acknowledged a message up to here; idempotent. Not fenced by the epoch: a zombie did send, too.
insert into delivery (session_id, message_id, channel, upto_seq, started_seq, sent_at, hash)
select id, %(message)s, %(channel)s, %(upto)s, %(started)s, %(now)s,
       hash_output(id, %(message)s, %(channel)s, null, %(upto)s, %(started)s, null, %(now)s)
from session where id = %(session_id)s
on conflict do nothing

-- name: get_delivered_seq
-- Return the seq of the last chunk of a message that a channel acknowledged, 0 if none.
select coalesce(max(upto_seq), 0) as upto from delivery
where session_id = %(session_id)s and message_id = %(message)s and channel = %(channel)s

-- name: is_shown_whole
-- Whether nobody is owed the rest of a message: the session's channel has it whole or, if that never acknowledged
-- anything, some surface has, or the session names no channel.
select coalesce(max(upto) filter (where not uses_channel or channel = %(channel)s), 0) >= length
    or %(nameless)s and not uses_channel as shown
from (
    select coalesce(bool_or(channel = %(channel)s), false) as uses_channel from delivery where session_id = %(session)s
) as used, (
    select coalesce(max(c.seq), 0) as length from generation_chunk c
    where c.session_id = %(session)s and c.message_id = %(message)s and c.created_at >= %(low)s
) as written left join (
    select channel, max(upto_seq) as upto from delivery
    where session_id = %(session)s and message_id = %(message)s group by channel
) as reached on true
group by length, uses_channel

-- name: list_answers
-- Answers and notices after a seq, and how far each reached a channel; the oldest first.
-- `void_id` is a message with chunks that an event gives up: what was shown of it no longer counts.
with answers as (
    select e.seq, e.created_at,
           case e.event_type when 'Error' then e.data ->> 'notice_id'
                             when 'AssistantResponse' then e.data ->> 'message_id' end as message_id,
           case when e.event_type <> 'AssistantResponse' then e.data ->> 'message_id' end as given_up
    from event e
    where e.session_id = %(session)s and e.seq > %(after)s
      and (e.event_type in ('AssistantResponse', 'Error')
           or e.event_type = 'PolicyDecision' and e.data ->> 'decision' = 'generation_replaced')
      and e.created_at >= %(low)s and e.created_at <= %(high)s
), voids as (
    select answers.seq, answers.created_at, answers.message_id, case when exists (
        select from generation_chunk c
        where c.session_id = %(session)s and c.message_id = answers.given_up and c.created_at >= %(low)s
    ) then answers.given_up end as void_id
    from answers
)
select voids.seq, voids.created_at, voids.message_id, voids.void_id, (
    select max(d.upto_seq) from delivery d
    where d.session_id = %(session)s and d.message_id = voids.message_id and d.channel = %(channel)s
) as upto
from voids where voids.message_id is not null or voids.void_id is not null
order by voids.seq limit %(limit)s

-- name: read_turn
-- What counts for the limits of the turn that a message up to a seq began: answers, calls, results, and its last stop.
select e.id, e.session_id, e.seq, e.event_type, e.data, e.created_at, e.consolidated_at, e.task_id, e.tool_name,
       e.principal
from event e
where e.session_id = %(session)s and e.created_at >= %(low)s and e.created_at <= %(high)s
  and e.seq > %(after)s and e.seq <= %(upto)s
  and e.event_type in ('UserMessage', 'AssistantResponse', 'ToolCall', 'ToolResult', 'PolicyDecision')
  and e.seq >= coalesce((
      select max(m.seq) from event m
      where m.session_id = %(session)s and m.created_at >= %(low)s and m.created_at <= %(high)s
        and m.seq > %(after)s and m.seq <= %(upto)s and m.event_type = 'UserMessage'
  ), 0)
order by e.seq limit %(limit)s

-- name: get_last_user_text
-- A person's last message.
select e.data ->> 'text' as text from event e
where e.session_id = %(session)s and e.event_type = 'UserMessage' and e.created_at >= %(low)s and e.created_at <= %(high)s
  and coalesce(e.data ->> 'origin', 'user') = 'user' and e.seq > %(after)s and e.seq <= %(upto)s
order by e.seq desc limit 1
