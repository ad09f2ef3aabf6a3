-- name: list_native
-- The sessions that the runtime writes: of others, the row says what their own log told.
select id from session where id > %(after)s and origin is null and recorded_by is null
order by id limit %(limit)s

-- name: sum_log
-- What a session's own log adds up to, and its calls in the ledger of spend.
select s.head, log.turns, log.compactions, coalesce(paid.input_tokens, 0)::bigint as input_tokens,
       coalesce(paid.output_tokens, 0)::bigint as output_tokens, coalesce(paid.cached_tokens, 0)::bigint as cached_tokens,
       coalesce(paid.cost, 0) as cost, coalesce(paid.reserved, 0) as reserved, log.scratchpad_set_at,
       coalesce(v.scratchpad_seq, 0) as scratchpad_seq, coalesce(v.upto, 0) as folded_to, log.has_blobs
from session s
left join session_view v on v.session_id = s.id
cross join lateral (
    select count(*) filter (
               where e.event_type = 'AssistantResponse' and e.data ? 'started_seq'
                 and e.data ->> 'finish' is distinct from 'interrupted'
                 and not exists (
                   select from event c
                   where c.session_id = e.session_id and c.seq = e.seq + 1 and c.event_type = 'ToolCall'
                     and c.data ->> 'message_id' is not distinct from e.data ->> 'message_id'
                 )
           ) as turns,
           count(*) filter (where e.data ->> 'decision' = 'compaction') as compactions,
           coalesce(max(e.seq) filter (where e.data ->> 'decision' = 'scratchpad_set'), 0) as scratchpad_set_at,
           coalesce(bool_or(e.data -> 'data_ref' ? '*'), false) as has_blobs
    from event e
    where e.session_id = s.id and e.created_at >= s.created_at and e.created_at <= s.last_event_at
      and e.event_type in ('AssistantResponse', 'PolicyDecision')
) as log
left join lateral (
    select sum(p.input_tokens) filter (where p.settled_at is not null) as input_tokens,
           sum(p.output_tokens) filter (where p.settled_at is not null) as output_tokens,
           sum(p.cached_tokens) filter (where p.settled_at is not null) as cached_tokens,
           sum(p.cost) as cost, sum(p.reserved) filter (where p.settled_at is null) as reserved
    from spend p
    where p.session_id = s.id or p.session_id in (
        select c.id from session c  -- paid for by it, too
        where c.parent_id = s.id and c.kind in ('branch', 'sub-agent') and not c.config ? 'rerun'
    )
) as paid on true
where s.id = %(session)s
