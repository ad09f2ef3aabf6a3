"""Counted nouns."""


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
