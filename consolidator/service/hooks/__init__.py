"""What coding agents get at their hooks: at a session's start, with a prompt, after a failed call."""
