"""Measures what the nights learn: next calls, error pairs, false positives of redaction."""
