"""Sessions know that events of theirs wait for a model that could not be reached.

Rules have learned from these events; they are stamped when the model has read them, too.
"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table session add column awaits_model boolean default false not null")
    op.execute("create index session_awaits_model on session (id) where awaits_model")


def downgrade() -> None:
    op.execute("drop index session_awaits_model")
    op.execute("alter table session drop column awaits_model")
