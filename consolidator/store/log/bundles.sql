-- name: list_chunks
-- The chunks of the messages that began within a span of a session, message after message.
select c.message_id, c.seq, c.delta, c.started_seq, c.after_seq, c.created_at
from generation_chunk c
where c.session_id = %(session)s and c.started_seq > %(after)s and c.started_seq <= %(upto)s
  and c.created_at >= %(low)s
order by c.started_seq, c.message_id, c.seq

-- name: list_deliveries
-- How far the messages that began within a span of a session reached their channels.
select message_id, channel, upto_seq, started_seq, sent_at from delivery
where session_id = %(session)s and started_seq > %(after)s and started_seq <= %(upto)s
order by started_seq, message_id, channel, upto_seq

-- name: get_view
select upto, summary, compaction_seq, compaction, scratchpad_seq, scratchpad from session_view
where session_id = %(session)s

-- name: lock
-- What an import writes beside the events of a session: it must not be erased or pruned meanwhile.
select head, pruned_to, last_event_at from session where id = %(session)s and origin is not null for update

-- name: add_chunks
-- Adds the chunks that are not there; none of a message that retention has pruned.
insert into generation_chunk (session_id, message_id, seq, started_seq, delta, created_at, after_seq, hash)
select %(session)s, new.message, new.seq, new.started, new.delta, %(at)s, new.after,
       hash_output(%(session)s, new.message, null, new.delta, new.seq, new.started, new.after, %(at)s)
from unnest(%(message_id!)s::text[], %(seq)s::bigint[], %(started_seq)s::bigint[], %(delta!)s::text[],
            %(after_seq)s::bigint[]) as new (message, seq, started, delta, after)
where new.started > %(pruned_to)s and not exists (
    select from generation_chunk c
    where c.session_id = %(session)s and c.message_id = new.message and c.seq = new.seq
)

-- name: move_last_event
-- Events that come later than a chunk have a later time.
update session set last_event_at = greatest(last_event_at, %(at)s) where id = %(session)s

-- name: add_deliveries
insert into delivery (session_id, message_id, channel, upto_seq, started_seq, sent_at, hash)
select %(session)s, new.message, new.channel, new.upto, new.started, new.sent,
       hash_output(%(session)s, new.message, new.channel, null, new.upto, new.started, null, new.sent)
from unnest(%(message_id!)s::text[], %(channel!)s::text[], %(upto_seq)s::bigint[], %(started_seq)s::bigint[],
            %(sent_at)s::timestamptz[]) as new (message, channel, upto, started, sent)
where new.started > %(pruned_to)s
on conflict do nothing

-- name: restore
-- What a bundle says of its session, unless a later bundle of it was imported before.
update session
set state = %(state)s, config = %(config)s, max_cost = %(max_cost)s, turns = %(turns)s,
    input_tokens = %(input_tokens)s, output_tokens = %(output_tokens)s, cached_tokens = %(cached_tokens)s,
    cost = %(cost)s, compactions = %(compactions)s, context_window = %(context_window)s, labels = %(labels)s,
    trigger_type = %(trigger_type!)s, trigger_id = %(trigger_id!)s, completed_at = %(completed_at)s,
    error = %(error!)s, open_task = %(open_task!)s, details = %(details)s
where id = %(session)s and origin is not null and head <= %(head)s

-- name: add_checkpoint
insert into checkpoint (id, session_id, seq, label, metadata, delta, fold, created_at, expires_at)
values (%(id)s, %(session_id)s, %(seq)s, %(label)s, %(metadata)s, %(delta)s, %(fold)s, %(created_at)s, %(expires_at)s)
on conflict do nothing
