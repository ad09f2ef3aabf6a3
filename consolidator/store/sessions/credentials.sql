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
