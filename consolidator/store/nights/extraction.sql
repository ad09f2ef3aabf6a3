-- name: late
-- Sessions whose events were learned from before a model could read them, and are still there.
select id from session
where greatest(extracted_to, pruned_to) < consolidated_to and not simulated order by agent, id

-- name: extracted
-- Says how far a model has read a session, unless another run has moved that since it was read.
update session set extracted_to = %(upto)s where id = %(id)s and extracted_to = %(after)s
