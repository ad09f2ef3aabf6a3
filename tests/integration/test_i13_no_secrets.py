"""I13: no credential that is in the log is in memory, in what is printed or exported, or in the program's own log."""
