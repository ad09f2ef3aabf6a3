-- name: current
select coalesce(max(id) filter (where status = 'current'), 1)::int from revision

-- name: lock
lock table revision in share row exclusive mode

-- name: find_draft
select id from revision where status = 'draft' and model = %(model)s and choice = %(choice)s order by id desc limit 1

-- name: create_draft
insert into revision (id, model, choice, created_at)
select greatest(coalesce(max(id), 1), 1) + 1, %(model)s, %(choice)s, %(now)s from revision
returning id

-- name: get
select * from revision where id = %(id)s

-- name: list
select r.*, coalesce(reach.sessions, 0) as sessions, coalesce(reach.events, 0) as events,
       coalesce(read.candidates, 0) as candidates
from revision r
left join lateral (
    select count(*) as sessions, sum(upto - after)::bigint as events from revision_reach where revision = r.id
) as reach on true
left join lateral (
    select count(*) as candidates from candidate where revision = r.id and revision > 1 and rejected is null
) as read on true
order by r.id desc limit %(limit)s

-- name: get_reach
-- Return the last seq of a session that a revision has read; None where it has read none.
select upto from revision_reach where revision = %(revision)s and session_id = %(session)s

-- name: advance_reach
-- Changes nothing if another run has advanced it meanwhile, or the session was erased.
insert into revision_reach (revision, session_id, after, upto)
select %(revision)s, id, %(after)s, %(upto)s from session where id = %(session)s for key share
on conflict (revision, session_id) do update set upto = excluded.upto where revision_reach.upto = %(before)s

-- name: agents
-- The agents of the candidates that a revision read, that it would replace, and that it replaced.
select c.agent from candidate c join revision_reach r on r.session_id = c.session_id where r.revision = %(revision)s
union select agent from candidate where revision = %(revision)s and revision > 1
union select agent from candidate where retired_by = %(revision)s

-- name: retire
-- Where the revision has read, other revisions' candidates stop counting.
update candidate c set active = false, retired_by = %(id)s, reconciled = false
from revision_reach r
where r.revision = %(id)s and c.session_id = r.session_id and c.seq > r.after and c.seq <= r.upto
  and c.revision > 0 and c.revision <> %(id)s and c.active

-- name: activate
update candidate set active = true, reconciled = false
where revision = %(id)s and revision > 1 and not active and retired_by is null

-- name: deactivate
update candidate c set active = false, reconciled = false
from revision_reach r
where r.revision = %(id)s and c.session_id = r.session_id and c.seq > r.after and c.seq <= r.upto
  and c.revision = %(id)s and c.revision > 1 and c.active

-- name: reactivate_retired
update candidate set active = true, retired_by = null, reconciled = false where retired_by = %(id)s

-- name: replace_current
update revision set status = %(status)s where status = 'current'

-- name: set_current
update revision set status = 'current', promoted_at = coalesce(%(now)s, promoted_at) where id = %(id)s

-- name: clear_promotion
update revision set promoted_at = null where id = %(id)s

-- name: latest_former
select id from revision where status = 'former' order by promoted_at desc limit 1

-- name: discard
with candidates as (delete from candidate where revision = %(id)s and revision > 1 and not active),
     reach as (delete from revision_reach where revision = %(id)s)
update revision set status = 'discarded' where id = %(id)s

-- name: delete_retired
-- What a revision replaced before the cutoff: candidates, and facts that only they supported.
with facts as (
    delete from fact where superseded_reason = 'revision' and superseded_at < %(cutoff)s
)
delete from candidate c using revision r
where c.retired_by = r.id and r.promoted_at < %(cutoff)s and not exists (
    select from fact f
    where f.agent = c.agent and f.subject in (c.subject, c.as_subject) and f.predicate in (c.predicate, c.as_predicate)
      and c.id = any(f.evidence)
      and (f.superseded_reason is distinct from 'revision' or f.superseded_at >= %(cutoff)s)
)

-- name: believed
-- The facts that are believed, with the turns that prove them, as the facts before and after a change are compared.
select f.id, f.agent, f.level, coalesce(f.project, f.peer, '') as owner, f.subject, f.predicate, f.sentence,
       array(select distinct c.session_id || ':' || c.seq from candidate c where c.id = any(f.evidence)) as turns
from fact f where f.superseded_at is null order by f.id
