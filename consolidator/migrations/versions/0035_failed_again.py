"""What failed again though its fix was known, kept by each night, so that nobody has to count it again to show it."""

from __future__ import annotations

from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

TABLES = """
create table failed_again (
    run_id text not null references run (id) on delete cascade,
    agent text not null,
    solution_id text not null,
    times bigint default 0 not null,
    in_sessions bigint default 0 not null,
    primary key (run_id, agent, solution_id)
);
comment on table failed_again is 'The solutions whose errors a night read of though the fix was known before it.';
"""


def upgrade() -> None:
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("drop table failed_again")
