-- name: find_unchanged
-- The numbers of the files, from 1, that were read to their end as they are now.
select given.number
from unnest(%(format)s::text[], %(path!)s::text[], %(size)s::bigint[], %(mtime_ns)s::bigint[])
    with ordinality as given (format, path, size, mtime_ns, number)
join imported_file as known
    on known.format = given.format and known.path = given.path
    and known.size = given.size and known.mtime_ns = given.mtime_ns

-- name: remember_files
insert into imported_file (format, path, size, mtime_ns, imported_at)
select format, path, size, mtime_ns, %(now)s
from unnest(%(format)s::text[], %(path!)s::text[], %(size)s::bigint[], %(mtime_ns)s::bigint[])
    as given (format, path, size, mtime_ns)
on conflict (format, path) do update
set size = excluded.size, mtime_ns = excluded.mtime_ns, imported_at = excluded.imported_at

-- name: add_new_keys
-- Adds the keys that were never imported; in order, so that two importers never deadlock.
insert into imported_key (key)
select distinct key from unnest(%(keys)s::uuid[]) as key order by key
on conflict do nothing
returning key

-- name: place_keys
select place_keys(%(keys)s::uuid[], %(sessions)s, %(seqs)s)

-- name: find_places
select key, session_id, seq from imported_key where key = any(%(keys)s::uuid[]) and session_id is not null

-- name: filter_erased
select distinct session_id from erasure where session_id = any(%(sessions)s)

-- name: filter_own
-- Which of these are ids of this database's sessions, erased ones included.
select id from session where id = any(%(ids)s)
union
select session_id from erasure where session_id = any(%(ids)s)

-- name: lineage_root
select root_id from session where id = %(id)s

-- name: move_to_root
-- A session and its descendants, imported before its parent was known, move to the parent's lineage.
select id from move_to_root(%(id)s, %(root)s)

-- name: merge_again
-- The memory of sessions that moved is merged again. Rows are locked in the order in which a merge locks them, so that
-- the two never deadlock.
with errors as (
    update error_record set merged = false where (session_id, seq) in (
        select session_id, seq from error_record where session_id = any(%(moved)s)
        order by session_id collate "C", seq for update
    )
), candidates as (
    update candidate set reconciled = false where id in (
        select id from candidate where session_id = any(%(moved)s) order by id collate "C" for update
    )
)
update scope set version = version + 1
where (agent, project, peer) in (
    select agent, project, peer from scope
    where (agent, project) in (select memory, coalesce(project, '') from session where id = any(%(moved)s))
    order by agent collate "C", project collate "C", peer collate "C" for update
)

-- name: move_digests
-- Sessions that moved are those of the person of their new root, who may be new to these scopes.
with moved as (
    select s.id, s.memory as agent, coalesce(s.project, '') as project, coalesce(root.peer, '') as peer
    from session s join session root on root.id = s.root_id where s.id = any(%(moved)s)
), digests as (
    update digest d set peer = moved.peer from moved where d.session_id = moved.id and d.peer <> moved.peer
    returning moved.agent, moved.project, moved.peer
)
insert into scope (agent, project, peer, version)
select distinct agent, project, peer, 1 from digests
order by 1, 2, 3
on conflict (agent, project, peer) do update set version = scope.version + 1
