"""What is learned from the log: pure functions, events in, proposals out. No database and no network in here."""
