"""Rates and times of single operations, each as a ratio to a baseline on the same server."""
