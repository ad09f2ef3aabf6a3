-- name: lock
-- Held by the connection of a living process; the database releases it when the process or its machine is gone.
select pg_advisory_lock(hashtextextended('consolidator.executor:' || %(executor)s, 0))

-- name: try_lock
select pg_try_advisory_lock(hashtextextended('consolidator.executor:' || %(executor)s, 0))

-- name: unlock
select pg_advisory_unlock(hashtextextended('consolidator.executor:' || %(executor)s, 0))

-- name: notice_dead_peers
-- Ends this session soon after its client's machine is gone, so that its locks are free.
select set_config('tcp_keepalives_idle', %(seconds)s, false), set_config('tcp_keepalives_interval', %(seconds)s, false),
    set_config('tcp_keepalives_count', '3', false)
