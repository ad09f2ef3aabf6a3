-- name: store
-- Stores a blob once; naming it again locks it and renews its grace period.
insert into blob (sha256, media_type, size, body, touched_at)
values (%(sha)s, %(media)s, %(size)s, %(body)s, %(now)s)
on conflict (sha256) do update set touched_at = greatest(blob.touched_at, excluded.touched_at)

-- name: add_reference
insert into blob_ref (session_id, seq, sha256) values (%(session)s, %(seq)s, %(sha)s) on conflict do nothing

-- name: read
-- The blobs that events of a window refer to.
select b.sha256, b.body from blob b where b.sha256 = any(%(shas)s)

-- name: read_ends
-- The beginning and the end of large bodies that nobody reads whole.
select sha256, substring(body from 1 for %(head)s) as head,
       substring(body from greatest(size - %(tail)s, %(head)s)::integer + 1) as tail
from blob where sha256 = any(%(shas)s)
