"""The page: memory in a browser, rendered on the server, over the functions that every front end calls."""
