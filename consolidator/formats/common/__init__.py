"""Helpers that several formats share: find files, parse JSON, derive times, projects and outcomes.

Readers call these modules; these modules know no format and keep no state.
"""
