-- name: payer_ids
-- Who pays for a call: its session and, of a branch or sub-agent, the parent; a rerun leaves the original as it is.
array[%(session)s::text, (
    select own.parent_id from session own
    where own.id = %(session)s::text and own.kind in ('branch', 'sub-agent') and not own.config ? 'rerun'
)]

-- name: payers
-- The payers, locked in the order of all locks, with what an append needs of a session. Not `for update`: a row that a
-- reader adds for one of them meanwhile, such as its fold, would wait for the call, and the call for that row.
select s.id, s.max_cost, s.cost, s.reserved, s.lease_epoch, s.turns, s.head, s.last_event_at, s.open_task,
       coalesce(s.chain_hash, sha256(convert_to(s.id, 'UTF8'))) as chain_hash
from session s
where s.id = any(
    -- include: payer_ids
)
order by s.id collate "C" for no key update

-- name: insert_call
-- A call, at its reserve, of the session that is `allowed` to make it.
insert into spend (call_id, session_id, message_id, purpose, model, day, reserved, input_tokens, output_tokens, tier,
                   strategy, turn, reserved_at)
select %(call)s, id, %(message)s, %(purpose)s, %(model)s, (%(now)s::timestamptz at time zone 'UTC')::date,
       coalesce(%(amount)s::numeric, 0), %(input)s, %(output)s, %(tier)s, %(strategy)s,
       coalesce(%(turn)s::integer, turns), %(now)s
from allowed

-- name: reserve
-- Reserves money for a call, unless it would pass a cap of one who pays, or another harness holds the session.
with payers as materialized (
    -- include: payers
), allowed as (
    select id, turns from payers
    where id = %(session)s
      and (%(epoch)s::bigint is null or lease_epoch = %(epoch)s)
      and not exists (
          select from payers
          where max_cost is not null and (cost + reserved + %(amount)s::numeric <= max_cost) is not true
      )
), set_aside as (
    update session set reserved = session.reserved + coalesce(%(amount)s::numeric, 0)
    from payers where session.id = payers.id and exists (select from allowed)
)
-- include: insert_call

-- name: list_budgets
-- What a refused reserve was checked against: the session's own budget first.
select id, cost, reserved, max_cost, lease_epoch from session
where id = any(
    -- include: payer_ids
)
order by id <> %(session)s::text

-- name: settle
-- Replaces a call's reserve by what it took, once; those who pay are locked first, as in `reserve`.
with payers as materialized (
    -- include: payers
), closed as (
    update spend
    set cost = %(cost)s, input_tokens = %(input)s, cached_tokens = %(cached)s, output_tokens = %(output)s,
        settled_at = %(now)s
    where call_id = %(call)s and settled_at is null and exists (select from payers)
    returning reserved
)
update session
set cost = cost + coalesce(%(cost)s::numeric, 0), reserved = session.reserved - closed.reserved,
    input_tokens = input_tokens + %(input)s, cached_tokens = cached_tokens + %(cached)s,
    output_tokens = output_tokens + %(output)s
from closed
where id in (select payers.id from payers)

-- name: get_call
select session_id, model, reserved, cost, input_tokens, output_tokens, tier, settled_at from spend where call_id = %(call)s

-- name: settle_open
-- What a dead process had reserved counts as spent: nobody knows what its calls took.
with payers as materialized (
    -- include: payers
), closed as (
    update spend set cost = case when tier is null then null else reserved end, settled_at = %(now)s
    where session_id = %(session)s and settled_at is null and exists (select from payers)
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
    where id in (select payers.id from payers) and summed.calls > 0
)
select calls from summed

-- name: sum_costs
-- What model calls cost, summed by %(by)s; the nights' calls are included, except by turn. A session's are those that it
-- pays for, as its cap counts them: its branches' and sub-agents', too.
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
    where (%(session)s::text is null or p.session_id = any(array(
              select %(session)s union all
              select c.id from session c
              where c.parent_id = %(session)s and c.kind in ('branch', 'sub-agent') and not c.config ? 'rerun'
          )))
      and (%(agent)s::text is null or n.agent = %(agent)s)
      and (%(since)s::date is null or p.day >= %(since)s)
      and (not %(turns)s or p.turn is not null)
)
select name, count(*) as calls, sum(input_tokens)::bigint as input_tokens, sum(cached_tokens)::bigint as cached_tokens,
       sum(output_tokens)::bigint as output_tokens, coalesce(sum(cost), 0) as cost, coalesce(sum(aside), 0) as set_aside,
       count(*) filter (where settled_at is not null and cost is null) as unpriced,
       count(*) filter (where tier = 'cheap')::float8 / nullif(count(tier), 0) as cheap_share
from named
group by name, case when %(by)s = 'turn' then session_id end
order by case when %(by)s = 'turn' then max(session_id) end, case when %(by)s = 'turn' then max(turn) end,
         case when %(by)s = 'day' then name end, sum(coalesce(cost, aside, 0)) desc, name
