"""Candidates and facts, their revisions and rules, and who may see them."""
