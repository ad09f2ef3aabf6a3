-- name: lock
-- Whether this transaction may do the request: false while another one does.
select pg_try_advisory_xact_lock(hashtextextended('api_request:' || %(credential)s || ':' || %(key)s, 0))

-- name: find
select * from api_request where credential = %(credential)s and key = %(key)s and created_at > %(since)s

-- name: remove_under_way
-- Remove the row by which a request was under way in a process.
delete from api_request
where credential = %(credential)s and key = %(key)s and status = %(status)s and answer = %(owner)s

-- name: add
insert into api_request (credential, key, request_hash, status, answer, location, session_id, created_at)
values (%(credential)s, %(key)s, %(request_hash)s, %(status)s, %(answer)s, %(location)s, %(session_id)s, %(created_at)s)
on conflict (credential, key) do update
set request_hash = excluded.request_hash, status = excluded.status, answer = excluded.answer,
    location = excluded.location, session_id = excluded.session_id, created_at = excluded.created_at
