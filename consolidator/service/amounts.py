"""Amounts of money that people type."""
