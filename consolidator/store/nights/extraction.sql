-- name: unread_sessions
select id from session
where greatest(extracted_to, pruned_to) < consolidated_to and not simulated order by agent, id

-- name: advance
-- Changes nothing if another run has moved the watermark meanwhile.
update session set extracted_to = %(upto)s where id = %(id)s and extracted_to = %(after)s

-- name: set_awaits_model
update session set awaits_model = true where id = any(%(ids)s)

-- name: finish_waiting
-- The model has read all that rules have learned from.
update session set awaits_model = false
where id = %(id)s and awaits_model and greatest(extracted_to, pruned_to) >= consolidated_to

-- name: list_waiting
select id from session where awaits_model order by id

-- name: stop_waiting
update session set awaits_model = false where id = %(id)s and awaits_model

-- name: list_dead_seqs
select seq from dead_letter where session_id = %(id)s and seq > %(after)s and seq <= %(upto)s and settled_at is null
