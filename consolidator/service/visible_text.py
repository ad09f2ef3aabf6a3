"""What front ends do with characters that nobody sees: none in answers, marked or escaped in a log's lines."""

from __future__ import annotations

from consolidator.memory.text.invisible import escape_invisible, mark_invisible, strip_invisible_in

__all__ = ["escape_invisible", "mark_invisible", "strip_invisible_in"]
