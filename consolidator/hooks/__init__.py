"""Hooks of coding agents: the program that they run, and the service that it asks over a private socket."""
