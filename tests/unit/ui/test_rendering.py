"""Texts as the page shows them: cut, on one line where they are a preview, and with marks for what nobody sees."""

from __future__ import annotations

from consolidator.ui.view import make_environment, preview_text, show_text


def test_a_preview_is_one_line_and_tells_no_length() -> None:
    assert preview_text("one\n  two", 20) == "one two"
    assert preview_text("x" * 300, 10) == "x" * 10 + "…"
    assert "\u202e" not in preview_text("ab\u202ecd", 20)


def test_a_shown_text_is_escaped_once_and_cut_once() -> None:
    template = make_environment().from_string("{{ text | preview(5) }} {{ text | cut(5) }}")
    shown = template.render(text="<b>bold</b>")
    assert shown == "&lt;b&gt;bo… &lt;b&gt;bo… (11 characters in all)"
    assert show_text(show_text("x" * 10, 5), 3).endswith("(10 characters in all)")
