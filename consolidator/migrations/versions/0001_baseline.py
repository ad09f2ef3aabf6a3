"""The schema of the first version: until a second migration comes, the page itself."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Whoever writes the second migration copies both files beside this one first, and reads the copies here.
    for name in ("schema.sql", "functions.sql"):
        text = (Path(__file__).parents[1] / name).read_text(encoding="utf-8")
        op.get_bind().exec_driver_sql(text, execution_options={"no_parameters": True})
