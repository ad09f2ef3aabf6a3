-- name: add
insert into checkpoint (id, session_id, seq, label, metadata, delta, fold, created_at, expires_at)
values (%(id)s, %(session_id)s, %(seq)s, %(label)s, %(metadata)s, %(delta)s, %(fold)s, %(created_at)s, %(expires_at)s)

-- name: get
select * from checkpoint where id = %(id)s

-- name: get_latest
-- The checkpoint before a point, expired or not: what a delta is counted from.
select * from checkpoint where session_id = %(session)s and seq <= %(seq)s order by seq desc, created_at desc limit 1

-- name: get_last_unexpired
select * from checkpoint where session_id = %(session)s and (expires_at is null or expires_at > %(now)s)
order by seq desc, created_at desc limit 1

-- name: list_unexpired
-- The checkpoints of sessions, the latest points first.
select * from checkpoint where session_id = any(%(sessions)s::text[]) and (expires_at is null or expires_at > %(now)s)
order by seq desc, created_at desc limit %(limit)s

-- name: delete
-- Delete a checkpoint; False if there was none.
delete from checkpoint where id = %(checkpoint_id)s

-- name: delete_expired
delete from checkpoint where expires_at <= %(now)s

-- name: sum_spends
-- What the calls of models cost that a session made up to a time: its totals at an earlier point.
select coalesce(sum(input_tokens), 0)::bigint as input_tokens,
       coalesce(sum(output_tokens), 0)::bigint as output_tokens,
       coalesce(sum(cached_tokens), 0)::bigint as cached_tokens, coalesce(sum(cost), 0) as cost
from spend where session_id = %(session_id)s and settled_at is not null and reserved_at <= %(at)s
