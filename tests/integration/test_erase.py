"""Erasing a session or a peer takes what was derived from it, and nothing else; it is logged, and does not come back."""
