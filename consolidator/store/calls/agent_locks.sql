-- name: lock
-- One merge of an agent at a time; the lock is held until the transaction ends.
select pg_advisory_xact_lock(hashtextextended('consolidator.merge:' || %(agent)s, 0))

-- name: lock_shared
-- Any number of transactions may learn about an agent at once; none merges it meanwhile.
select pg_advisory_xact_lock_shared(hashtextextended('consolidator.merge:' || %(agent)s, 0))
