-- name: make
insert into setting (name, value) values ('night_digest', '{}') on conflict (name) do nothing

-- name: lock
select value from setting where name = 'night_digest' for update

-- name: store
update setting set value = %(value)s where name = 'night_digest'

-- name: previous_night
-- When the scheduled night before a run started; the run's own start where it is the first.
select coalesce((
    select max(before.started_at) from run before
    where before.job = 'consolidation' and before.trigger = 'schedule' and before.started_at < run.started_at
), run.started_at) as since
from run where run.id = %(run_id)s
