"""Commands on the log and its database: sessions, events, export, erase, db."""
