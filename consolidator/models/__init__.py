"""The typed rows of tables, one noun a file; what a column means stands on its line of `migrations/schema.sql`.

Nothing here reads or writes the database.
"""
