"""Answers name their session, since one question may be about several; a unit asks about several at once."""

from __future__ import annotations

from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

KINDS = "'session', 'late_extraction', 'merge', 'draft', 'fact_index', 'turn_index'"


def upgrade() -> None:
    op.execute("alter table model_answer add column session_id text")
    op.execute("create index model_answer_session on model_answer (session_id) where session_id is not null")
    op.execute("alter table claim drop constraint claim_kind")
    op.execute(f"alter table claim add constraint claim_kind check (kind in ({KINDS}, 'shared_question'))")


def downgrade() -> None:
    op.execute("delete from claim where kind = 'shared_question'")
    op.execute("alter table claim drop constraint claim_kind")
    op.execute(f"alter table claim add constraint claim_kind check (kind in ({KINDS}))")
    op.execute("drop index model_answer_session; alter table model_answer drop column session_id")
