-- name: add
insert into injection (id, session_id, agent, project, moment, cited, tokens, call_id, fix, created_at)
values (%(id)s, %(session_id)s, %(agent)s, %(project!)s, %(moment)s, %(cited)s, %(tokens)s, %(call_id)s, %(fix)s, %(created_at)s)

-- name: list_unjudged
-- Return the fixes that a session was shown and of which nobody knows yet whether they were of use.
select * from injection where session_id = %(session_id)s and moment = 'failure' and outcome is null and fix <> '{}'
order by created_at, id limit %(limit)s

-- name: list_of_session
-- The newest first, since their number is bounded by the reader.
select * from injection where session_id = %(session_id)s order by created_at desc, id desc limit %(limit)s

-- name: find_call
-- Where a call stands in its session's log.
select seq from event
where session_id = %(session_id)s and event_type = 'ToolCall' and data ->> 'call_id' = %(call_id)s
order by seq limit 1

-- name: judge
update injection set outcome = %(outcome)s where id = %(id)s

-- name: delete_before
-- Those of lessons stay until their session is erased, as its trace does: what a lesson is worth is counted from them.
delete from injection where created_at < %(cutoff)s and array_to_string(cited, ' ') not like '%%lesson:%%'

-- name: sum_by_moment
-- Without the shadows of guards, which told nobody anything.
select moment, count(*) as times, count(distinct session_id) as sessions, sum(tokens)::bigint as tokens,
       count(*) filter (where outcome = 'worked') as worked,
       count(*) filter (where outcome = 'failed') as failed,
       count(*) filter (where outcome = 'not_tried') as not_tried
from injection where created_at >= %(since)s and fix ->> 'correction' is distinct from 'shadow'
group by moment order by moment

-- name: tellings
-- Which lessons some sessions were told.
select i.session_id, substr(cited.citation, length('lesson:') + 1) as lesson_id, i.created_at as at, i.call_id, i.moment,
       i.fix ->> 'correction' as correction
from injection i cross join unnest(i.cited) cited(citation)
where i.session_id = any(%(sessions)s) and starts_with(cited.citation, 'lesson:')

-- name: standing_facts
-- What people decided for one project, and what holds for its agent or its owner wherever; by support, then the latest.
-- Of observations and of choices among offered answers, which are mostly of one task, those that two sessions showed.
-- For each agent an index gives them in this order, so that a list ends with its first rows.
(select fact.* from unnest(%(agents)s::text[]) of (agent) cross join lateral (
    select * from fact
    where agent = of.agent and coalesce(project, '') = %(project)s and superseded_at is null and trust in ('person', 'user')
      and kind = any(%(kinds)s) and flagged is null and coalesce(peer, '') = '' and (valid_to is null or valid_to > %(now)s)
      and (confidence = 'explicit' or sessions > 1)
    order by sessions desc, valid_from desc, id limit %(limit)s
 ) fact order by sessions desc, valid_from desc, id limit %(limit)s)
union all
(select fact.* from unnest(%(agents)s::text[]) of (agent) cross join lateral (
    select * from fact
    where agent = of.agent and coalesce(project, '') = '' and superseded_at is null and trust in ('person', 'user')
      and kind = any(%(kinds)s) and flagged is null and coalesce(peer, '') = '' and (valid_to is null or valid_to > %(now)s)
      and (confidence = 'explicit' or sessions > 1)
    order by sessions desc, valid_from desc, id limit %(limit)s
 ) fact order by sessions desc, valid_from desc, id limit %(limit)s)
union all
(select fact.* from unnest(%(agents)s::text[]) of (agent) cross join lateral (
    select * from fact
    where agent = of.agent and project = %(project)s and superseded_at is null and kind = 'observation'
      and kind = any(%(kinds)s) and confidence = 'explicit' and flagged is null and (valid_to is null or valid_to > %(now)s)
    order by sessions desc, id limit %(limit)s
 ) fact order by sessions desc, id limit %(limit)s)

-- name: met_errors
select * from solution
where agent = any(%(agents)s) and project = %(project)s and (confirmed or sessions > 1) and retired_at is null and audience = any(%(audiences)s)
order by confirmed desc, sessions desc, occurrences desc, id limit %(limit)s

-- name: worth_of_fact
-- In how many sessions since it was believed a person said a fact, told it before and untold. A session is told by what
-- was shown before the person said it; sessions of the fact's own project count, or of any if it has none.
with told as (
    select session_id, min(created_at) as at from injection where %(citation)s = any(cited) group by session_id
), said as (
    select session_id, max(occurred_at) as at from candidate where id = any(%(evidence)s) group by session_id
), passed as (
    select s.id, told.at is not null and (said.at is null or said.at > told.at) as is_told,
           said.at is not null and (told.at is null or said.at > told.at) and said.at > %(since)s as is_said
    from session s left join told on told.session_id = s.id left join said on said.session_id = s.id
    where s.kind = 'root' and not s.simulated and s.last_occurred_at > %(since)s
      and (%(project)s::text is null or s.project = %(project)s)
)
select count(*) filter (where is_told) as told, count(*) filter (where is_told and is_said) as told_said,
       count(*) filter (where not is_told) as untold, count(*) filter (where not is_told and is_said) as untold_said
from passed
