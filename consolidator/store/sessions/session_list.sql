-- name: selected
-- A person's sessions are those whose lineage root has that peer. Without `kind`, a conversation's sessions are its runs:
-- a sub-agent's is one within a run.
select s.* from session s left join session root on root.id = s.root_id
where (%(agent)s::text is null or s.agent = %(agent)s)
  and (%(project)s::text is null or s.project = %(project)s)
  and (%(peer)s::text is null or s.peer = %(peer)s)
  and (%(key)s::text is null or s.key = %(key)s)
  and (%(conversation)s::text is null or s.conversation_id = %(conversation)s)
  and (%(parent)s::text is null or s.parent_id = %(parent)s)
  and (%(root)s::text is null or s.root_id = %(root)s)
  and (%(trigger_type)s::text is null or s.trigger_type = %(trigger_type)s)
  and (%(trigger_id)s::text is null or s.trigger_id = %(trigger_id)s)
  and (%(kind)s::text is null and (%(conversation)s::text is null or s.kind <> 'sub-agent') or s.kind = %(kind)s)
  and (%(labels)s::jsonb is null or s.labels <> '{}' and s.labels @> %(labels)s)  -- as the index says
  and (%(since)s::timestamptz is null or s.last_occurred_at >= %(since)s)
  and (%(hidden)s or not s.hidden)
  and (%(person)s::text is null or coalesce(case when root.id is null then s.peer else root.peer end, '') = %(person)s)
  and case %(status)s::text
      when 'open' then s.status = 'open'
      when 'ended' then s.status = 'ended'
      when 'running' then s.status = 'open' and s.lease_owner is not null and s.lease_until > %(now)s
      when 'waiting' then s.status = 'open' and s.attention <> '{}'
      when 'pending' then s.status = 'open' and s.pending
      when 'failed' then s.error is not null
      else true end

-- name: latest
-- By day, in the order of an index; with it few sessions are sorted, those of some days.
-- include: selected
  and (%(at)s::timestamptz is null
       or (s.last_occurred_at, s.id) < (%(at)s, %(last_id)s) and s.last_day <= (%(at)s at time zone 'UTC')::date)
order by s.last_day desc, s.last_occurred_at desc, s.id desc limit %(limit)s

-- name: created
-- include: selected
  and (%(at)s::timestamptz is null or (s.created_at, s.id) < (%(at)s, %(last_id)s))
order by s.created_at desc, s.id desc limit %(limit)s

-- name: runs
-- include: selected
  and (%(at)s::timestamptz is null or (s.created_at, s.id) > (%(at)s, %(last_id)s))
order by s.created_at, s.id limit %(limit)s
