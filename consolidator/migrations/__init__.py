"""Alembic's migrations: env.py, and one version a subject in versions/.

`database.upgrade` runs them on start. They are static SQL, written by hand, and import nothing from the package but
the table metadata, for the drift check.
"""
