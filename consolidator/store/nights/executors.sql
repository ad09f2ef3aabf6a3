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

-- name: end_silent
-- Ends the session that holds a process's lock and has said nothing for a while: the process is frozen.
select pg_terminate_backend(a.pid)
from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.database = a.datid and a.datname = current_database()
  and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('consolidator.executor:' || %(executor)s, 0)
  and a.state_change < clock_timestamp() - make_interval(secs => %(seconds)s)
