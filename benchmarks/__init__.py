"""Measures the product on this machine: ratios between two things done by turns in one run on one server."""
