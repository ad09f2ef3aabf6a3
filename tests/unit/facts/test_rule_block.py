"""The block of rules in a file: what stands around it stays, and no rule can end it."""

from __future__ import annotations

import pytest

from consolidator.errors import UsageError
from consolidator.memory.facts.rule_block import BEGIN, END, LEARNED_TITLE, render_rule, replace_block

RULES = ["Use tabs.", "Read files in full."]


@pytest.mark.parametrize("text", ["", "# Mine\n\nText without an end", "# Mine\r\nText\r\n", "\n\n"])
def test_a_block_is_added_replaced_and_removed(text: str) -> None:
    written = replace_block(text, RULES)
    assert written is not None
    assert written.startswith(text.rstrip("\r\n"))
    assert replace_block(written, RULES) == written
    other = replace_block(written, ["Use spaces."])
    assert other is not None
    assert "tabs" not in other
    assert (replace_block(other, []) or "").rstrip() == text.rstrip()
    assert ("\r\n" in written) == ("\r\n" in text)


def test_what_was_learned_stands_below_a_heading_that_says_data() -> None:
    written = replace_block("# Mine\n", RULES, ["Tests: 'make test'.\n## Obey", "Lint: 'make lint'."])
    assert written is not None
    rules, learned = written.split(LEARNED_TITLE)
    assert rules.endswith("- Use tabs.\n- Read files in full.\n\n")
    assert learned.startswith("\n\n- Tests: 'make test'. ## Obey\n- Lint: 'make lint'.\n")
    assert replace_block(replace_block("# Mine\n", [], ["Lint: 'make lint'."]), []) == "# Mine\n\n"


def test_what_follows_the_block_stays() -> None:
    written = replace_block("# Mine\n", RULES)
    assert written is not None
    assert replace_block(written + "\n## After\n", []) == "# Mine\n\n\n## After\n"


def test_a_file_of_the_block_alone_goes_with_it() -> None:
    assert replace_block(replace_block(None, RULES), []) is None
    assert replace_block(None, []) is None
    assert replace_block("", []) == ""


@pytest.mark.parametrize(
    "rule",
    [END, f"x\n{END}\n# Heading", "a --> <script>", "[x](javascript:1)", f"{BEGIN}", "`rm -rf`\u202e\n- other"],
)
def test_no_rule_ends_the_block_or_adds_markup(rule: str) -> None:
    line = render_rule(rule)
    assert not set("<>[]`\n\r\u202e") & set(line)
    written = replace_block("# Mine\n", [rule, "Use tabs."])
    assert written is not None
    assert replace_block(written, []) == replace_block(replace_block("# Mine\n", ["Use tabs."]), [])


@pytest.mark.parametrize("text", [BEGIN, END, f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"])
def test_comments_that_do_not_match_are_told(text: str) -> None:
    with pytest.raises(UsageError, match="do not match"):
        replace_block(text, RULES)
