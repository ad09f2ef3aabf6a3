"""To whom a procedure, a tool profile and a solution may be shown; projects are found by an index.

What an earlier release published has no person: the owner of the machine sees it as before, and nobody else does until
the next night has published it again.
"""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("procedure", "tool_profile", "solution"):
        op.execute(f"alter table {table} add column audience text default 'all' not null")
    op.execute("alter table tool_profile drop constraint tool_profile_pkey")
    op.execute("alter table tool_profile add primary key (agent, project, audience, tool)")
    op.execute("alter table scope_sum add column by_person boolean default false not null")
    op.execute("alter table scope_sum drop constraint scope_sum_pkey")
    op.execute("alter table scope_sum add primary key (agent, project, by_person)")
    op.execute("create index session_project on session (project, agent, peer) where project is not null")
    # The next night publishes everything again, with its audience.
    op.execute("delete from agent_sums")
    op.execute("update scope set version = version + 1")
    op.execute("update error_record set merged = false")


def downgrade() -> None:
    op.execute("drop index session_project")
    op.execute("delete from scope_sum where by_person")
    op.execute("alter table scope_sum drop constraint scope_sum_pkey")
    op.execute("alter table scope_sum add primary key (agent, project)")
    op.execute("alter table scope_sum drop column by_person")
    for table in ("procedure", "tool_profile", "solution"):
        op.execute(f"delete from {table} where audience !~ '^all'")
    op.execute("alter table tool_profile drop constraint tool_profile_pkey")
    op.execute("alter table tool_profile add primary key (agent, project, tool)")
    for table in ("procedure", "tool_profile", "solution"):
        op.execute(f"alter table {table} drop column audience")
