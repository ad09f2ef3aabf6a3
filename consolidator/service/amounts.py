"""Amounts of money that people type."""

from consolidator.runtime.session.agent_defaults import parse_amount

__all__ = ["parse_amount"]
