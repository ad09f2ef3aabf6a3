"""Amounts of money that people type."""

from consolidator.runtime.agent_defaults import parse_amount

__all__ = ["parse_amount"]
