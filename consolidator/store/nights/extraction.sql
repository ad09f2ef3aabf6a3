-- name: unread_sessions
select id from session
where greatest(extracted_to, pruned_to) < consolidated_to and not simulated order by agent, id

-- name: shareable
-- Sessions of one scope, in order, that a model may read together: not where it has stopped in the middle of what rules have read, and
-- none of a sub-agent, whose user is an agent.
with member as (
    select id, agent, project, peer, (row_number() over (partition by agent, project, peer order by id) - 1) / %(size)s as part
    from session
    where id = any(%(ids)s) and not simulated and kind <> 'sub-agent'
      and (greatest(extracted_to, pruned_to) >= consolidated_to or extracted_to <= pruned_to)
)
select min(id) as first, array_agg(id order by id) as ids from member
group by agent, project, peer, part having count(*) > 1 order by first

-- name: advance
-- Changes nothing if another run has moved the watermark meanwhile.
update session set extracted_to = %(upto)s where id = %(id)s and extracted_to = %(after)s

-- name: finish_waiting
-- The model has read all that rules have learned from.
update session set awaits_model = false
where id = %(id)s and awaits_model and greatest(extracted_to, pruned_to) >= consolidated_to

-- name: list_waiting
select id from session where awaits_model order by id

-- name: stop_waiting
update session set awaits_model = false where id = %(id)s and awaits_model
