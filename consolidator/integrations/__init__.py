"""Agents that another framework drives, with this log as their memory. Each module needs its framework installed."""
