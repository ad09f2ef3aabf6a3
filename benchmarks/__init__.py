"""Measures the product on this machine: mostly ratios of two things that ran interleaved on one server."""
