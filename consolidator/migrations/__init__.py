"""The schema as one page of SQL (`schema.sql`, `functions.sql`), and Alembic's migrations of older databases to it.

A new database is made from the page, and runs no migration. A migration in `versions/` is static SQL, written by hand,
and imports nothing from the package; a test compares what the migrations make with what the page says.
"""
