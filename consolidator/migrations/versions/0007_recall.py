"""The index of recall: turns and facts, their words, their vectors."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TABLES = """
create sequence episode_block as bigint;
create sequence indexed_fact_number_seq as bigint;
create sequence corpus_id_seq as bigint;

create table episode (
    id bigint not null,
    session_id text not null,
    seq bigint default 0 not null,
    scope bigint default 0 not null,
    role text not null,
    speaker text,
    text text not null,
    occurred_at timestamptz not null,
    primary key (id)
);
create unique index episode_turn on episode (session_id, seq);
create index episode_day on episode (occurred_at);

create table indexed_fact (
    id text not null,
    number bigint default nextval('indexed_fact_number_seq') not null,
    agent text not null,
    scope bigint default 0 not null,
    sentence text not null,
    primary key (id)
);
create unique index indexed_fact_number on indexed_fact (number);
create index indexed_fact_agent on indexed_fact (agent);

create table posting (
    word bigint not null,
    scope bigint not null,
    ref bigint not null,
    primary key (word, scope, ref)
) with (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_insert_threshold = 10000);

create table corpus (
    id bigint default nextval('corpus_id_seq') not null,
    scope bigint default 0 not null,
    agent text not null,
    project text,
    peer text,
    turns bigint default 0 not null,
    turn_words bigint default 0 not null,
    facts bigint default 0 not null,
    fact_words bigint default 0 not null,
    primary key (id)
);
create index corpus_agent on corpus (agent);

create table embedding (
    kind text not null,
    number bigint not null,
    scope bigint default 0 not null,
    model text not null,
    vector real[] not null,
    primary key (kind, number)
);
create index embedding_scope on embedding (scope, model);
alter table embedding alter column vector set storage external;
alter table episode add constraint episode_role check (role in ('user', 'assistant'));
alter table embedding add constraint embedding_kind check (kind in ('turn', 'fact'));
"""

COMMENTS = """
comment on table episode is 'Turns as recall searches them: redacted and bounded.';
comment on table indexed_fact is 'Facts as the index has them.';
comment on table posting is 'The inverted index: words of turns and facts, by scope, packed into 63 bits.';
comment on table corpus is 'Document counts and lengths of each scope, for BM25.';
comment on table embedding is 'Vectors of turns and facts.';
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(COMMENTS)


def downgrade() -> None:
    for table in ("embedding", "corpus", "posting", "indexed_fact", "episode"):
        op.execute(f"drop table {table}")
    for sequence in ("episode_block", "indexed_fact_number_seq", "corpus_id_seq"):
        op.execute(f"drop sequence {sequence}")
