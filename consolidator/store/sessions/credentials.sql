-- name: add
insert into credential (name, token_hash, scopes, agent, project, peer, created_at, expires_at)
values (%(name)s, %(token_hash)s, %(scopes)s, %(agent)s, %(project)s, %(peer)s, %(created_at)s, %(expires_at)s)
on conflict do nothing

-- name: list
select name, scopes, agent, project, peer, created_at, revoked_at, expires_at from credential order by created_at, name

-- name: revoke
update credential set revoked_at = coalesce(revoked_at, %(now)s) where name = %(name)s

-- name: find
select name, scopes, agent, project, peer, created_at, revoked_at, expires_at, token_hash from credential
where token_hash = %(token_hash)s


-- name: lock
-- Whether this transaction may do the request: false while another one does.
select pg_try_advisory_xact_lock(hashtextextended('api_request:' || %(credential)s || ':' || %(key)s, 0))

-- name: find_request
select * from api_request where credential = %(credential)s and key = %(key)s and created_at > %(since)s

-- name: remove_under_way
-- Remove the row by which a request was under way in a process.
delete from api_request
where credential = %(credential)s and key = %(key)s and status = %(status)s and answer = %(owner)s

-- name: add_request
insert into api_request (credential, key, request_hash, status, answer, location, session_id, created_at)
values (%(credential)s, %(key)s, %(request_hash)s, %(status)s, %(answer)s, %(location)s, %(session_id)s, %(created_at)s)
on conflict (credential, key) do update
set request_hash = excluded.request_hash, status = excluded.status, answer = excluded.answer,
    location = excluded.location, session_id = excluded.session_id, created_at = excluded.created_at
