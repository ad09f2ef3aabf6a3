"""The pages, one capability a file."""
