"""`auto` chooses between models that a conversation can ask: not the command line of a coding agent."""

from __future__ import annotations

import pytest

from consolidator.runtime.session.routing import candidate_models
from consolidator.settings import Settings


@pytest.mark.parametrize(("extract", "cheap"), [("small", "small"), ("claude-code/haiku", "large"), (None, "large")])
def test_the_cheap_model_is_one_that_answers_conversations(extract: str | None, cheap: str) -> None:
    assert candidate_models(Settings(model="large", extract_model=extract)) == (cheap, "large")
