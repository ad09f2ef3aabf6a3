-- name: unread_sessions
select id from session
where greatest(extracted_to, pruned_to) < consolidated_to and not simulated order by agent, id

-- name: advance
-- Changes nothing if another run has moved the watermark meanwhile.
update session set extracted_to = %(upto)s where id = %(id)s and extracted_to = %(after)s
