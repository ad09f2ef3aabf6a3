"""The session runtime beside the session stores of other libraries."""
