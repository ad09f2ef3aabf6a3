"""The HTTP side of the service within bounds: connections, time for each request, lines of its log.

uvicorn bounds headers and idle connections; `connections` adds what it lacks. What requests cost the database is
bounded in `service/request_limits.py`, beside what they ask for.
"""
