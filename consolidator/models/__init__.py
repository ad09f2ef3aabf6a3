"""The typed rows of tables, one noun a file; what a column means stands on its line of `migrations/schema.sql`.

Nothing here reads or writes the database.
"""

PEOPLE_ONLY = "people_only"  # in the metadata of a row's field: no program gets it
ESCAPED = {"escaped": True}  # metadata of a row's text that the table holds as `database.jsonb.escape` writes it
