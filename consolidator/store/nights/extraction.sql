-- name: unread_sessions
select id from session
where greatest(extracted_to, pruned_to) < consolidated_to and not simulated order by agent, id

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
