"""The log: sessions, events, recording, export, erasure."""
