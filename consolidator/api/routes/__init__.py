"""The routes of the HTTP API, one resource a file: each reads a request, calls the service and writes the answer."""
