"""Alembic migrations, read by hand: env.py runs them on the connection it is handed."""
