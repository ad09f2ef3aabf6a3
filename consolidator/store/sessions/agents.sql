-- name: get
select * from agent where name = %(name)s

-- name: get_effective
-- An agent's defaults, and those of its tier where it has none. Its prompt is its own.
select a.name, a.version, coalesce(a.model, t.model) as model, a.system_prompt, a.template, a.template_version,
       a.parameters, coalesce(a.tools, t.tools) as tools, coalesce(a.max_cost, t.max_cost) as max_cost,
       coalesce(a.max_steps, t.max_steps) as max_steps, coalesce(a.answer_tokens, t.answer_tokens) as answer_tokens,
       coalesce(a.strategy, t.strategy) as strategy, coalesce(a.budget, t.budget) as budget,
       coalesce(a.last, t.last) as last, coalesce(a.compaction_threshold, t.compaction_threshold) as compaction_threshold,
       coalesce(a.session_ttl_seconds, t.session_ttl_seconds) as session_ttl_seconds,
       coalesce(a.checkpoint_ttl_seconds, t.checkpoint_ttl_seconds) as checkpoint_ttl_seconds,
       coalesce(a.retention_days, t.retention_days) as retention_days, a.tier, a.created_at, a.updated_at
from agent a left join agent t on t.name = a.tier
where a.name = %(name)s

-- name: list_all
-- Return agents by name; with `only` that one.
select * from agent where (%(only)s::text is null or name = %(only)s) order by name limit %(limit)s

-- name: reserve_name
-- So that of two first definitions of an agent the second one sees the first.
insert into agent (name, created_at, updated_at) values (%(name)s, %(now)s, %(now)s) on conflict do nothing

-- name: lock
select * from agent where name = %(name)s for update

-- name: save
update agent
set version = %(version)s, model = %(model)s, system_prompt = %(system_prompt)s, template = %(template)s,
    template_version = %(template_version)s, parameters = %(parameters)s, tools = %(tools)s, max_cost = %(max_cost)s,
    max_steps = %(max_steps)s, answer_tokens = %(answer_tokens)s, strategy = %(strategy)s, budget = %(budget)s,
    last = %(last)s, compaction_threshold = %(compaction_threshold)s, session_ttl_seconds = %(session_ttl_seconds)s,
    checkpoint_ttl_seconds = %(checkpoint_ttl_seconds)s, retention_days = %(retention_days)s, tier = %(tier)s,
    updated_at = %(now)s
where name = %(name)s
returning *

-- name: last_version
-- An agent that was deleted and is defined again goes on counting.
select coalesce(max(version), 0) as version,
       coalesce(max((definition ->> 'template_version')::integer), 0) as template_version
from agent_version where agent = %(name)s

-- name: add_version
insert into agent_version (agent, version, definition, created_at, changed_by)
values (%(name)s, %(version)s, %(definition)s, %(now)s, %(changed_by)s)

-- name: list_versions
select * from agent_version where agent = %(name)s order by version desc limit %(limit)s

-- name: delete
delete from agent where name = %(name)s

-- name: list_templates
-- The versions of an agent's template, the latest first, each with the defaults that it had last.
select distinct on (1) (definition ->> 'template_version')::integer as version, definition ->> 'template' as template,
       definition -> 'parameters' as parameters
from agent_version
where agent = %(name)s and definition ->> 'template' is not null
order by 1 desc, agent_version.version desc

-- name: list_template_names
select distinct agent from agent_version
where definition ->> 'template' is not null and (%(only)s::text is null or agent = %(only)s)
order by 1 limit 100
