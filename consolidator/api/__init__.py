"""The HTTP API: sessions, memory and nights under /v1, by the functions that every front end calls."""
