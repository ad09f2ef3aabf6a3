-- name: current
select coalesce(max(id) filter (where status = 'current'), 1)::int as id from memory_generation

-- name: lock
lock table memory_generation in share row exclusive mode

-- name: draft_of
select id from memory_generation where status = 'draft' and model = %(model)s and choice = %(choice)s order by id desc limit 1

-- name: begin
insert into memory_generation (id, model, choice, created_at)
select greatest(coalesce(max(id), 1), 1) + 1, %(model)s, %(choice)s, %(now)s from memory_generation
returning id

-- name: get
select * from memory_generation where id = %(id)s

-- name: listing
select g.*, coalesce(r.sessions, 0) as sessions, coalesce(r.events, 0) as events, coalesce(c.sayings, 0) as sayings
from memory_generation g
left join lateral (
    select count(*) as sessions, sum(upto - after)::bigint as events from generation_reach where generation = g.id
) as r on true
left join lateral (
    select count(*) as sayings from candidate where generation = g.id and generation > 1 and rejected is null
) as c on true
order by g.id desc limit %(limit)s

-- name: reached
select after, upto from generation_reach where generation = %(generation)s and session_id = %(session)s

-- name: reach
-- Says how far a generation has read a session, unless another run has moved that since it was read, or it was erased.
insert into generation_reach (generation, session_id, after, upto)
select %(generation)s, id, %(after)s, %(upto)s from session where id = %(session)s for key share
on conflict (generation, session_id) do update set upto = excluded.upto where generation_reach.upto = %(before)s

-- name: agents
-- Whose sayings are its own, or give way to it, or gave way.
select c.agent from candidate c join generation_reach r on r.session_id = c.session_id where r.generation = %(id)s
union select agent from candidate where generation = %(id)s and generation > 1
union select agent from candidate where retired_by = %(id)s

-- name: retire
-- What was read before gives way, where the generation has read.
update candidate c set active = false, retired_by = %(id)s, reconciled = false
from generation_reach r
where r.generation = %(id)s and c.session_id = r.session_id and c.seq > r.after and c.seq <= r.upto
  and c.generation > 0 and c.generation <> %(id)s and c.active

-- name: activate
update candidate set active = true, reconciled = false
where generation = %(id)s and generation > 1 and not active and retired_by is null

-- name: deactivate
update candidate c set active = false, reconciled = false
from generation_reach r
where r.generation = %(id)s and c.session_id = r.session_id and c.seq > r.after and c.seq <= r.upto
  and c.generation = %(id)s and c.generation > 1 and c.active

-- name: bring_back
update candidate set active = true, retired_by = null, reconciled = false where retired_by = %(id)s

-- name: demote
-- The current one steps back.
update memory_generation set status = %(status)s where status = 'current'

-- name: promote
update memory_generation set status = 'current', promoted_at = coalesce(%(now)s, promoted_at) where id = %(id)s

-- name: unpromote
update memory_generation set promoted_at = null where id = %(id)s

-- name: former
select id from memory_generation where status = 'former' order by promoted_at desc limit 1

-- name: discard
with sayings as (delete from candidate where generation = %(id)s and generation > 1 and not active),
     reached as (delete from generation_reach where generation = %(id)s)
update memory_generation set status = 'discarded' where id = %(id)s

-- name: forget_outdated
-- What another generation took the place of, past retention.
with facts as (
    delete from fact where superseded_by = 'another generation' and superseded_at < %(cutoff)s
)
delete from candidate c using memory_generation g
where c.retired_by = g.id and g.promoted_at < %(cutoff)s and not exists (
    select from fact f
    where f.agent = c.agent and f.subject in (c.subject, c.as_subject) and f.predicate in (c.predicate, c.as_predicate)
      and c.id = any(f.evidence)
      and not (f.superseded_by = 'another generation' and f.superseded_at < %(cutoff)s)
)
