"""What every kind of unit of a night shares."""

from __future__ import annotations

WINDOW = 2000  # events read at once


class WatermarkMoved(Exception):
    """Another run has moved the session's watermark since it was read: read again."""


async def nothing_to_bury(_unit: str) -> int:
    """A unit that has no events of its own leaves none unlearned."""
    return 0
