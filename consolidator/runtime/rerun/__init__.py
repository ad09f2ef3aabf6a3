"""Runs beside a session: branches, recorded sessions run again, their comparison, and replays."""
