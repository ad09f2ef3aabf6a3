"""Readers of coding agents' logs: one agent a file, each a form of its records and what they say.

What proves that a person wrote something is stated at the top of each; docs/formats.md says the rest.
"""
