-- name: reserve
-- Reserves money for a call, unless it would pass the session's cap or another harness holds the session.
with locked_session as (
    update session
    set reserved = reserved + coalesce(%(amount)s::numeric, 0)
    where id = %(session)s
      and (%(epoch)s::bigint is null or lease_epoch = %(epoch)s)
      and (max_cost is null or cost + reserved + %(amount)s::numeric <= max_cost)
    returning id, turns
)
insert into spend (call_id, session_id, message_id, purpose, model, day, reserved, input_tokens, output_tokens, tier,
                   strategy, turn, reserved_at)
select %(call)s, id, %(message)s, %(purpose)s, %(model)s, (%(now)s::timestamptz at time zone 'UTC')::date,
       coalesce(%(amount)s::numeric, 0), %(input)s, %(output)s, %(tier)s, %(strategy)s,
       coalesce(%(turn)s::integer, turns), %(now)s
from locked_session

-- name: get_budget
select cost, reserved, max_cost, lease_epoch from session where id = %(session)s

-- name: settle
-- Replaces a call's reserve by what it took, once; the session's row is locked first, as in `reserve`.
with locked_session as (
    select id from session where id = (select session_id from spend where call_id = %(call)s) for update
), closed as (
    update spend
    set cost = %(cost)s, input_tokens = %(input)s, cached_tokens = %(cached)s, output_tokens = %(output)s,
        settled_at = %(now)s
    from locked_session
    where call_id = %(call)s and session_id = locked_session.id and settled_at is null
    returning session_id, reserved
)
update session
set cost = cost + coalesce(%(cost)s::numeric, 0), reserved = session.reserved - closed.reserved,
    input_tokens = input_tokens + %(input)s, cached_tokens = cached_tokens + %(cached)s,
    output_tokens = output_tokens + %(output)s
from closed
where id = closed.session_id

-- name: get_call
select * from spend where call_id = %(call)s

-- name: settle_open
-- What a dead process had reserved counts as spent: nobody knows what its calls took.
with locked_session as (
    select id from session where id = %(session)s for update
), closed as (
    update spend set cost = case when tier is null then null else reserved end, settled_at = %(now)s
    from locked_session
    where session_id = locked_session.id and settled_at is null
    returning reserved, input_tokens, output_tokens
), summed as (
    select count(*) as calls, coalesce(sum(reserved), 0) as reserved, coalesce(sum(input_tokens), 0)::bigint as input,
           coalesce(sum(output_tokens), 0)::bigint as output
    from closed
), booked as (
    update session
    set cost = cost + summed.reserved, reserved = session.reserved - summed.reserved,
        input_tokens = input_tokens + summed.input, output_tokens = output_tokens + summed.output
    from summed
    where id = %(session)s and summed.calls > 0
)
select calls from summed

-- name: sum_costs
-- What model calls cost, summed by %(by)s; the nights' calls are included, except by turn.
with paid as (
    select s.session_id, s.turn, s.day, s.model, s.purpose, s.strategy, s.tier, s.input_tokens, s.cached_tokens,
           s.output_tokens, s.cost, case when s.settled_at is null then s.reserved end as aside, s.settled_at
    from spend s
    union all
    select c.session_id, null, (c.created_at at time zone 'UTC')::date, c.model, 'night: ' || c.purpose, null, null,
           c.input_tokens, c.cached_tokens, c.output_tokens, c.cost,
           case when c.settled_at is null then c.reserved_cost end, c.settled_at
    from model_call c
), named as (
    select p.*, n.agent, case %(by)s
               when 'turn' then p.session_id || ':' || (p.turn + 1)
               when 'session' then coalesce(p.session_id, case when p.turn is null then '(nights)' else '(erased)' end)
               when 'agent' then coalesce(n.agent, case when p.turn is null then '(nights)' else '(erased)' end)
               when 'strategy' then coalesce(p.strategy, '(nights)')
               when 'day' then p.day::text
               when 'model' then p.model
               when 'purpose' then p.purpose
               else 'all'
           end as name
    from paid p left join session n on n.id = p.session_id
    where (%(session)s::text is null or p.session_id = %(session)s)
      and (%(agent)s::text is null or n.agent = %(agent)s)
      and (%(since)s::date is null or p.day >= %(since)s)
      and (not %(turns)s or p.turn is not null)
)
select name, count(*) as calls, sum(input_tokens)::bigint as input_tokens, sum(cached_tokens)::bigint as cached_tokens,
       sum(output_tokens)::bigint as output_tokens, coalesce(sum(cost), 0) as cost, coalesce(sum(aside), 0) as set_aside,
       count(*) filter (where settled_at is not null and cost is null) as unpriced,
       count(*) filter (where tier = 'cheap') as cheap, count(*) filter (where tier is not null) as priced
from named
group by name, case when %(by)s = 'turn' then session_id end
order by case when %(by)s = 'turn' then max(session_id) end, case when %(by)s = 'turn' then max(turn) end,
         case when %(by)s = 'day' then name end, sum(coalesce(cost, aside, 0)) desc, name
limit %(limit)s
