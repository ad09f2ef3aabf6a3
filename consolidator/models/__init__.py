"""Tables and the typed rows of them, one noun a file.

A `<Noun>Table` says types, keys and indexes; a `<Noun>Row` says what each column means. Nothing here reads or writes
the database.
"""
