"""Observations: what agents found out about the code, the tools or the machine, and when it is believed."""
