"""Lessons: what calls teach about commands, failures and files."""
