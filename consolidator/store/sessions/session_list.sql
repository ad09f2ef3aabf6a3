-- name: sessions
select * from session where true

-- name: sessions_of_person
-- Whose they are says the peer of their lineage's root; a session without a root that is there counts for itself.
select session.* from session left join session root on root.id = session.root_id
where coalesce(case when root.id is null then session.peer else root.peer end, '') = %(person)s

-- name: labels
-- The first part is what the index says.
session.labels <> '{}'::jsonb and session.labels @> %(labels)s

-- name: open
session.status = 'open'

-- name: ended
session.status = 'ended'

-- name: running
session.status = 'open' and session.lease_owner is not null and session.lease_until > %(now)s

-- name: waiting
session.status = 'open' and session.attention <> '{}'::jsonb

-- name: pending
session.status = 'open' and session.pending

-- name: failed
session.error is not null
