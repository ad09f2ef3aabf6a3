"""Scopes are learned from their latest digests: no sums are kept, and what changed is noted by person, too.

Sums and scopes are functions of the digests. The next merge publishes each scope again, one after another.
"""

from __future__ import annotations

from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

UPGRADE = """
drop table sum_text;
drop table scope_sum;
drop table agent_sums;
drop index digest_new;
drop index digest_scope;
alter table digest drop column summed, drop column summed_keys, drop column summed_counts, drop column outcome,
    add column peer text default '' not null;
update digest d set peer = coalesce(case when root.id is null then s.peer else root.peer end, '')
from session s left join session root on root.id = s.root_id
where s.id = d.session_id and coalesce(case when root.id is null then s.peer else root.peer end, '') <> '';
create index digest_latest on digest (agent, last_at desc, session_id desc);
create index digest_latest_of_project on digest (agent, coalesce(project, ''), last_at desc, session_id desc);
create index digest_latest_of_person on digest (agent, peer, last_at desc, session_id desc);

delete from scope;
alter table scope drop constraint scope_pkey, drop column sessions, add column peer text default '' not null;
alter table scope add primary key (agent, project, peer);
insert into scope (agent, project, peer, version) select distinct agent, coalesce(project, ''), peer, 1 from digest;

create table merged_agent (
    agent text not null,
    form text not null,
    primary key (agent)
);
comment on table merged_agent is 'By which form an agent''s procedures were published; another publishes all again.';

create table scope_state (
    agent text not null,
    project text not null,
    audience text not null,
    keys bytea default ''::bytea not null,
    groups bytea default ''::bytea not null,
    texts bytea default ''::bytea not null,
    selected bytea default ''::bytea not null,
    primary key (agent, project, audience)
);
comment on table scope_state is 'What the last merge of a scope leaves for the next one: a cache of what digests say.';
"""

DOWNGRADE = """
drop table scope_state;
drop table merged_agent;

delete from scope where (agent, project, peer) not in (select agent, project, min(peer) from scope group by 1, 2);
update scope set version = version + 1;
alter table scope drop constraint scope_pkey, drop column peer, add column sessions integer default 0 not null;
alter table scope add primary key (agent, project);

drop index digest_latest;
drop index digest_latest_of_project;
drop index digest_latest_of_person;
alter table digest drop column peer, add column summed boolean default false not null, add column summed_keys bytea,
    add column summed_counts bytea, add column outcome integer default 0 not null;
create index digest_new on digest (agent) where not summed;
create index digest_scope on digest (agent, project);

create table agent_sums (
    agent text not null,
    version text not null,
    lineage bigint default 0 not null,
    primary key (agent)
);
create table scope_sum (
    agent text not null,
    project text not null,
    keys bytea default ''::bytea not null,
    totals bytea default ''::bytea not null,
    roots bytea default ''::bytea not null,
    audience text default 'all' not null,
    primary key (agent, project, audience)
);
alter table scope_sum alter column keys set storage external,
    alter column totals set storage external, alter column roots set storage external;
create table sum_text (
    agent text not null,
    part integer not null,
    keys bytea default ''::bytea not null,
    groups bytea default ''::bytea not null,
    texts bytea default ''::bytea not null,
    primary key (agent, part)
);
"""


def upgrade() -> None:
    op.execute(UPGRADE)


def downgrade() -> None:
    op.execute(DOWNGRADE)
