-- Queries on what programs keep under a namespace and a key.

-- name: of_prefix
-- The namespaces that begin with a prefix are a range of the primary key: `beyond` is the first one after them.
item.namespace >= %(prefix)s::text[] and (%(beyond)s::text[] is null or item.namespace < %(beyond)s::text[])
  and (item.expires_at is null or item.expires_at > %(now)s)

-- name: meets
-- Each condition holds of what stands at its path; what is not there is null.
not exists (
    select from jsonb_to_recordset(%(conditions)s) as condition(path text[], kind text, wanted jsonb)
    cross join lateral (
        select coalesce(item.value #> condition.path, 'null') as found, coalesce(wanted, 'null') as operand) as compared
    where not coalesce(
        case
            when condition.kind = '$eq' then found = operand
            when condition.kind = '$ne' then found <> operand
            when condition.kind = 'object' then jsonb_typeof(found) = 'object'
            when condition.kind = 'length' then
                case when jsonb_typeof(found) = 'array' then to_jsonb(jsonb_array_length(found)) = operand end
            when jsonb_typeof(found) <> jsonb_typeof(operand) then false
            when jsonb_typeof(found) not in ('number', 'string', 'boolean') then false
            when condition.kind = '$gt' then found > operand
            when condition.kind = '$gte' then found >= operand
            when condition.kind = '$lt' then found < operand
            when condition.kind = '$lte' then found <= operand
        end, false))

-- name: get
select item.namespace, item.key, item.value, item.created_at, item.updated_at
from store_item as item
where item.namespace = %(namespace)s::text[] and item.key = %(key)s
  and (item.expires_at is null or item.expires_at > %(now)s)

-- name: search
select item.namespace, item.key, item.value, item.created_at, item.updated_at
from store_item as item
where
    -- include: of_prefix
    and
    -- include: meets
order by item.updated_at desc, item.namespace, item.key
limit %(limit)s offset %(offset)s

-- name: vectors
select item.namespace, item.key, item.vectors
from store_item as item
where
    -- include: of_prefix
    and
    -- include: meets
order by item.updated_at desc, item.namespace, item.key

-- name: namespaces
-- One step of the primary key for each namespace, however many items it holds.
with recursive each_namespace as (
    (select item.namespace from store_item as item where
        -- include: of_prefix
     order by item.namespace limit 1)
    union all
    select (select item.namespace from store_item as item where
        -- include: of_prefix
        and item.namespace > each_namespace.namespace
        order by item.namespace limit 1)
    from each_namespace where each_namespace.namespace is not null
)
select distinct namespace[1:coalesce(%(max_depth)s::int, cardinality(namespace))] as namespace
from each_namespace
where namespace is not null and not exists (
    select from jsonb_to_recordset(%(patterns)s) as pattern(labels text[], at_end boolean)
    where cardinality(namespace) < cardinality(labels)
       or exists (
           select from unnest(labels) with ordinality as wanted(label, place)
           where label <> '*' and label <> namespace[
               place + case when at_end then cardinality(namespace) - cardinality(labels) else 0 end] collate "C"))
order by namespace limit %(limit)s offset %(offset)s

-- name: put
insert into store_item (namespace, key, value, vectors, created_at, updated_at, ttl_minutes, expires_at)
values (%(namespace)s::text[], %(key)s, %(value)s, %(vectors)s::bytea[], %(now)s, %(now)s, %(ttl_minutes)s,
        %(now)s + make_interval(secs => %(ttl_minutes)s::double precision * 60))
on conflict (namespace, key) do update
set value = excluded.value, vectors = excluded.vectors, updated_at = excluded.updated_at,
    ttl_minutes = excluded.ttl_minutes, expires_at = excluded.expires_at,
    created_at = case when store_item.expires_at <= excluded.updated_at then excluded.created_at
                      else store_item.created_at end

-- name: delete
delete from store_item where namespace = %(namespace)s::text[] and key = %(key)s

-- name: refresh
update store_item set expires_at = %(now)s + make_interval(secs => ttl_minutes * 60)
where namespace = %(namespace)s::text[] and key = %(key)s and ttl_minutes is not null and expires_at > %(now)s

-- name: delete_expired
-- Delete up to `batch` items whose time to live is over; return how many there were.
delete from store_item where ctid = any(array(
    select ctid from store_item where expires_at <= %(now)s order by expires_at limit %(batch)s for update skip locked))

-- name: erase_label
delete from store_item where %(label)s = any(namespace)
